#include "bench/slo_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/random.h"
#include "bench/step_recorder.h"
#include "client/workload.h"
#include "request/trace.h"

namespace causeway::bench {
namespace {

constexpr std::int64_t kRequestsMax = 1'000'000;
constexpr int kWarmRequests = 8;
constexpr Nanos kSayEvery = seconds(10);

struct Load {
  double rate = 0;
  std::vector<LoadRequest> requests;
};

std::int64_t longest(const std::vector<Load>& loads) {
  std::int64_t most = 1;
  for (const Load& load : loads) {
    for (const LoadRequest& request : load.requests) {
      most = std::max(most, std::ssize(request.prompt) + request.output_tokens);
    }
  }
  return most;
}

// Of the requests that arrive within the time.
Result<std::vector<Nanos>> arrivals_of(const SloBenchSettings& settings, double rate) {
  const double expected = rate * settings.duration;
  if (expected > kRequestsMax) return invalid_argument("more than a million requests at one rate");
  Random random(settings.seed);
  const auto many = 2 * static_cast<std::int64_t>(expected) + 100;
  auto arrivals = request::gamma_arrivals(many, rate, settings.burstiness, random);
  std::erase_if(arrivals, [&](Nanos at) { return to_seconds(at) >= settings.duration; });
  return arrivals;
}

// A trace that has fewer requests than arrive is repeated, with other prompts: none is found in the
// prefix cache.
Result<Load> make_load(const SloBenchSettings& settings, double rate) {
  CAUSEWAY_ASSIGN(const auto arrivals, arrivals_of(settings, rate));
  WorkloadOptions wanted;
  wanted.models = {"model"};
  wanted.trace = settings.trace;
  wanted.requests = std::ssize(arrivals);
  wanted.input_tokens = settings.input_tokens;
  wanted.output_tokens = settings.output_tokens;
  wanted.vocab = settings.config.vocab;
  wanted.seed = settings.seed;
  CAUSEWAY_ASSIGN(const auto lengths, make_workload(wanted));
  if (lengths.empty()) return invalid_argument("the trace has no requests");
  Load load{.rate = rate, .requests = {}};
  Random random(settings.seed + 1);
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    LoadRequest request = lengths[i % lengths.size()];
    if (i >= lengths.size()) {
      for (TokenId& id : request.prompt) id = static_cast<TokenId>(random.below(wanted.vocab));
    }
    request.arrival = arrivals[i];
    load.requests.push_back(std::move(request));
  }
  return load;
}

class SloBench {
 public:
  SloBench(const SloBenchSettings& settings, const Clock& clock, Bytes home)
      : settings_(settings), clock_(clock), home_(clock, home) {}

  Result<std::vector<SloRow>> run();

 private:
  // Of the slice that a policy gets.
  Result<SliceSettings> slice_of(const SloPolicy& policy);
  Status open(const SliceSettings& settings, LocalSlice& local);
  Result<SloRow> row_of(const Load& load, const SloPolicy& policy);
  Status warm(LocalSlice& local) const;
  Result<SloRow> serve(const Load& load, LocalSlice& local);
  void wait_for(RequestId id, LocalSlice& local) const;
  void say(const std::string& what) const {
    if (settings_.progress) settings_.progress(what);
  }

  const SloBenchSettings& settings_;
  const Clock& clock_;
  slice::ModelHome home_;  // weights stay at home between slices
  model::ModelCard card_;
  std::vector<Load> loads_;
  StepRecorder* recorder_ = nullptr;  // of the slice that is open
};

Result<SliceSettings> SloBench::slice_of(const SloPolicy& policy) {
  SliceSettings settings = settings_.slice;
  if (settings.on_gpu()) settings.weights = round_up(card_.layout.bytes, settings.extent());
  if (policy.preemption == schedule::PreemptionKind::kRecompute) settings.kv_host = Bytes(0);
  settings.engine.core.schedule.policy = policy.policy;
  settings.engine.core.schedule.preemption = policy.preemption;
  settings.engine.requests_max = kRequestsMax;
  settings.executor_front = [this](engine::StepExecutor& executor) {
    auto recorder = std::make_unique<StepRecorder>(executor, card_, clock_);
    recorder_ = recorder.get();
    return recorder;
  };
  return settings;
}

Status SloBench::open(const SliceSettings& settings, LocalSlice& local) {
  CAUSEWAY_TRY(local.open(settings, {{.id = kModel,
                                      .config = settings_.config,
                                      .max_model_len = Tokens(longest(loads_)),
                                      .alpha = settings_.alpha}}));
  CAUSEWAY_TRY(status_of(local.add(kModel)));
  local.aim_at(settings_.slo);
  local.draw_at(1);  // greedy answers of random weights soon repeat themselves
  return warm(local);
}

// So that the weights have come.
Status SloBench::warm(LocalSlice& local) const {
  std::vector<RequestId> first;
  for (int i = 0; i < kWarmRequests; ++i) {
    CAUSEWAY_ASSIGN(const RequestId id, local.submit(kModel, 8 + i, 8));
    first.push_back(id);
  }
  for (const RequestId id : first) {
    CAUSEWAY_TRY(status_of(local.sink().wait_for_end(id, kPatience)));
  }
  return {};
}

// Says now and then what the slice is at.
void SloBench::wait_for(RequestId id, LocalSlice& local) const {
  const Nanos begin = clock_.now();
  while (clock_.now() - begin < kPatience) {
    const auto ended = local.sink().wait_for_end(id, kSayEvery);
    if (ended.ok() || ended.error().code != ErrorCode::kDeadlineExceeded) return;
    const request::Observation now = local.slice().engine().observe();
    say(fmt::format("{} run, {} wait, {} in host memory; frames {} of {}, twins {} of {}; {} steps",
                    now.requests_running, now.requests_waiting, now.requests_rotary,
                    now.frames_used, now.frames_total, now.twins_used, now.twins_total, now.steps));
  }
}

Result<SloRow> SloBench::serve(const Load& load, LocalSlice& local) {
  auto requests = load.requests;  // copied before the time begins
  recorder_->take();
  const request::Observation before = local.slice().engine().observe();
  std::vector<RequestId> ids;
  std::vector<SloRequest> served;
  const Nanos begin = clock_.now();
  for (LoadRequest& request : requests) {
    const Nanos due = begin + request.arrival;
    pause_until(due, clock_);
    served.push_back({.due = due, .prompt = std::ssize(request.prompt), .times = {}});
    CAUSEWAY_ASSIGN(const RequestId id,
                    local.submit(kModel, std::move(request.prompt), request.output_tokens));
    ids.push_back(id);
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    wait_for(ids[i], local);
    served[i].times = local.sink().of(ids[i]);  // its error, too
  }
  SloRow row = report_slo(served, settings_.slo, before, local.slice().engine().observe());
  row.not_overlapped = not_overlapped(recorder_->take());
  return row;
}

Result<SloRow> SloBench::row_of(const Load& load, const SloPolicy& policy) {
  CAUSEWAY_ASSIGN(const SliceSettings settings, slice_of(policy));
  LocalSlice local(home_, clock_);
  CAUSEWAY_TRY(open(settings, local));
  CAUSEWAY_ASSIGN(SloRow row, serve(load, local));
  row.policy = policy.name();
  row.rate = load.rate;
  if (!settings_.profile) return row;
  const SloPredictionSettings predicted{.profile = *settings_.profile,
                                        .config = settings_.config,
                                        .slice = settings,
                                        .slo = settings_.slo,
                                        .alpha = settings_.alpha};
  CAUSEWAY_ASSIGN(row.predicted, predict_slo(predicted, load.requests));
  return row;
}

Result<std::vector<SloRow>> SloBench::run() {
  CAUSEWAY_ASSIGN(card_, settings_.slice.card(settings_.config));
  for (const double rate : settings_.rates) {
    CAUSEWAY_ASSIGN(Load load, make_load(settings_, rate));
    loads_.push_back(std::move(load));
  }
  std::vector<SloRow> rows;
  for (const Load& load : loads_) {
    for (const SloPolicy& policy : settings_.policies) {
      say(fmt::format("{}: {} requests at {:g} a second", policy.name(), load.requests.size(),
                      load.rate));
      CAUSEWAY_ASSIGN(SloRow row, row_of(load, policy));
      say(fmt::format("{}: {:.1f} % keep both targets, {:.0f} tokens/s", row.policy,
                      100 * row.share(row.both_met), row.tokens_per_second()));
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace

std::string SloPolicy::name() const {
  return fmt::format("{}:{}", schedule::name_of(policy), schedule::name_of(preemption));
}

Result<SloPolicy> parse_slo_policy(const std::string& text) {
  SloPolicy wanted;
  const std::size_t colon = text.find(':');
  CAUSEWAY_ASSIGN(wanted.policy, schedule::parse_policy(text.substr(0, colon)));
  const bool plain = wanted.policy == schedule::PolicyKind::kFcfs ||
                     wanted.policy == schedule::PolicyKind::kPriority;
  wanted.preemption =
      plain ? schedule::PreemptionKind::kRecompute : schedule::PreemptionKind::kRotate;
  if (colon == std::string::npos) return wanted;
  CAUSEWAY_ASSIGN(wanted.preemption, schedule::parse_preemption(text.substr(colon + 1)));
  return wanted;
}

Result<std::vector<SloRow>> bench_slo(const SloBenchSettings& settings, const Clock& clock) {
  if (settings.policies.empty() || settings.rates.empty()) {
    return invalid_argument("nothing to measure: give policies and rates");
  }
  CAUSEWAY_TRY(request::check_slo(settings.slo));
  for (const SloPolicy& policy : settings.policies) {
    if (policy.preemption != schedule::PreemptionKind::kRecompute &&
        settings.slice.kv_host == Bytes(0)) {
      return invalid_argument(policy.name() + " needs host memory for KV");
    }
  }
  if (settings.profile && settings.slice.kv == Bytes(0)) {
    return invalid_argument("a prediction needs memory for KV of a given size");
  }
  CAUSEWAY_ASSIGN(const Bytes home, settings.slice.home());
  return SloBench(settings, clock, home).run();
}

}  // namespace causeway::bench
