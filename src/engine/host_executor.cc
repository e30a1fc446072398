#include "engine/host_executor.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/dcheck.h"
#include "engine/executor_models.h"
#include "engine/kv_copies.h"
#include "kernels/parallel.h"
#include "kernels/sampling/sampling.h"

namespace causeway::engine {
namespace {

// A step on the CPU is bounded work that always ends. A long prompt of a large model takes minutes
// on few cores, and a client that gave up would only come back and wait again.
constexpr Nanos kStepTimeout = seconds(86'400);
// The pause between two polls for the end of copies of KV.
constexpr Nanos kGateWait = seconds(1);

// `bias`: the entry's, as the kernel takes it; the parameters refer to both.
kernels::sampling::Params sampling_params(const request::BatchEntry& entry,
                                          std::span<const kernels::sampling::TokenBias> bias) {
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
          .prompt_tokens = entry.prompt_tokens,
          .mask = entry.edits.mask,
          .allowed = entry.edits.allowed,
          .bias = bias,
          .banned = entry.edits.banned};
}

request::SampledToken sample(std::span<float> logits, RequestId request,
                             const kernels::sampling::Params& params) {
  const auto sample = kernels::sampling::sample(logits, params);
  request::SampledToken chosen{.request = request, .token = {}};
  chosen.token.token = sample.token;
  chosen.token.logprob = sample.logprob;
  for (const auto& [token, logprob] : sample.top) chosen.token.top.push_back({token, logprob});
  return chosen;
}

request::SampledToken choose(std::span<float> logits, const request::BatchEntry& entry) {
  CAUSEWAY_DCHECK(!logits.empty() && entry.samples, "a token is chosen of a row of logits");
  std::vector<kernels::sampling::TokenBias> bias;
  for (const request::TokenBias& one : entry.edits.bias) bias.push_back({one.token, one.bias});
  return sample(logits, entry.request, sampling_params(entry, bias));
}

// The only allowed token is chosen; its log-probability is that among all.
request::SampledToken score(std::span<float> logits, const request::BatchEntry& entry,
                            const TokenId& token) {
  return sample(logits, entry.request,
                {.temperature = 0.0f,
                 .top_logprobs = entry.sampling.prompt_logprobs,
                 .allowed = std::span(&token, 1)});
}

}  // namespace

namespace {

// `hidden`: of all rows.
void add_hidden(const request::Batch& batch, std::span<const float> hidden,
                std::vector<request::SampledToken>& sampled) {
  if (sampled.empty()) return;
  const std::size_t size = hidden.size() / sampled.size();
  CAUSEWAY_DCHECK(hidden.size() == size * sampled.size(),
                  "another number of hidden states than rows of logits");
  std::size_t row = 0;
  for (const request::BatchEntry& entry : batch.entries) {
    for (std::int64_t i = 0; i < entry.logit_rows(); ++i, ++row) {
      const auto of_row = hidden.subspan(row * size, size);
      if (entry.hidden) sampled[row].hidden.assign(of_row.begin(), of_row.end());
    }
  }
}

// A worker thread, and the models whose steps it executes one at a time.
struct HostLane {
  explicit HostLane(Bytes frame) : models(frame) {}

  ExecutorModels<HostModel> models;
  std::vector<float> logits;  // the worker's own

  // Guarded by the executor's mutex.
  std::optional<request::Batch> queued;
  HostModel* queued_model = nullptr;    // stays while the step is in flight
  weights::StepWeights queued_weights;  // of it, likewise
  std::vector<kv::CopyGate> queued_gates;
  std::optional<request::StepResult> result;

  std::thread thread;
};

}  // namespace

class HostExecutor::State {
 public:
  State(const HostFrames& frames_in, const Clock& clock_in, kv::KvMover* mover_in)
      : frames(frames_in),
        clock(clock_in),
        mover(mover_in),
        capabilities{.step_timeout = kStepTimeout, .streams = true, .rotates = mover_in != nullptr},
        lanes{HostLane(frames_in.bytes), HostLane(frames_in.bytes)} {}

  void run(HostLane& lane);
  request::StepResult execute(const request::Batch& batch, weights::StepWeights weights,
                              HostModel& host_model, std::vector<float>& logits);
  Status compute(const request::Batch& batch, weights::StepWeights weights, HostModel& host_model,
                 std::vector<float>& logits, std::vector<request::SampledToken>& sampled);
  void stop();
  Status submit_to(HostLane& lane, request::Batch& batch, weights::StepWeights weights);

  const HostFrames frames;
  const Clock& clock;
  kv::KvMover* const mover;  // null: KV does not rotate; of the caller's thread
  const Capabilities capabilities;

  std::mutex computing;  // held by the worker that computes; never together with `mutex`

  std::mutex mutex;              // guards what follows, and parts of the lanes
  std::condition_variable wake;  // the workers: a step, or the end
  std::condition_variable done;  // wait(): a result
  bool stopping = false;

  std::array<HostLane, 2> lanes;  // of resident models, of streamed ones
};

Status HostExecutor::State::compute(const request::Batch& batch, weights::StepWeights weights,
                                    HostModel& host_model, std::vector<float>& logits,
                                    std::vector<request::SampledToken>& sampled) {
  for (const FrameId frame : batch.frames) {
    CAUSEWAY_CHECK(frame.value >= 0 && frame.value < frames.count, "a frame outside the pool");
  }
  const auto rows = static_cast<std::size_t>(batch.logit_rows());
  const auto vocab = static_cast<std::size_t>(host_model.forward->config().vocab);
  logits.resize(rows * vocab);
  const model::KvMemory kv{
      .base = frames.base, .layout = host_model.layout, .dtype = host_model.kv_dtype};
  {
    std::unique_lock turn(computing);
    CAUSEWAY_TRY(host_model.forward->run(batch, kv, weights, logits, &turn));
  }
  std::size_t row = 0;
  const auto next_row = [&] { return std::span(logits).subspan(row++ * vocab, vocab); };
  for (const request::BatchEntry& entry : batch.entries) {
    for (const TokenId& token : entry.scored) sampled.push_back(score(next_row(), entry, token));
    if (entry.samples) sampled.push_back(choose(next_row(), entry));
  }
  CAUSEWAY_DCHECK(row == rows, "a token is chosen of each row");
  add_hidden(batch, host_model.forward->hidden(), sampled);
  return {};
}

request::StepResult HostExecutor::State::execute(const request::Batch& batch,
                                                 weights::StepWeights weights,
                                                 HostModel& host_model,
                                                 std::vector<float>& logits) {
  request::StepResult outcome;
  outcome.step = batch.step;
  const Nanos begin = clock.now();
  try {
    const Status computed = compute(batch, weights, host_model, logits, outcome.sampled);
    if (!computed.ok()) outcome.error = computed.error().message;
  } catch (const std::exception& error) {  // out of memory, or a library's
    outcome.error = std::string("the step failed: ") + error.what();
  }
  if (!outcome.error.empty()) outcome.sampled.clear();
  const auto chosen = host_model.forward->experts_chosen();
  if (outcome.error.empty()) outcome.experts_chosen.assign(chosen.begin(), chosen.end());
  outcome.duration = clock.now() - begin;
  return outcome;
}

void HostExecutor::State::run(HostLane& lane) {
  std::unique_lock lock(mutex);
  while (true) {
    wake.wait(lock, [&] { return lane.queued.has_value() || stopping; });
    if (stopping) return;
    CAUSEWAY_DCHECK(lane.queued_model != nullptr && !lane.result, "a lane computes one step");
    const request::Batch batch = std::move(*lane.queued);
    lane.queued.reset();
    HostModel& host_model = *lane.queued_model;
    const weights::StepWeights weights = lane.queued_weights;
    const std::vector<kv::CopyGate> gates = std::move(lane.queued_gates);
    lock.unlock();
    // A gate is always opened, by the thread that polls for the ends of copies, or that ends the
    // executor.
    for (const kv::CopyGate& gate : gates) {
      while (!gate.open()) (void)gate.semaphore->wait(gate.value, kGateWait).ok();
    }
    request::StepResult outcome = execute(batch, weights, host_model, lane.logits);
    lock.lock();
    lane.result = std::move(outcome);
    done.notify_one();
  }
}

void HostExecutor::State::stop() {
  {
    const std::lock_guard lock(mutex);
    stopping = true;
    wake.notify_all();
  }
  for (HostLane& lane : lanes) {
    if (lane.thread.joinable()) lane.thread.join();
  }
}

Status HostExecutor::State::submit_to(HostLane& lane, request::Batch& batch,
                                      weights::StepWeights weights) {
  std::vector<kv::CopyGate> gates = begin_copies_of(batch, mover);
  CAUSEWAY_ASSIGN(HostModel * host_model, lane.models.begin_step(batch.model));
  const std::lock_guard lock(mutex);
  CAUSEWAY_DCHECK(!lane.queued, "a lane takes a step before it has begun the last");
  lane.queued_model = host_model;
  lane.queued_weights = weights;
  lane.queued_gates = std::move(gates);
  lane.queued = std::move(batch);
  wake.notify_all();
  return {};
}

HostExecutor::HostExecutor(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<HostExecutor>> HostExecutor::start(const HostFrames& frames,
                                                          const Clock& clock, kv::KvMover* mover,
                                                          int threads) {
  if (frames.base == nullptr || frames.bytes.count < 1 || frames.count < 1 ||
      reinterpret_cast<std::uintptr_t>(frames.base) % 64 != 0) {
    return invalid_argument("the KV frames need 64-byte aligned memory, a size and a count");
  }
  auto state = std::make_unique<State>(frames, clock, mover);
  try {
    for (HostLane& lane : state->lanes) {
      lane.thread = std::thread([worker = state.get(), &lane, threads] {
        if (threads > 0) kernels::limit_threads(threads);
        worker->run(lane);
      });
    }
  } catch (const std::system_error& error) {
    state->stop();
    return exhausted(std::string("the executor's threads could not be started: ") + error.what());
  }
  return std::make_unique<HostExecutor>(std::move(state));
}

HostExecutor::~HostExecutor() {
  if (state_->mover != nullptr) state_->mover->open_gates();
  state_->stop();
}

void HostExecutor::begin_copies(std::span<const kv::KvCopy> copies) {
  submit_copies(copies, state_->mover);
}
std::vector<kv::KvCopyEnd> HostExecutor::poll_copies() { return poll_mover(state_->mover); }
kv::KvCopyRates HostExecutor::copy_rates() const { return rates_of(state_->mover); }

Status HostExecutor::add_model(ModelId model, HostModel host_model) {
  HostLane& lane = state_->lanes[host_model.streamed ? 1 : 0];
  return lane.models.add(model, std::move(host_model));
}

Status HostExecutor::remove_model(ModelId model) {
  const Status resident = state_->lanes[0].models.remove(model);
  if (resident.ok() || resident.error().code != ErrorCode::kNotFound) return resident;
  return state_->lanes[1].models.remove(model);
}

const StepExecutor::Capabilities& HostExecutor::capabilities() const {
  return state_->capabilities;
}

Status HostExecutor::submit(request::Batch batch, weights::StepWeights weights) {
  const bool streamed = state_->lanes[1].models.knows(batch.model);
  return state_->submit_to(state_->lanes[streamed ? 1 : 0], batch, weights);
}

std::optional<request::StepResult> HostExecutor::wait(Nanos timeout) {
  auto& lanes = state_->lanes;
  CAUSEWAY_CHECK(lanes[0].models.step_in_flight() || lanes[1].models.step_in_flight(),
                 "no step is in flight");
  std::unique_lock lock(state_->mutex);
  HostLane* ended = nullptr;
  state_->done.wait_for(lock, wait_time(timeout), [&] {
    for (HostLane& lane : lanes) {
      if (ended == nullptr && lane.result) ended = &lane;
    }
    return ended != nullptr;
  });
  if (ended == nullptr) return std::nullopt;
  CAUSEWAY_DCHECK(ended->models.step_in_flight(), "a step ends that was not submitted");
  ended->models.end_step();
  return std::exchange(ended->result, std::nullopt);
}

}  // namespace causeway::engine
