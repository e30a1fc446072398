#include "engine/host_executor.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/sampling/sampling.h"

namespace causeway::engine {
namespace {

constexpr Nanos kWaitMax = seconds(86'400);  // longer waits would overflow the system's clocks

kernels::sampling::Params sampling_params(const request::BatchEntry& entry) {
  const request::SamplingParams& wanted = entry.sampling;
  return {.temperature = wanted.temperature,
          .top_p = wanted.top_p,
          .top_k = wanted.top_k,
          .min_p = wanted.min_p,
          .presence_penalty = wanted.presence_penalty,
          .frequency_penalty = wanted.frequency_penalty,
          .repetition_penalty = wanted.repetition_penalty,
          .seed = wanted.seed,
          .position = std::int64_t{entry.context} + entry.token_count,
          .top_logprobs = wanted.top_logprobs,
          .history = entry.history,
          .prompt_tokens = entry.prompt_tokens};
}

request::SampledToken choose(std::span<float> logits, const request::BatchEntry& entry) {
  auto sample = kernels::sampling::sample(logits, sampling_params(entry));
  request::SampledToken chosen{.request = entry.request, .token = {}};
  chosen.token.token = sample.token;
  chosen.token.logprob = sample.logprob;
  for (const auto& [token, logprob] : sample.top) chosen.token.top.push_back({token, logprob});
  return chosen;
}

}  // namespace

class HostExecutor::State {
 public:
  State(const HostFrames& frames_in, const Clock& clock_in) : frames(frames_in), clock(clock_in) {}

  void run();
  request::StepResult execute(const request::Batch& batch, HostModel& host_model);
  Status compute(const request::Batch& batch, HostModel& host_model,
                 std::vector<request::SampledToken>& sampled);

  const HostFrames frames;
  const Clock& clock;
  const Capabilities capabilities;
  std::vector<float> logits;  // the worker's own

  std::mutex mutex;              // guards what follows
  std::condition_variable wake;  // the worker: a step, or the end
  std::condition_variable done;  // wait(): a result
  std::map<ModelId, std::unique_ptr<HostModel>> models;
  std::optional<request::Batch> queued;
  std::optional<request::StepResult> result;
  bool in_flight = false;  // from submit() until wait() returns the result
  ModelId model_in_flight;
  bool stopping = false;

  std::thread thread;
};

Status HostExecutor::State::compute(const request::Batch& batch, HostModel& host_model,
                                    std::vector<request::SampledToken>& sampled) {
  for (const FrameId frame : batch.frames) {
    CAUSEWAY_CHECK(frame.value >= 0 && frame.value < frames.count, "a frame outside the pool");
  }
  const auto rows = static_cast<std::size_t>(
      std::count_if(batch.entries.begin(), batch.entries.end(),
                    [](const request::BatchEntry& entry) { return entry.samples; }));
  const auto vocab = static_cast<std::size_t>(host_model.forward->config().vocab);
  logits.resize(rows * vocab);
  const model::KvMemory kv{
      .base = frames.base, .layout = host_model.layout, .dtype = host_model.kv_dtype};
  CAUSEWAY_TRY(host_model.forward->run(batch, kv, logits));
  std::size_t row = 0;
  for (const request::BatchEntry& entry : batch.entries) {
    if (!entry.samples) continue;
    sampled.push_back(choose(std::span(logits).subspan(row++ * vocab, vocab), entry));
  }
  return {};
}

request::StepResult HostExecutor::State::execute(const request::Batch& batch,
                                                 HostModel& host_model) {
  request::StepResult outcome;
  outcome.step = batch.step;
  const Nanos begin = clock.now();
  try {
    const Status computed = compute(batch, host_model, outcome.sampled);
    if (!computed.ok()) outcome.error = computed.error().message;
  } catch (const std::exception& error) {  // out of memory, or a library's
    outcome.error = std::string("the step failed: ") + error.what();
  }
  if (!outcome.error.empty()) outcome.sampled.clear();
  outcome.duration = clock.now() - begin;
  return outcome;
}

void HostExecutor::State::run() {
  std::unique_lock lock(mutex);
  while (true) {
    wake.wait(lock, [this] { return queued.has_value() || stopping; });
    if (stopping) return;
    const request::Batch batch = std::move(*queued);
    queued.reset();
    // Stays while the step is in flight: remove_model() checks.
    HostModel& host_model = *models.at(batch.model);
    lock.unlock();
    request::StepResult outcome = execute(batch, host_model);
    lock.lock();
    result = std::move(outcome);
    done.notify_one();
  }
}

HostExecutor::HostExecutor(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<HostExecutor>> HostExecutor::start(const HostFrames& frames,
                                                          const Clock& clock) {
  if (frames.base == nullptr || frames.bytes.count < 1 || frames.count < 1 ||
      reinterpret_cast<std::uintptr_t>(frames.base) % 64 != 0) {
    return invalid_argument("the KV frames need 64-byte aligned memory, a size and a count");
  }
  auto state = std::make_unique<State>(frames, clock);
  try {
    state->thread = std::thread([worker = state.get()] { worker->run(); });
  } catch (const std::system_error& error) {
    return exhausted(std::string("the executor's thread could not be started: ") + error.what());
  }
  return std::make_unique<HostExecutor>(std::move(state));
}

HostExecutor::~HostExecutor() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    state_->wake.notify_one();
  }
  state_->thread.join();
}

Status HostExecutor::add_model(ModelId model, HostModel host_model) {
  if (!model.valid() || host_model.forward == nullptr) {
    return invalid_argument("a model needs an id and a forward pass");
  }
  if (host_model.layout.frame != state_->frames.bytes) {
    return invalid_argument("the model's block layout is for frames of " +
                            std::to_string(host_model.layout.frame.count) +
                            " bytes; the executor's have " +
                            std::to_string(state_->frames.bytes.count));
  }
  auto owned = std::make_unique<HostModel>(std::move(host_model));
  const std::lock_guard lock(state_->mutex);
  if (!state_->models.try_emplace(model, std::move(owned)).second) {
    return invalid_argument("model " + std::to_string(model.value) + " is in the executor already");
  }
  return {};
}

Status HostExecutor::remove_model(ModelId model) {
  std::unique_ptr<HostModel> dropped;  // destroyed outside the lock
  const std::lock_guard lock(state_->mutex);
  const auto at = state_->models.find(model);
  if (at == state_->models.end()) {
    return not_found("model " + std::to_string(model.value) + " is not in the executor");
  }
  if (state_->in_flight && state_->model_in_flight == model) {
    return unavailable("a step of model " + std::to_string(model.value) + " is in flight");
  }
  dropped = std::move(at->second);
  state_->models.erase(at);
  return {};
}

const StepExecutor::Capabilities& HostExecutor::capabilities() const {
  return state_->capabilities;
}

Status HostExecutor::submit(request::Batch batch) {
  const std::lock_guard lock(state_->mutex);
  if (state_->in_flight) return unavailable("a step is in flight");
  if (!state_->models.contains(batch.model)) {
    return not_found("model " + std::to_string(batch.model.value) + " is not in the executor");
  }
  state_->in_flight = true;
  state_->model_in_flight = batch.model;
  state_->queued = std::move(batch);
  state_->wake.notify_one();
  return {};
}

std::optional<request::StepResult> HostExecutor::wait(Nanos timeout) {
  std::unique_lock lock(state_->mutex);
  CAUSEWAY_CHECK(state_->in_flight, "no step is in flight");
  const std::chrono::nanoseconds longest(std::clamp(timeout, Nanos(0), kWaitMax).count);
  if (!state_->done.wait_for(lock, longest, [this] { return state_->result.has_value(); })) {
    return std::nullopt;
  }
  state_->in_flight = false;
  return std::exchange(state_->result, std::nullopt);
}

}  // namespace causeway::engine
