#include "simulate/testing/history.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "engine/engine_core.h"
#include "simulate/simulated_executor.h"
#include "simulate/testing/history_weights.h"

namespace causeway::simulate {
namespace {

using request::FinishReason;

constexpr std::int64_t kBlockMax = 5;
constexpr std::int64_t kContext = 64;
constexpr int kEventsMax = 200'000;
constexpr double kFlops = 1e12;  // a second
constexpr Bytes kFrame = mib(1);

// What the checker knows of a request.
struct Tracked {
  request::Request request;
  std::vector<TokenId> tokens;  // prompt and what was delivered
  bool cancel_asked = false;
  bool finished = false;
  bool scored = false;  // the log-probabilities of its prompt have come
};

struct Planned {
  request::Request request;
  std::optional<Nanos> cancel_at;
};

class History {
 public:
  History(std::uint64_t seed, int steps_in_flight);
  HistoryReport run();

 private:
  void plan_workload();
  request::Request make_request(std::int64_t id, Nanos at);
  std::vector<TokenId> make_prompt(std::int64_t tokens);
  engine::CoreOptions core_options();
  void add_rotation(engine::CoreOptions& options);
  SimulatedCopiesOptions copies_options();
  SimulatedExecutorOptions executor_options();
  std::unique_ptr<HistoryWeights> make_weights();
  ModelShape make_shape();
  void add_model(ModelId model);

  bool work_left() const;
  void next_event();
  void arrive();
  void perhaps_replace_model();
  void check_outputs();
  void check_output(const request::Output& output);
  void check_prompt(const request::Output& output, Tracked& tracked);
  void check_embedding(const request::Output& output, const request::Request& request);
  void check_error(const std::string& error);
  void check_end(const request::Output& output, Tracked& tracked);
  void check_bound();
  void check_state();
  void check_ended();
  void fail(const std::string& what);

  const int steps_in_flight_;
  Random random_;
  Random rotation_random_;  // of its own: histories without rotation are what they were before it
  Random chunk_random_;     // likewise
  Random score_random_;     // likewise
  ManualClock clock_;
  std::int64_t frames_;
  std::int64_t vocab_;
  bool faulty_;
  std::int64_t models_;
  std::unique_ptr<HistoryWeights> weights_;  // null: all weights are there
  engine::CoreOptions core_options_;
  SimulatedExecutor executor_;
  engine::EngineCore core_;
  std::vector<std::vector<TokenId>> families_;  // prompts begin alike
  std::vector<Planned> planned_;                // by arrival
  std::size_t arrived_ = 0;
  std::multimap<Nanos, RequestId> cancels_;
  std::map<RequestId, Tracked> tracked_;
  std::int64_t steps_at_last_arrival_ = 0;
  std::int64_t steps_bound_ = 0;
  HistoryReport report_;
};

History::History(std::uint64_t seed, int steps_in_flight)
    : steps_in_flight_(steps_in_flight),
      random_(seed),
      rotation_random_(~seed),
      chunk_random_(mix64(seed)),
      score_random_(mix64(seed) ^ 0x5C0),
      frames_(random_.between(5, 40)),
      vocab_(random_.chance(0.5) ? 16 : 50'000),
      faulty_(random_.chance(0.4)),
      models_(random_.between(1, 3)),
      weights_(make_weights()),
      core_options_(core_options()),
      executor_(executor_options(), clock_, weights_ ? &weights_->mover() : nullptr),
      core_(core_options_, executor_, weights_ ? &weights_->cache() : nullptr) {
  for (std::int64_t model = 0; model < models_; ++model) add_model(ModelId(model));
  plan_workload();
}

std::unique_ptr<HistoryWeights> History::make_weights() {
  if (random_.chance(0.4)) return nullptr;
  const double error_rate = faulty_ ? 0.05 * random_.uniform() : 0.0;
  return std::make_unique<HistoryWeights>(random_, clock_, models_, error_rate, frames_);
}

SimulatedExecutorOptions History::executor_options() {
  SimulatedExecutorOptions options;
  options.profile.flops_per_second = kFlops;
  options.profile.memory_bytes_per_second = options.profile.attention_bytes_per_second = 1e12;
  options.profile.step_overhead = millis(1);
  options.seed = random_.bits();
  options.shadow_frames = core_options_.frames_max();
  options.frames_move = core_options_.border.has_value();
  options.tokens_per_block_max = kBlockMax;
  options.steps_in_flight_max = steps_in_flight_;
  if (core_options_.twins > 0) options.copies = copies_options();
  if (faulty_) {
    options.faults = {.error_rate = 0.02,
                      .refuse_rate = 0.01,
                      .slow_rate = 0.05,
                      .hang_rate = random_.chance(0.2) ? 0.01 : 0.0,
                      .hang = seconds(10)};
  }
  return options;
}

engine::CoreOptions History::core_options() {
  engine::CoreOptions options;
  options.frames = frames_;
  if (weights_) options.border = weights_->border();
  options.prefix_caching = random_.chance(0.8);
  options.schedule.policy =
      random_.chance(0.5) ? schedule::PolicyKind::kFcfs : schedule::PolicyKind::kPriority;
  options.schedule.tokens_per_step_max = random_.between(1, 24);
  options.schedule.running_max = random_.between(1, 12);
  // A streamed step waits for copies of its own and of others.
  options.step_timeout = seconds(weights_ && weights_->streams() ? 5 : 1);
  options.step_start = static_cast<engine::StepStart>(random_.below(3));
  if (rotation_random_.chance(0.4)) add_rotation(options);
  options.schedule.chunk.automatic = chunk_random_.chance(0.4);
  options.schedule.chunk.least = Tokens(chunk_random_.between(1, 4));
  return options;
}

void History::add_rotation(engine::CoreOptions& options) {
  constexpr std::int64_t kPolicies = 9, kPreemptions = 3;
  Random& random = rotation_random_;
  options.twins = random.between(1, 3 * frames_);
  options.frame = kFrame;
  options.rotation.frames_share_max = 0.02 + 0.4 * random.uniform();
  options.schedule.policy = static_cast<schedule::PolicyKind>(random.below(kPolicies));
  options.schedule.preemption = static_cast<schedule::PreemptionKind>(random.below(kPreemptions));
  options.schedule.rotation.lag = {
      .early = static_cast<schedule::DisplacesEarly>(random.below(3)),
      .ahead_share = random.chance(0.5) ? random.uniform() : 0,
      .late_after = random.chance(0.5) ? static_cast<double>(random.between(1, 20)) : 0};
  // A policy that does not rotate, beside host memory.
  if (random.chance(0.1)) {
    options.schedule.policy =
        random.chance(0.5) ? schedule::PolicyKind::kFcfs : schedule::PolicyKind::kPriority;
    options.schedule.preemption = schedule::PreemptionKind::kRecompute;
  }
}

// Each direction carries 1 to 100 frames a millisecond.
SimulatedCopiesOptions History::copies_options() {
  Random& random = rotation_random_;
  const auto rate = [&] {
    return static_cast<double>(kFrame.count) * 1e3 * random.between(1, 100);
  };
  return {.frame = kFrame,
          .bytes_in_per_second = rate(),
          .bytes_out_per_second = rate(),
          .error_rate = faulty_ ? 0.05 * random.uniform() : 0,
          .seed = random.bits(),
          .stall_rate = faulty_ && random.chance(0.5) ? 0.05 : 0,
          .stall_max = millis(random.between(1, 30'000)),
          .late_max = millis(random.between(1, 50))};
}

ModelShape History::make_shape() {
  ModelShape shape;
  shape.tokens_per_block = Tokens(random_.between(1, kBlockMax));
  shape.vocab = vocab_;
  if (weights_) shape.flops_per_token = kFlops * 2e-4 * random_.uniform();
  return shape;
}

void History::add_model(ModelId model) {
  ModelShape shape = make_shape();
  if (weights_) weights_->introduce(model, shape);
  executor_.add_model(model, shape, weights_ ? WeightSource::kCache : WeightSource::kMemory);
  // An engine may be wrong about what its steps take.
  const double guess = 2 * random_.uniform();
  double seconds_per_token = guess * shape.flops_per_token / kFlops;
  if (!weights_ && core_options_.schedule.chunk.automatic) {
    seconds_per_token = 2e-4 * chunk_random_.uniform();
  }
  const Status added = core_.add_model(model, {.tokens_per_block = shape.tokens_per_block,
                                               .max_model_len = Tokens(kContext),
                                               .vocab = vocab_,
                                               .weights = shape.cached,
                                               .step_min = micros(random_.between(0, 1000)),
                                               .seconds_per_token = seconds_per_token});
  if (!added.ok()) fail("add_model: " + added.error().message);
  if (weights_) weights_->added(model);
}

std::vector<TokenId> History::make_prompt(std::int64_t tokens) {
  std::vector<TokenId> prompt;
  const auto& family = families_[static_cast<std::size_t>(random_.below(3))];
  const std::int64_t shared = random_.between(0, tokens);
  for (std::int64_t i = 0; i < tokens; ++i) {
    prompt.push_back(i < shared ? family[static_cast<std::size_t>(i)]
                                : static_cast<TokenId>(random_.below(vocab_)));
  }
  return prompt;
}

request::Request History::make_request(std::int64_t id, Nanos at) {
  request::Request request;
  request.id = RequestId(id);
  request.model = ModelId(random_.below(models_));
  request.prompt = make_prompt(random_.between(1, random_.chance(0.8) ? 20 : kContext));
  request.max_tokens = Tokens(random_.between(1, random_.chance(0.9) ? 24 : kContext));
  request.priority = static_cast<std::int32_t>(random_.between(-2, 2));
  request.arrival = at;
  if (core_options_.schedule.chunk.automatic) {
    request.slo.ttft = micros(chunk_random_.between(1'000, 100'000));
    request.slo.tpot = micros(chunk_random_.between(500, 20'000));
  }
  if (random_.chance(0.3)) request.sampling.presence_penalty = 0.5f;  // the history goes along
  if (score_random_.chance(0.2)) request.sampling.prompt_logprobs = 1;
  if (score_random_.chance(0.04)) {  // they end soon, and preempt few
    request.pooling = score_random_.chance(0.5) ? request::Pooling::kMean : request::Pooling::kLast;
    request.max_tokens = Tokens(1);
  }
  if (random_.chance(0.3)) request.stop_tokens = {static_cast<TokenId>(random_.below(vocab_))};
  return request;
}

void History::plan_workload() {
  families_.resize(3);
  for (auto& family : families_) {
    for (std::int64_t i = 0; i < kContext; ++i) {
      family.push_back(static_cast<TokenId>(random_.below(vocab_)));
    }
  }
  const std::int64_t count = random_.between(1, 24);
  const double gap = random_.uniform() * (random_.chance(0.5) ? 1e6 : 6e6);
  Nanos at(0);
  for (std::int64_t id = 0; id < count; ++id) {
    at += Nanos(static_cast<std::int64_t>(random_.exponential(gap)));
    Planned planned{.request = make_request(id, at), .cancel_at = {}};
    if (random_.chance(0.2)) {
      planned.cancel_at = at + Nanos(static_cast<std::int64_t>(random_.exponential(1e7)));
    }
    planned_.push_back(std::move(planned));
  }
}

void History::fail(const std::string& what) {
  if (report_.failure.empty()) {
    report_.failure = "at " + std::to_string(to_millis(clock_.now())) + " ms, step " +
                      std::to_string(executor_.counters().steps) + ": " + what;
    if (core_options_.twins > 0) {
      report_.failure += " (" + std::string(name_of(core_options_.schedule.policy)) + ", " +
                         std::string(name_of(core_options_.schedule.preemption)) + ", " +
                         std::to_string(frames_) + " frames, " +
                         std::to_string(core_options_.twins) + " twins, " +
                         std::to_string(core_options_.schedule.running_max) + " run)";
    }
  }
}

bool History::work_left() const {
  const SimulatedCopies* const copies = executor_.copies();  // those that were given up, too
  return arrived_ < planned_.size() || !core_.idle() || core_.copies_under_way() ||
         (copies != nullptr && copies->next_end()) || !cancels_.empty();
}

void History::arrive() {
  const Planned& planned = planned_[arrived_++];
  const RequestId id = planned.request.id;
  const Status taken = core_.submit(planned.request, clock_.now());
  if (taken.ok()) {
    tracked_[id] = {.request = planned.request, .tokens = planned.request.prompt};
    report_.requests += 1;
    if (planned.cancel_at) cancels_.emplace(*planned.cancel_at, id);
  } else {
    report_.refused += 1;
    const bool hopeless = taken.error().code == ErrorCode::kInvalidArgument;
    if (!hopeless && !core_.hung()) fail("submit: " + taken.error().message);
  }
  if (arrived_ < planned_.size()) return;
  steps_at_last_arrival_ = executor_.counters().steps;
  std::int64_t tokens = 0;
  for (const auto& [other, tracked] : tracked_) {
    if (tracked.finished) continue;
    tokens +=
        static_cast<std::int64_t>(tracked.request.prompt.size()) + tracked.request.max_tokens.count;
  }
  // Who rotates is displaced more often, and computed again where copies fail or have no room.
  const std::int64_t again = core_options_.twins > 0 ? 16 : 1;
  steps_bound_ = 2 * models_ * tokens * again + 2;
}

void History::perhaps_replace_model() {
  if (!random_.chance(0.02)) return;
  const ModelId model(random_.below(models_));
  const Status removed = core_.remove_model(model);
  if (!removed.ok()) {
    if (removed.error().code != ErrorCode::kUnavailable) fail(removed.error().message);
    return;
  }
  executor_.remove_model(model);
  if (weights_) weights_->remove(model);
  add_model(model);
  report_.models_replaced += 1;
}

void History::next_event() {
  const Nanos arrival = arrived_ < planned_.size() ? planned_[arrived_].request.arrival : kNever;
  const Nanos cancel = cancels_.empty() ? kNever : cancels_.begin()->first;
  const Nanos step = executor_.next_event().value_or(kNever);
  const Nanos wakeup = core_.next_wakeup().value_or(kNever);
  const Nanos copy = (weights_ ? weights_->mover().next_end() : std::nullopt).value_or(kNever);
  const Nanos next = std::min({arrival, cancel, step, wakeup, copy});
  if (next == kNever) return fail("requests are left, but nothing will ever happen");
  clock_.set(std::max(clock_.now(), next));
  if (next == step) {
    // Or copies of KV have ended, about which start_step() asks.
    const auto result = core_.step_in_flight() ? executor_.wait(Nanos(0)) : std::nullopt;
    if (result) core_.finish_step(*result, clock_.now());
  } else if (next == arrival) {
    arrive();
  } else if (next == cancel) {
    const RequestId request = cancels_.begin()->second;
    cancels_.erase(cancels_.begin());
    tracked_.at(request).cancel_asked = true;
    core_.cancel(request, clock_.now());
  } else if (next == wakeup) {
    core_.check_timeout(clock_.now());
  }
}

void History::check_error(const std::string& error) {
  const SimulatedCounters& counters = executor_.counters();
  const bool of_weights = error.starts_with("weights of the model could not be brought");
  report_.errors_of_weights += of_weights;
  if (error.empty() || error.ends_with(": ")) fail("an error that says nothing");
  if (error.find("copies of KV to or from host memory") != std::string::npos) {
    report_.errors_of_kv_copies += 1;
    if (executor_.copies() == nullptr || executor_.copies()->given_up() == 0) {
      fail("no copy was given up: " + error);
    }
  } else if (error.find("KV frames and can have") != std::string::npos) {
    // There was no memory, or the largest model is another than when the request came.
    const bool may = core_options_.border && (weights_->mover().frame_moves().failed > 0 ||
                                              weights_->pins() || report_.models_replaced > 0);
    if (!may) fail("KV could have grown: " + error);
  } else if (of_weights) {
    if (!weights_) return fail("an error of weights that were always there");
    if (weights_->mover().failures() == 0 && !weights_->pins()) fail("no copy failed: " + error);
  } else if (counters.faults + counters.hangs == 0) {
    fail("an error without a fault: " + error);
  }
}

void History::check_end(const request::Output& output, Tracked& tracked) {
  const request::Request& request = tracked.request;
  tracked.finished = true;
  const auto delivered = static_cast<std::int64_t>(tracked.tokens.size() - request.prompt.size());
  if (output.reason == FinishReason::kCancelled) {
    report_.cancelled += 1;
    if (!tracked.cancel_asked) fail("a request was cancelled by nobody");
  } else if (output.reason == FinishReason::kError) {
    report_.errors += 1;
    check_error(output.error);
  } else if (output.reason == FinishReason::kLength) {
    report_.finished += 1;
    if (delivered != request.max_tokens.count) fail("kLength at another length than asked");
  } else {
    report_.finished += 1;
    const TokenId stop = expected_token(request.model, tracked.tokens, vocab_);
    const auto& stops = request.stop_tokens;
    if (std::find(stops.begin(), stops.end(), stop) == stops.end()) fail("kStop without a stop");
  }
}

// The simulated device tells what it would have chosen in a prompt token's place.
void History::check_prompt(const request::Output& output, Tracked& tracked) {
  const request::Request& request = tracked.request;
  const bool answered = !output.tokens.empty() || output.reason == FinishReason::kLength ||
                        (output.finished && output.reason == FinishReason::kStop);
  const bool due = request.sampling.prompt_logprobs >= 0 && request.prompt.size() > 1;
  if (output.prompt.empty()) {
    if (due && answered && !tracked.scored) fail("an answer without its prompt's logprobs");
    return;
  }
  if (!due || tracked.scored) fail("logprobs of a prompt that are not due");
  tracked.scored = true;
  report_.prompts_scored += 1;
  if (output.prompt.size() + 1 != request.prompt.size()) return fail("logprobs of another prompt");
  for (std::size_t i = 0; i < output.prompt.size(); ++i) {
    const request::OutputToken& scored = output.prompt[i];
    const TokenId expected =
        expected_token(request.model, std::span(request.prompt).first(i + 1), vocab_);
    if (scored.token != request.prompt[i + 1] || scored.top.size() != 1 ||
        scored.top[0].token != expected) {
      return fail("request " + std::to_string(output.request.value) + ": prompt token " +
                  std::to_string(i + 1) + " is scored by another context than its own");
    }
  }
}

// The simulated device's hidden state is what it would choose there.
void History::check_embedding(const request::Output& output, const request::Request& request) {
  const bool ended = output.finished && (output.reason == FinishReason::kLength ||
                                         output.reason == FinishReason::kStop);
  if (request.pooling == request::Pooling::kNone || !ended) {
    if (!output.embedding.empty()) fail("an embedding that is not due");
    return;
  }
  if (output.embedding.size() != 1) return fail("an embedding of another size");
  report_.prompts_embedded += 1;
  const std::span<const TokenId> prompt(request.prompt);
  const std::size_t first = request.pooling == request::Pooling::kMean ? 1 : prompt.size();
  double sum = 0;
  for (std::size_t i = first; i <= prompt.size(); ++i) {
    sum += expected_token(request.model, prompt.first(i), vocab_);
  }
  const auto mean = static_cast<float>(sum / static_cast<double>(prompt.size() - first + 1));
  if (output.embedding[0] != mean) {
    fail("request " + std::to_string(output.request.value) + " is embedded as another prompt");
  }
}

void History::check_output(const request::Output& output) {
  const auto at = tracked_.find(output.request);
  if (at == tracked_.end()) return fail("output of a request that was never taken");
  Tracked& tracked = at->second;
  if (tracked.finished) return fail("output after the finished one");
  if (output.tokens.empty() && !output.finished) fail("an output that says nothing");
  check_prompt(output, tracked);
  check_embedding(output, tracked.request);
  for (const request::OutputToken& token : output.tokens) {
    const TokenId expected = expected_token(tracked.request.model, tracked.tokens, vocab_);
    if (token.token != expected) {
      fail("request " + std::to_string(output.request.value) + ", position " +
           std::to_string(tracked.tokens.size()) + ": token " + std::to_string(token.token) +
           " where its own tokens lead to " + std::to_string(expected));
    }
    const auto& stops = tracked.request.stop_tokens;
    if (std::find(stops.begin(), stops.end(), token.token) != stops.end()) {
      fail("a stop token was delivered");
    }
    tracked.tokens.push_back(token.token);
  }
  if (!output.finished) return;
  check_end(output, tracked);
  if (output.reason == FinishReason::kLength || output.reason == FinishReason::kStop) {
    report_.answers[output.request.value] = tracked.tokens;
  }
}

void History::check_outputs() {
  for (const request::Output& output : core_.take_outputs()) check_output(output);
}

void History::check_state() {
  const Status intact = core_.check_integrity();
  if (!intact.ok()) fail(intact.error().message);
  if (!executor_.violation().empty()) fail(executor_.violation());
  const std::string wrong = weights_ ? weights_->check(core_, executor_) : "";
  if (!wrong.empty()) fail(wrong);
  const request::Observation seen = core_.observe();
  if (seen.requests() != core_.requests()) {
    fail("running and waiting requests do not add up");
  }
}

void History::check_bound() {
  if (arrived_ < planned_.size() || steps_bound_ == 0) return;
  const std::int64_t steps = executor_.counters().steps - steps_at_last_arrival_;
  report_.steps_of_bound = static_cast<double>(steps) / static_cast<double>(steps_bound_);
  if (steps > steps_bound_) {
    fail("more than " + std::to_string(steps_bound_) + " steps after the last arrival");
  }
}

void History::check_ended() {
  for (const auto& [id, tracked] : tracked_) {
    if (!tracked.finished) fail("request " + std::to_string(id.value) + " never ended");
  }
  const kv::FrameCounts counts = core_.kv().counts();
  if (counts.in_use() != 0) fail("frames are still in use although nothing runs");
}

HistoryReport History::run() {
  for (int event = 0; work_left() && report_.failure.empty(); ++event) {
    if (event == kEventsMax) fail("the history does not end");
    next_event();
    perhaps_replace_model();
    check_state();
    core_.start_step(clock_.now());
    check_outputs();
    check_state();
    check_bound();
  }
  if (report_.failure.empty()) check_ended();
  const request::Observation seen = core_.observe();
  report_.steps = executor_.counters().steps;
  report_.preemptions = seen.preemptions;
  report_.prefix_hit_tokens = seen.prefix_hit_tokens;
  report_.rotations = seen.rotations;
  report_.kv_copies = seen.kv_copies;
  if (executor_.copies() != nullptr) report_.kv_copies_given_up = executor_.copies()->given_up();
  report_.hangs = executor_.counters().hangs;
  report_.steps_ahead = executor_.counters().steps_ahead;
  report_.tokens_pending = executor_.counters().tokens_pending;
  if (weights_) {
    const auto counters = weights_->cache().residency().counters();
    report_.arrivals = counters.arrivals;
    report_.evictions = counters.evictions;
    report_.copies_failed = weights_->mover().failures();
    report_.wait_of_bound = weights_->wait_of_bound();
    report_.extents_to_kv = weights_->mover().frame_moves().got;
    report_.extents_to_weights = weights_->mover().frame_moves().gave;
    report_.extents_failed = weights_->mover().frame_moves().failed;
  }
  report_.steps_poisoned = executor_.counters().poisoned;
  report_.streamed_steps = executor_.counters().streamed_steps;
  report_.steps_between_ranges = executor_.counters().between_ranges;
  report_.steps_abandoned = executor_.counters().abandoned;
  return report_;
}

}  // namespace

HistoryReport run_history(std::uint64_t seed, int steps_in_flight) {
  return History(seed, steps_in_flight).run();
}

}  // namespace causeway::simulate
