#include "simulate/testing/fleet_engines_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "simulate/fleet_simulation_state.h"
#include "simulate/shadow_kv.h"
#include "simulate/testing/shapes.h"

namespace causeway::simulate {
namespace {

using request::FinishReason;

constexpr std::int64_t kContextMax = 64;
constexpr std::int64_t kInstantsMax = 200'000;
constexpr Bytes kBlockBytes = mib(1);  // of KV frames, and of extents of weights
constexpr Nanos kTimeMax = seconds(3000);

// What is drawn: all that a history is. Nearly all requests and models fit any slice that there may
// be, so that requests end for other reasons.
struct DrawnFleet {
  FleetSimulationOptions options;
  Workload workload;
  // The least that any slice may have.
  std::int64_t frames_least = 0;
  Bytes weights_least = {};
};

constexpr double kTooLarge = 0.01;  // of requests and models: drawn whether they fit or not

class FleetDraw {
 public:
  explicit FleetDraw(std::uint64_t seed) : random_(seed), alphas_(mix64(seed)) {}
  DrawnFleet draw();

 private:
  Nanos around(double mean_ms) {
    return Nanos(static_cast<std::int64_t>(random_.exponential(mean_ms * 1e6)));
  }
  ModelShape shape(std::int64_t number, const DrawnFleet& drawn, std::int64_t vocab);
  void draw_machines(DrawnFleet& drawn);
  void draw_engine(SimulationOptions& slice);
  void draw_rotation(SimulationOptions& slice);
  void draw_fleet(FleetSimulationOptions& options);
  void draw_workload(DrawnFleet& drawn);
  std::vector<TokenId> prompt(std::int64_t vocab);
  void fit(std::int64_t tokens_max, Arrival& arrival);
  void draw_faults(DrawnFleet& drawn);
  void draw_alpha(DrawnFleet& drawn);
  FleetFault loss(const DrawnFleet& drawn, Nanos at);

  Random random_;
  Random alphas_;
  std::int64_t parts_most_ = 1;
  bool resizes_ = false;
  std::vector<std::vector<TokenId>> families_;
};

ModelShape FleetDraw::shape(std::int64_t number, const DrawnFleet& drawn, std::int64_t vocab) {
  const int groups = static_cast<int>(random_.between(3, 8));
  Bytes group = kib(random_.between(200, 3000));
  // One that stays, and two of a ring, each in extents of its own.
  const Bytes streams = (drawn.weights_least - kBlockBytes * 2) / 4;
  if (!random_.chance(kTooLarge)) group = std::min(group, std::max(streams, kib(100)));
  ModelShape shape;
  shape.name = "m" + std::to_string(number);
  shape.weights = shape.weights_always = group * groups;
  shape.flops_per_token = 2e8 * random_.uniform();
  shape.kv_per_token = kib(random_.between(8, 128));
  shape.tokens_per_block = Tokens(random_.between(1, 5));
  shape.max_model_len = Tokens(kContextMax);
  shape.vocab = vocab;
  shape.config.layers = groups - 2;
  shape.config.tied_embeddings = true;
  testing::add_groups(groups, group, shape);
  if (random_.chance(0.5)) {
    shape.config.tied_embeddings = false;
    shape.reading.back().readable_at_home = true;
    shape.reading.back().stays = false;
    shape.cached = weights::cached_model(shape.layout, shape.reading);
  }
  return shape;
}

// What a whole machine has, divided.
void FleetDraw::draw_machines(DrawnFleet& drawn) {
  FleetSimulationOptions& options = drawn.options;
  constexpr std::array<std::int64_t, 3> kParts = {1, 2, 4};
  options.machines = random_.between(1, 3);
  options.slices = kParts[static_cast<std::size_t>(random_.below(3))];
  resizes_ = random_.chance(0.4);
  parts_most_ = resizes_ ? 4 : options.slices;
  SimulationOptions whole;
  HardwareProfile& profile = whole.profile;
  profile.name = "drawn";
  profile.flops_per_second = 1e12;
  profile.memory_bytes_per_second = profile.attention_bytes_per_second = 1e12;
  profile.step_overhead = micros(random_.between(50, 1000));
  profile.plain_launch = random_.chance(0.3) ? micros(random_.between(10, 500)) : Nanos(0);
  profile.copy_slowdown = random_.chance(0.5) ? 0.07 : 0;
  profile.link_bytes_per_second =
      static_cast<double>(kBlockBytes.count) * 50 * static_cast<double>(random_.between(1, 100));
  whole.kv_memory = kBlockBytes * random_.between(4 * parts_most_, 100);
  profile.memory = whole.kv_memory + kBlockBytes * random_.between(4 * parts_most_, 80);
  options.slice = divided(whole, 1, options.slices);
  const SimulationOptions least = divided(whole, 1, parts_most_);
  drawn.frames_least = least.kv_memory / kBlockBytes;
  drawn.weights_least =
      kBlockBytes * ((least.profile.memory - least.kv_memory) / kBlockBytes);  // whole extents
}

void FleetDraw::draw_engine(SimulationOptions& slice) {
  slice.frame = slice.residency.extent = kBlockBytes;
  slice.residency.quantum_min = micros(random_.between(0, 30'000));
  slice.residency.quantum_factor = 4 * random_.uniform();
  slice.residency.arrivals_max = static_cast<int>(random_.between(1, 2));
  slice.residency.attempts_max = static_cast<int>(random_.between(1, 3));
  slice.prefix_caching = random_.chance(0.8);
  slice.shadow_kv = true;
  slice.schedule.policy =
      random_.chance(0.5) ? schedule::PolicyKind::kFcfs : schedule::PolicyKind::kPriority;
  slice.schedule.tokens_per_step_max = random_.between(4, 40);
  slice.schedule.running_max = random_.between(1, 12);
  slice.schedule.chunk.automatic = random_.chance(0.3);
  slice.schedule.chunk.least = Tokens(random_.between(1, 4));
  slice.step_start = static_cast<engine::StepStart>(random_.below(3));
  slice.step_timeout = seconds(5);
  slice.whole_models = random_.chance(0.1);
  slice.copies_out = slice.whole_models && random_.chance(0.5);
  slice.seed = random_.bits();
  slice.virtual_time_max = kTimeMax;
  if (random_.chance(0.4)) draw_rotation(slice);
  if (!random_.chance(0.3)) return;
  slice.faults = {.error_rate = 0.005,
                  .refuse_rate = 0.003,
                  .slow_rate = 0.02,
                  .hang_rate = random_.chance(0.2) ? 0.002 : 0.0,
                  .hang = seconds(20),
                  .copy_error_rate = 0.03 * random_.uniform()};
}

void FleetDraw::draw_rotation(SimulationOptions& slice) {
  constexpr std::int64_t kPolicies = 9, kPreemptions = 3;
  const auto rate = [&] {
    return static_cast<double>(kBlockBytes.count) * 1e3 *
           static_cast<double>(random_.between(1, 100));
  };
  slice.kv_host_memory = kBlockBytes * random_.between(parts_most_, 100);
  slice.profile.kv_in_bytes_per_second = rate();
  slice.profile.kv_out_bytes_per_second = rate();
  slice.rotation.frames_share_max = 0.02 + 0.4 * random_.uniform();
  slice.schedule.policy = static_cast<schedule::PolicyKind>(random_.below(kPolicies));
  slice.schedule.preemption = static_cast<schedule::PreemptionKind>(random_.below(kPreemptions));
}

void FleetDraw::draw_fleet(FleetSimulationOptions& options) {
  const bool moves = random_.chance(0.5);
  options.models_max = moves ? 0 : random_.below(4);
  options.placement = static_cast<fleet::PlacementKind>(random_.below(5));
  options.fleet = {.waiting_max = random_.chance(0.05) ? random_.between(2, 20) : 1000,
                   .loads_max = random_.between(1, 3),
                   .room_timeout = millis(random_.between(1, random_.chance(0.2) ? 200 : 20'000)),
                   .drain_after = std::nullopt,
                   .resumes_max = random_.below(4),
                   .resume_timeout = millis(random_.between(50, 5000)),
                   .return_timeout = millis(random_.between(1, 5000)),
                   .moves = moves,
                   .seed = random_.bits()};
  if (random_.chance(0.6)) options.fleet.drain_after = millis(random_.between(0, 500));
  options.load_ahead = random_.chance(0.5);
  options.attach = micros(random_.between(0, 5000));
  if (random_.chance(0.5)) options.disk_bytes_per_second = 2e6 + 1e9 * random_.uniform();
  // Not so short that it passes too often while a link hangs.
  if (random_.chance(0.3)) options.unload_timeout = micros(random_.between(1'000, 20'000));
  options.lets_go = true;
  if (!random_.chance(0.4)) return;
  Bytes all, most;
  for (const ModelShape& model : options.slice.models) {
    all += model.layout.bytes;
    most = std::max(most, model.layout.bytes);
  }
  options.host_memory = Bytes(random_.between(most.count, all.count));
}

// Some begin alike.
std::vector<TokenId> FleetDraw::prompt(std::int64_t vocab) {
  const std::int64_t tokens = random_.between(1, random_.chance(0.8) ? 16 : 40);
  const auto& family = families_[static_cast<std::size_t>(random_.below(3))];
  const std::int64_t shared = random_.between(0, tokens);
  std::vector<TokenId> prompt;
  for (std::int64_t i = 0; i < tokens; ++i) {
    prompt.push_back(i < shared ? family[static_cast<std::size_t>(i)]
                                : static_cast<TokenId>(random_.below(vocab)));
  }
  return prompt;
}

// Fits a prompt and its answer: at least a token each, whatever the most is.
void FleetDraw::fit(std::int64_t tokens_max, Arrival& arrival) {
  if (random_.chance(kTooLarge)) return;
  auto& prompt = arrival.prompt_ids;
  const std::int64_t most = std::max<std::int64_t>(1, tokens_max - 1);
  if (std::ssize(prompt) > most) prompt.resize(static_cast<std::size_t>(random_.between(1, most)));
  const std::int64_t left = std::max<std::int64_t>(1, tokens_max - std::ssize(prompt));
  arrival.output = std::min(arrival.output, Tokens(left));
}

void FleetDraw::draw_workload(DrawnFleet& drawn) {
  const std::vector<ModelShape>& models = drawn.options.slice.models;
  const std::int64_t vocab = models.front().vocab;
  families_.resize(3);
  for (auto& family : families_) {
    for (int i = 0; i < kContextMax; ++i) {
      family.push_back(static_cast<TokenId>(random_.below(vocab)));
    }
  }
  const double gap = random_.uniform() * (random_.chance(0.5) ? 3 : 30);
  const std::int64_t longest = random_.chance(0.5) ? 4 : 24;
  Nanos at;
  for (std::int64_t i = random_.between(1, random_.chance(0.05) ? 400 : 40); i > 0; --i) {
    if (!random_.chance(0.1)) at += around(gap);  // some come at the same time
    Arrival arrival;
    arrival.at = at;
    arrival.model = static_cast<std::size_t>(random_.below(std::ssize(models)));
    arrival.prompt_ids = prompt(vocab);
    arrival.output = Tokens(random_.between(1, longest));
    fit(drawn.frames_least * models[arrival.model].tokens_per_block.count, arrival);
    arrival.prompt = Tokens(std::ssize(arrival.prompt_ids));
    arrival.slo.ttft = micros(random_.between(1'000, 100'000));
    arrival.slo.tpot = micros(random_.between(500, 20'000));
    arrival.priority = static_cast<std::int32_t>(random_.between(-2, 2));
    drawn.workload.push_back(std::move(arrival));
  }
}

// Some slices are lost again and again.
FleetFault FleetDraw::loss(const DrawnFleet& drawn, Nanos at) {
  SliceLoss loss;
  loss.slice = random_.chance(0.5) ? 0 : random_.below(drawn.options.machines * parts_most_);
  if (random_.chance(0.7)) loss.heard = around(5);
  if (random_.chance(0.8)) loss.back = loss.heard + around(50);
  loss.ends_late = random_.chance(0.5);
  return {at, loss};
}

void FleetDraw::draw_faults(DrawnFleet& drawn) {
  constexpr std::array<std::int64_t, 3> kParts = {1, 2, 4};
  constexpr std::array<double, 3> kShares = {0, 0.1, 0.5};
  const double span = to_millis(drawn.workload.back().at) + 60;
  const auto any = [&] { return Nanos(static_cast<std::int64_t>(span * 1e6 * random_.uniform())); };
  const auto few = [&](double chance, std::int64_t most) {
    return random_.chance(chance) ? random_.between(1, most) : 0;
  };
  FleetFaults& faults = drawn.options.faults;
  for (std::size_t i = 0; i < drawn.workload.size(); ++i) {
    if (!random_.chance(0.15)) continue;
    faults.push_back(
        {drawn.workload[i].at + around(15), RequestCancel{static_cast<std::int64_t>(i)}});
  }
  for (std::int64_t i = few(0.6, 5); i > 0; --i) faults.push_back(loss(drawn, any()));
  for (std::int64_t i = few(0.4, 3); i > 0; --i) {
    // Now and then for longer than a step may take.
    const Nanos lasts = random_.chance(0.05) ? seconds(20) : around(60);
    faults.push_back(
        {any(), LinkTrouble{.machine = random_.below(drawn.options.machines),
                            .lasts = lasts,
                            .share = kShares[static_cast<std::size_t>(random_.below(3))]}});
  }
  for (std::int64_t i = resizes_ ? random_.between(1, 3) : 0; i > 0; --i) {
    faults.push_back(
        {any(), MachineResize{.machine = random_.below(drawn.options.machines),
                              .parts = kParts[static_cast<std::size_t>(random_.below(3))],
                              .drain_max = around(20),
                              .reopen = around(30)}});
  }
  for (std::int64_t i = few(0.3, 2); i > 0; --i) {
    const Nanos by = random_.chance(0.2) ? seconds(random_.between(1, 10'000)) : around(500);
    faults.push_back({any(), ClockJump{random_.chance(0.5) ? by : -by}});
  }
  for (std::int64_t i = few(0.2, 2); i > 0; --i) faults.push_back({any(), HostPause{around(80)}});
  std::stable_sort(faults.begin(), faults.end(),
                   [](const FleetFault& a, const FleetFault& b) { return a.at < b.at; });
}

// Some histories read weights at home, and model no link in trouble. They are drawn by random
// numbers of their own, so that the others stay as they were.
void FleetDraw::draw_alpha(DrawnFleet& drawn) {
  if (!alphas_.chance(0.2)) return;
  SimulationOptions& slice = drawn.options.slice;
  slice.reads_at_home = true;
  slice.step_start = engine::StepStart::kWhenIdle;
  std::erase_if(drawn.options.faults, [](const FleetFault& fault) {
    return std::holds_alternative<LinkTrouble>(fault.what);
  });
  if (alphas_.chance(0.2)) return;
  slice.alpha.emplace();
  slice.alpha->tuner.tau = 0.3 * alphas_.uniform();
  slice.alpha->tuner.ema = 0.1 + 0.9 * alphas_.uniform();
  if (alphas_.chance(0.3)) slice.alpha->fixed = alphas_.uniform();
  for (ModelShape& model : slice.models) {
    if (!alphas_.chance(0.5)) continue;
    model.max_resident = Bytes(alphas_.between(1, 1 + model.layout.bytes.count));
  }
}

DrawnFleet FleetDraw::draw() {
  DrawnFleet drawn;
  FleetSimulationOptions& options = drawn.options;
  draw_machines(drawn);
  draw_engine(options.slice);
  const std::int64_t vocab = random_.chance(0.5) ? 16 : 50'000;
  for (std::int64_t i = random_.between(1, 8); i > 0; --i) {
    options.slice.models.push_back(shape(i, drawn, vocab));
  }
  draw_fleet(options);
  draw_workload(drawn);
  draw_faults(drawn);
  draw_alpha(drawn);
  return drawn;
}

// What is wrong with what clients are told.
class ClientsCheck final : public FleetClients {
 public:
  ClientsCheck(const DrawnFleet& drawn, FleetEnginesReport& report);
  void answered(const request::Output& output, Nanos at) override;
  void refused(RequestId request, FinishReason reason, const Error& error) override;
  void check_ended();

 private:
  struct Client {
    std::vector<TokenId> tokens;  // prompt and answer
    bool may_cancel = false;
    bool ended = false;
  };
  Client* client_of(RequestId request);
  void end(RequestId request, Client& client, FinishReason reason, const std::string& error);
  void check_error(RequestId request, const std::string& error);
  void fail(RequestId request, const std::string& what);

  const DrawnFleet& drawn_;
  FleetEnginesReport& report_;
  std::vector<Client> clients_;
  // What there is in this history that may end requests.
  bool losses_ = false, links_ = false, changes_ = false;
};

ClientsCheck::ClientsCheck(const DrawnFleet& drawn, FleetEnginesReport& report)
    : drawn_(drawn), report_(report) {
  for (const Arrival& arrival : drawn.workload) {
    clients_.emplace_back().tokens = arrival.prompt_ids;
  }
  for (const FleetFault& fault : drawn.options.faults) {
    if (const auto* cancel = std::get_if<RequestCancel>(&fault.what)) {
      clients_[static_cast<std::size_t>(cancel->request)].may_cancel = true;
    }
    losses_ = losses_ || std::holds_alternative<SliceLoss>(fault.what);
    links_ = links_ || std::holds_alternative<LinkTrouble>(fault.what);
    changes_ = changes_ || std::holds_alternative<MachineResize>(fault.what);
    report_.troubles += std::holds_alternative<LinkTrouble>(fault.what);
    report_.jumps += std::holds_alternative<ClockJump>(fault.what);
    report_.pauses += std::holds_alternative<HostPause>(fault.what);
  }
}

void ClientsCheck::fail(RequestId request, const std::string& what) {
  if (!report_.failure.empty()) return;
  report_.failure = "request " + std::to_string(request.value) + ": " + what;
}

ClientsCheck::Client* ClientsCheck::client_of(RequestId request) {
  const bool known = request.valid() && request.value < std::ssize(clients_);
  Client* const client = known ? &clients_[static_cast<std::size_t>(request.value)] : nullptr;
  if (client == nullptr) fail(request, "nobody asked for this answer");
  if (client != nullptr && client->ended) fail(request, "an answer after its end");
  return client;
}

void ClientsCheck::answered(const request::Output& output, Nanos) {
  Client* const client = client_of(output.request);
  if (client == nullptr) return;
  const Arrival& arrival = drawn_.workload[static_cast<std::size_t>(output.request.value)];
  const ModelId model(static_cast<std::int64_t>(arrival.model));
  const std::int64_t vocab = drawn_.options.slice.models[arrival.model].vocab;
  const bool hangs = output.error.find("the device hangs") != std::string::npos;
  if (output.lost && !hangs) fail(output.request, "its client hears that a slice is lost");
  for (const request::OutputToken& token : output.tokens) {
    const TokenId expected = expected_token(model, client->tokens, vocab);
    if (token.token != expected) {
      fail(output.request, "token " + std::to_string(token.token) + " of attempt " +
                               std::to_string(output.attempt) + " at position " +
                               std::to_string(client->tokens.size()) +
                               ", where an undisturbed run has " + std::to_string(expected));
    }
    client->tokens.push_back(token.token);
    report_.tokens += 1;
  }
  if (!output.finished) return;
  const std::int64_t answer = std::ssize(client->tokens) - arrival.prompt.count;
  if (output.reason == FinishReason::kLength) {
    if (answer != arrival.output.count) fail(output.request, "an answer of another length");
    report_.resumed_finished += output.attempt > 0;
  }
  end(output.request, *client, output.reason, output.error);
}

void ClientsCheck::refused(RequestId request, FinishReason reason, const Error& error) {
  Client* const client = client_of(request);
  if (client != nullptr) end(request, *client, reason, error.message);
}

void ClientsCheck::end(RequestId request, Client& client, FinishReason reason,
                       const std::string& error) {
  client.ended = true;
  if (reason == FinishReason::kLength) {
    report_.finished += 1;
  } else if (reason == FinishReason::kCancelled) {
    report_.cancelled += 1;
    if (!client.may_cancel) fail(request, "it was cancelled by nobody");
  } else if (reason == FinishReason::kError) {
    report_.errors += 1;
    check_error(request, error);
  } else {
    fail(request, "it stopped, and had no token to stop at");
  }
}

// Each reason needs a cause.
void ClientsCheck::check_error(RequestId request, const std::string& error) {
  const FleetSimulationOptions& options = drawn_.options;
  const Faults& faults = options.slice.faults;
  const auto says = [&](std::string_view what) { return error.find(what) != std::string::npos; };
  if (error.empty() || error.ends_with(": ")) return fail(request, "an error that says nothing");
  struct Reason {
    std::string_view words;
    bool cause;
  };
  // Which gives requests back, too.
  const bool migrates = options.placement == fleet::PlacementKind::kLocality && options.fleet.moves;
  const Arrival& arrival = drawn_.workload[static_cast<std::size_t>(request.value)];
  const ModelShape& shape = options.slice.models[arrival.model];
  const std::int64_t blocks =
      ceil_div(arrival.prompt.count + arrival.output.count, shape.tokens_per_block.count);
  report_.hung += says("the device hangs") || says("the device does not answer");
  const std::array reasons = {
      Reason{"the slice died", false},
      Reason{"the slice is lost", false},
      Reason{"the slice that computed it was lost", losses_},
      Reason{"slices were lost", losses_},
      Reason{"no slice could go on with it", losses_ || changes_ || migrates},
      Reason{"the device hangs", faults.hang_rate > 0 || links_},
      Reason{"the device does not answer", faults.hang_rate > 0 || links_},
      Reason{"simulated: the device refuses", faults.refuse_rate > 0},
      Reason{"simulated: the step failed", faults.error_rate > 0},
      Reason{"weights of the model could not be brought", faults.copy_error_rate > 0},
      Reason{"copies of KV to or from host memory", faults.copy_error_rate > 0},
      Reason{"too many requests wait", true},
      Reason{"no slice has a place", true},
      Reason{"of host memory", options.host_memory > Bytes(0)},
      Reason{"have not let go", options.unload_timeout > Nanos(0)},
      Reason{"of the device's memory for weights", shape.layout.bytes > drawn_.weights_least},
      Reason{"KV frames", blocks > drawn_.frames_least}};
  for (const Reason& reason : reasons) {
    if (!says(reason.words)) continue;
    if (!reason.cause) fail(request, "an error without a cause: " + error);
    report_.causes[std::string(reason.words)] += 1;
    return;
  }
  fail(request, "an error that no history gives a reason for: " + error);
}

void ClientsCheck::check_ended() {
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    if (!clients_[i].ended) fail(RequestId(static_cast<std::int64_t>(i)), "it never ended");
  }
}

// For one that reproduces a history that fails.
std::string describe(const DrawnFleet& drawn) {
  const FleetSimulationOptions& options = drawn.options;
  const SimulationOptions& slice = options.slice;
  std::string faults;
  for (const FleetFault& fault : options.faults) {
    constexpr std::array kNames = {"cancel", "loss", "link", "resize", "jump", "pause"};
    faults += fmt::format(" {} at {:.3f}", kNames.at(fault.what.index()), to_millis(fault.at));
  }
  return fmt::format(
      "{} machines of {} slices, {} models, placement {}, policy {}, preemption {}, {} twins, "
      "start "
      "{}, whole {}, moves {}, prefixes {}, automatic chunks {}, step errors {}, hangs {}, copy "
      "errors {:.3f}; faults, ms:{}",
      options.machines, options.slices, slice.models.size(), fleet::name_of(options.placement),
      static_cast<int>(slice.schedule.policy), static_cast<int>(slice.schedule.preemption),
      slice.kv_host_memory / slice.frame, static_cast<int>(slice.step_start), slice.whole_models,
      options.fleet.moves, slice.prefix_caching, slice.schedule.chunk.automatic,
      slice.faults.error_rate, slice.faults.hang_rate, slice.faults.copy_error_rate, faults);
}

// Looks at all that can be looked at after every instant, or after one of so many: what clients,
// executors and movers see is checked always.
void run_drawn(const DrawnFleet& drawn, std::int64_t instants_a_check, ClientsCheck& clients,
               FleetEnginesReport& report) {
  using Asked = FleetSimulation::Asked;
  FleetSimulation simulation(drawn.options, drawn.workload, &clients);
  const auto check = [&](const Status& held) {
    if (!held.ok() && report.failure.empty()) report.failure = held.error().message;
  };
  const Asked asked = instants_a_check > 1 ? Asked::kAll : Asked::kThoseThatHadTheirTurn;
  const auto looks = [&] { return report.instants % instants_a_check == 0; };
  simulation.begin();
  while (report.failure.empty()) {
    simulation.watch(looks());
    if (!simulation.step()) break;
    if (looks()) check(simulation.check_integrity(asked));
    if (++report.instants == kInstantsMax) check(corrupt("the history does not end"));
  }
  check(simulation.check_integrity(Asked::kAll));
  const std::string when = "at " + std::to_string(to_millis(simulation.now())) + " ms: ";
  if (report.failure.empty() && simulation.cut_short()) {
    check(corrupt("requests or models are left, but nothing will ever happen"));
  }
  if (report.failure.empty()) clients.check_ended();
  if (report.failure.empty()) check(simulation.check_let_go());
  if (!report.failure.empty()) {
    report.failure = when + report.failure + "; " + describe(drawn);
  } else {
    report.simulation = drawn.options.keep_requests ? simulation.report() : simulation.counts();
  }
}

FleetEnginesReport run_checked(const DrawnFleet& drawn, std::int64_t instants_a_check) {
  FleetEnginesReport report;
  report.requests = std::ssize(drawn.workload);
  ClientsCheck clients(drawn, report);
  run_drawn(drawn, instants_a_check, clients, report);
  return report;
}

}  // namespace

FleetEnginesReport run_fleet_engines_history(std::uint64_t seed, bool keeps) {
  // A rule that is broken mostly stays so. One history of some is looked at all the time.
  constexpr std::uint64_t kHistories = 16;
  constexpr std::int64_t kInstants = 32;
  DrawnFleet drawn = FleetDraw(seed).draw();
  drawn.options.keep_requests = keeps;
  const Status sound = check_run(drawn.options, drawn.workload);
  if (!sound.ok()) {
    FleetEnginesReport report;
    report.failure = "the history makes no sense: " + sound.error().message;
    return report;
  }
  const FleetEnginesReport report = run_checked(drawn, seed % kHistories == 0 ? 1 : kInstants);
  if (report.failure.empty()) return report;
  // Where it broke first.
  FleetEnginesReport again = run_checked(drawn, 1);
  return again.failure.empty() ? report : again;
}

}  // namespace causeway::simulate
