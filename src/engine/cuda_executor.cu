#include "engine/cuda_executor.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/log_text.h"
#include "device/cuda/cuda_device.h"
#include "engine/cuda_hidden.cuh"
#include "engine/cuda_mirror.cuh"
#include "engine/cuda_sampler.h"
#include "engine/executor_models.h"
#include "engine/kv_copies.h"
#include "kernels/pending_tokens/pending_tokens.h"
#include "kernels/small_copy/small_copy.h"
#include "model/first_steps.h"
#include "model/step_ranges.h"

namespace causeway::engine {
namespace {

constexpr Nanos kSettle = seconds(10);  // for what a failed submit() left on the stream

constexpr int kStepsInFlightMax = 2;

// The pause between two polls of what a step waits for.
constexpr Nanos kLook = micros(50);

void pause() {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  (void)never.wait_for(lock, std::chrono::nanoseconds(kLook.count));
}

// What each step in flight needs for itself, because the other one's may be in use.
struct Flight {
  explicit Flight(model::CudaWorkspace& workspace)
      : tables(workspace), sampler(workspace), hidden(workspace) {}

  StepId step;
  CudaMirror<std::int32_t> tables;  // as uploaded, pending tokens and all
  CudaSampler sampler;
  CudaHidden hidden;
  std::unique_ptr<device::Event> uploaded;
  std::unique_ptr<device::Event> begun;
  std::unique_ptr<device::Event> ended;
  std::optional<Error> abandoned;  // why it will fail, though part of it runs
  // The step awaits masks: its logits are computed, and nothing is enqueued after them.
  std::optional<request::Batch> unsampled;
  CudaLogits logits;
};

// A step of a resident model that is not enqueued yet, because not all copies of KV that it reads
// have arrived. A stream must not wait for them: when the driver blocks all threads until the
// device is idle (it loads a kernel, or its launch queue is full), the transfer engine's thread
// cannot issue the rest of the copies, and the wait would never end.
struct DeferredStep {
  request::Batch batch;
  weights::StepWeights weights;
  CudaModel* model = nullptr;
  std::vector<kv::CopyGate> gates;
};

void fill_masks(request::Batch& batch, std::vector<request::LateMask> masks) {
  auto next = masks.begin();
  for (request::BatchEntry& entry : batch.entries) {
    entry.edits.mask_follows = false;
    // In the order of the entries; null for those that have ended.
    if (next == masks.end() || next->request != entry.request) continue;
    entry.edits.mask = std::move(next->mask);
    ++next;
  }
  CAUSEWAY_CHECK(next == masks.end(), "a mask is for a row that the step has not");
}

bool all_open(const std::vector<kv::CopyGate>& gates) {
  return std::all_of(gates.begin(), gates.end(), [](const auto& gate) { return gate.open(); });
}

// The step of a streamed model, enqueued up to `next`.
struct StreamedFlight {
  explicit StreamedFlight(model::CudaWorkspace& workspace) : flight(workspace) {}

  Flight flight;
  std::vector<kv::CopyGate> gates;  // must be open before its first range
  model::CudaForward* forward = nullptr;
  weights::StepWeights weights;
  std::vector<model::StepRange> ranges;
  std::size_t next = 0;
  std::int64_t tables_used = 0;
  // The events behind the last two ranges. No more ranges are enqueued at a time, so that other
  // steps can run.
  std::array<std::unique_ptr<device::Event>, 2> marks;

  bool enqueued() const { return next == ranges.size(); }
};

}  // namespace

class CudaExecutor::State {
 public:
  State(device::Device& slice, model::CudaWorkspace& workspace, const CudaFrames& frames,
        model::CudaWorkspace* streamed_workspace, kv::KvMover* mover)
      : slice(slice),
        workspace(workspace),
        streamed_workspace(streamed_workspace),
        frames(frames),
        mover(mover),
        capabilities{.steps_in_flight_max = kStepsInFlightMax,
                     .streams = streamed_workspace != nullptr,
                     .rotates = mover != nullptr,
                     .late_masks = true},
        flights{Flight(workspace), Flight(workspace)},
        models(frames.bytes, kStepsInFlightMax),
        streamed_models(frames.bytes) {
    if (streamed_workspace != nullptr) streamed.emplace(*streamed_workspace);
  }

  Status open();
  Status open(Flight& flight, const model::CudaWorkspace& of);
  Status check_limits(const request::Batch& batch, const model::CudaWorkspace& of) const;
  Status begin_streamed(const request::Batch& batch, weights::StepWeights weights,
                        CudaModel& cuda_model);
  // Enqueues the ranges of the streamed step that may run now.
  void advance();
  bool range_may_start() const;
  Status enqueue_range();
  // Enqueues steps in the order of their submission, as far as the copies that they read have
  // arrived.
  void start_deferred();
  bool deferred_may_start();
  // The result of the oldest resident step, or of the streamed one, if it has ended.
  std::optional<request::StepResult> poll_resident(Nanos timeout);
  std::optional<request::StepResult> poll_enqueued(Nanos timeout);
  std::optional<request::StepResult> poll_streamed();
  std::optional<request::StepResult> wait_for_either(Nanos timeout);
  Status start_step(const request::Batch& batch, weights::StepWeights weights,
                    CudaModel& cuda_model);
  Status enqueue(const request::Batch& batch, weights::StepWeights weights, CudaModel& cuda_model);
  // `sampled`: with what the sampler needs, which otherwise follows with the masks.
  Status upload(const request::Batch& batch, const model::StepShape& shape, Flight& flight,
                bool sampled);
  Status upload_sampling(const request::Batch& batch, Flight& flight);
  Status supply_masks(StepId step, std::vector<request::LateMask> masks);
  Status sample_unsampled(Flight& flight, std::vector<request::LateMask> masks);
  Status bring_tables(const request::Batch& batch, Flight& flight);
  Status copy_tables(Flight& flight, std::int64_t elements, const model::CudaWorkspace& to);
  Result<bool> load_kernels(ModelId model, const CudaModel& cuda_model,
                            const std::function<bool()>& stop);
  Status settle(Nanos timeout);
  request::StepResult finish_step(const Flight& flight, const Status& ended) const;

  Flight& next() { return flights[static_cast<std::size_t>(submitted % kStepsInFlightMax)]; }
  Flight& before() {
    return flights[static_cast<std::size_t>((submitted + 1) % kStepsInFlightMax)];
  }
  Flight& oldest() { return flights[static_cast<std::size_t>(returned % kStepsInFlightMax)]; }
  kernels::CudaStream cuda() const { return device::cuda_stream_of(*stream); }

  device::Device& slice;
  model::CudaWorkspace& workspace;
  model::CudaWorkspace* const streamed_workspace;  // null: no model is streamed
  const CudaFrames frames;
  kv::KvMover* const mover;  // null: KV does not rotate
  const Capabilities capabilities;

  std::array<Flight, kStepsInFlightMax> flights;
  std::deque<DeferredStep> deferred;
  std::optional<StreamedFlight> streamed;
  // Declared after the members that they use, so that running work ends before these are destroyed.
  std::unique_ptr<device::Stream> stream;   // the steps, one after the other
  std::unique_ptr<device::Stream> uploads;  // of the next step's tables meanwhile
  std::vector<std::int64_t> buckets;
  std::size_t table_elements = 0;
  std::int64_t submitted = 0;
  std::int64_t returned = 0;
  std::int64_t tables_used = 0;          // of the step that is being enqueued
  std::vector<model::ModelConfig> warm;  // those whose kernels are loaded
  ModelId warming;  // the one whose kernels are being loaded
  std::size_t warm_shapes = 0;           // of its first steps
  bool warms = true;  // kernels can be loaded ahead
  ExecutorModels<CudaModel> models;
  ExecutorModels<CudaModel> streamed_models;
};

Status CudaExecutor::State::open() {
  CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(slice));
  CAUSEWAY_ASSIGN(stream, device::make_cuda_stream(slice, "steps", device::CopyPriority::kStep));
  CAUSEWAY_ASSIGN(uploads, device::make_cuda_stream(slice, "tables", device::CopyPriority::kStep));
  const model::CudaStepLimits& limits = workspace.limits();
  buckets = model::decode_buckets(limits.slots);
  table_elements =
      static_cast<std::size_t>(model::table_elements_max(limits.rows, limits.slots, limits.frames));
  for (Flight& flight : flights) CAUSEWAY_TRY(open(flight, workspace));
  if (!streamed) return {};
  for (auto& mark : streamed->marks) {
    CAUSEWAY_ASSIGN(mark, slice.make_mark());
  }
  return open(streamed->flight, *streamed_workspace);
}

Status CudaExecutor::State::open(Flight& flight, const model::CudaWorkspace& of) {
  CAUSEWAY_ASSIGN(flight.uploaded, slice.make_event());
  CAUSEWAY_ASSIGN(flight.begun, slice.make_event());
  CAUSEWAY_ASSIGN(flight.ended, slice.make_event());
  // The memory is taken now, because later it would wait for the step that runs.
  CAUSEWAY_TRY(flight.sampler.reserve(of.limits().slots));
  return flight.tables.ensure(table_elements);
}

// True: everything that steps of the model are likely to need was loaded.
Result<bool> CudaExecutor::State::load_kernels(ModelId model, const CudaModel& cuda_model,
                                               const std::function<bool()>& stop) {
  const model::ModelConfig& config = cuda_model.forward->config();
  const bool known = std::any_of(warm.begin(), warm.end(),
                                 [&](const auto& one) { return model::same_kernels(one, config); });
  if (known) return true;
  if (std::exchange(warming, model) != model) warm_shapes = 0;
  CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(slice));
  const model::KvMemory kv{.base = frames.base, .layout = cuda_model.layout, .dtype = DType::kBF16};
  const auto shapes = model::first_steps(workspace.limits().rows, buckets, config.plain_context());
  for (; warm_shapes < shapes.size(); ++warm_shapes) {
    CAUSEWAY_ASSIGN(const bool loaded,
                    cuda_model.forward->load_kernels(shapes[warm_shapes], kv, stop, cuda()));
    if (!loaded) return false;
  }
  warm.push_back(config);
  warming = {};
  return true;
}

// While the step before runs.
Status CudaExecutor::State::upload(const request::Batch& batch, const model::StepShape& shape,
                                   Flight& flight, bool sampled) {
  tables_used = model::write_tables(batch, shape, {flight.tables.host(), table_elements});
  const kernels::CudaStream cuda_uploads = device::cuda_stream_of(*uploads);
  CAUSEWAY_TRY(flight.tables.up(static_cast<std::size_t>(tables_used), cuda_uploads));
  if (sampled) return upload_sampling(batch, flight);
  return uploads->record(*flight.uploaded);
}

Status CudaExecutor::State::upload_sampling(const request::Batch& batch, Flight& flight) {
  CAUSEWAY_TRY(flight.sampler.prepare(batch));
  CAUSEWAY_TRY(flight.sampler.upload(device::cuda_stream_of(*uploads)));
  return uploads->record(*flight.uploaded);
}

// After the step before: its tokens are written into the tables, and the tables to where kernels
// and graphs read them. Later kernels wait for the end of that copy before they read the tables, or
// follow a kernel that does (those of rope and embedding let no later kernel start before).
Status CudaExecutor::State::bring_tables(const request::Batch& batch, Flight& flight) {
  const bool pending = std::any_of(batch.tokens.begin(), batch.tokens.end(), request::is_pending);
  const CudaChosen chosen = before().sampler.chosen();
  // The table of tokens is the first of the block, with a token for each row.
  if (pending) {
    CAUSEWAY_TRY(kernels::pending_tokens::run({.tokens = flight.tables.device(),
                                               .count = std::ssize(batch.tokens),
                                               .chosen = chosen.tokens,
                                               .rows = chosen.rows},
                                              cuda()));
  }
  return copy_tables(flight, tables_used, workspace);
}

Status CudaExecutor::State::copy_tables(Flight& flight, std::int64_t elements,
                                        const model::CudaWorkspace& to) {
  return kernels::small_copy::run(
      {.target = to.tables(), .source = flight.tables.device(), .bytes = Bytes(elements * 4)},
      cuda());
}

Status CudaExecutor::State::enqueue(const request::Batch& batch, weights::StepWeights weights,
                                    CudaModel& cuda_model) {
  Flight& flight = next();
  const std::int64_t plain = cuda_model.forward->config().plain_context();
  const model::StepShape shape = model::shape_of(batch, buckets, plain);
  const bool sampled = !batch.awaits_masks();
  CAUSEWAY_TRY(upload(batch, shape, flight, sampled));
  CAUSEWAY_TRY(flight.hidden.prepare(batch, cuda_model.forward->config().hidden));
  CAUSEWAY_TRY(stream->wait(*flight.uploaded));
  CAUSEWAY_TRY(stream->record(*flight.begun));
  CAUSEWAY_TRY(bring_tables(batch, flight));
  const model::KvMemory kv{.base = frames.base, .layout = cuda_model.layout, .dtype = DType::kBF16};
  CAUSEWAY_TRY(cuda_model.forward->run(shape, kv, {weights, stream.get()}, cuda()));
  flight.logits = {.data = cuda_model.forward->logits(),
                   .vocab = cuda_model.forward->config().vocab};
  CAUSEWAY_TRY(flight.hidden.enqueue(cuda_model.forward->hidden(), cuda()));
  if (!sampled) {
    flight.unsampled = batch;
    return {};
  }
  CAUSEWAY_TRY(flight.sampler.enqueue(flight.logits, before().sampler.chosen(), cuda()));
  return stream->record(*flight.ended);
}

Status CudaExecutor::State::supply_masks(StepId step, std::vector<request::LateMask> masks) {
  if (!deferred.empty()) {
    CAUSEWAY_CHECK(deferred.back().batch.step == step, "masks are of the newest step");
    fill_masks(deferred.back().batch, std::move(masks));
    return {};
  }
  Flight& flight = before();
  CAUSEWAY_CHECK(submitted > returned && flight.step == step, "masks are of the newest step");
  if (flight.abandoned) return {};
  CAUSEWAY_CHECK(flight.unsampled, "a step gets masks that awaits none");
  const Status sampled = sample_unsampled(flight, std::move(masks));
  if (!sampled.ok()) flight.abandoned = sampled.error();
  return sampled;
}

Status CudaExecutor::State::sample_unsampled(Flight& flight, std::vector<request::LateMask> masks) {
  CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(slice));
  request::Batch batch = *std::exchange(flight.unsampled, std::nullopt);
  fill_masks(batch, std::move(masks));
  CAUSEWAY_TRY(upload_sampling(batch, flight));
  CAUSEWAY_TRY(stream->wait(*flight.uploaded));
  // The step before the newest one is in the slot of the next.
  CAUSEWAY_TRY(flight.sampler.enqueue(flight.logits, next().sampler.chosen(), cuda()));
  return stream->record(*flight.ended);
}

// The enqueued part of a failed step must not run on while its frames go to others.
Status CudaExecutor::State::settle(Nanos timeout) {
  const Status uploaded = uploads->synchronize(timeout);
  const Status run = stream->synchronize(timeout);
  const bool late = !uploaded.ok() && uploaded.error().code == ErrorCode::kDeadlineExceeded;
  return late ? uploaded : run;
}

Status CudaExecutor::State::check_limits(const request::Batch& batch,
                                         const model::CudaWorkspace& of) const {
  for (const FrameId frame : batch.frames) {
    CAUSEWAY_CHECK(frame.value >= 0 && frame.value < frames.count, "a frame outside the pool");
  }
  const model::CudaStepLimits& limits = of.limits();
  if (std::ssize(batch.tokens) > limits.rows || std::ssize(batch.entries) > limits.slots ||
      std::ssize(batch.frames) > limits.frames || batch.logit_rows() > limits.slots) {
    return invalid_argument("a step of " + std::to_string(batch.tokens.size()) + " tokens, " +
                            std::to_string(batch.entries.size()) + " sequences, " +
                            std::to_string(batch.frames.size()) + " frames and " +
                            std::to_string(batch.logit_rows()) +
                            " rows of logits exceeds what the workspace was made for");
  }
  return {};
}

Status CudaExecutor::State::start_step(const request::Batch& batch, weights::StepWeights weights,
                                       CudaModel& cuda_model) {
  CAUSEWAY_TRY(check_limits(batch, workspace));
  CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(slice));
  Flight& flight = next();
  flight.step = batch.step;
  flight.abandoned.reset();
  flight.unsampled.reset();
  const Status enqueued = enqueue(batch, weights, cuda_model);
  if (enqueued.ok()) return {};
  const Status settled = settle(kSettle);
  if (settled.ok() || settled.error().code != ErrorCode::kDeadlineExceeded) return enqueued;
  flight.abandoned = enqueued.error();  // wait() reports it when the rest has ended
  return {};
}

Status CudaExecutor::State::begin_streamed(const request::Batch& batch,
                                           weights::StepWeights weights, CudaModel& cuda_model) {
  CAUSEWAY_TRY(check_limits(batch, *streamed_workspace));
  CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(slice));
  StreamedFlight& step = *streamed;
  step.flight.step = batch.step;
  step.flight.abandoned.reset();
  step.weights = weights;
  step.forward = cuda_model.forward.get();
  const std::int64_t plain = cuda_model.forward->config().plain_context();
  const model::StepShape shape = model::shape_of(batch, buckets, plain);
  CAUSEWAY_CHECK(!batch.awaits_masks(), "a streamed step awaits no masks");
  CAUSEWAY_TRY(upload(batch, shape, step.flight, true));
  CAUSEWAY_TRY(step.flight.hidden.prepare(batch, cuda_model.forward->config().hidden));
  step.tables_used = tables_used;
  const model::KvMemory kv{.base = frames.base, .layout = cuda_model.layout, .dtype = DType::kBF16};
  CAUSEWAY_TRY(step.forward->begin(shape, kv, {weights, stream.get()}, cuda()));
  step.ranges = model::step_ranges(step.forward->config(), weights);
  step.next = 0;
  return {};
}

bool CudaExecutor::State::range_may_start() const {
  const StreamedFlight& step = *streamed;
  if (step.enqueued()) return false;
  if (!all_open(step.gates)) return false;
  if (step.next >= step.marks.size()) {
    // An error is found at the end of the step.
    const auto done = step.marks[step.next % step.marks.size()]->done();
    if (done.ok() && !*done) return false;
  }
  return model::has_arrived(step.ranges[step.next], step.forward->config(), step.weights);
}

Status CudaExecutor::State::enqueue_range() {
  StreamedFlight& step = *streamed;
  const std::size_t index = step.next++;
  if (index == 0) {
    CAUSEWAY_TRY(stream->wait(*step.flight.uploaded));
    CAUSEWAY_TRY(stream->record(*step.flight.begun));
    CAUSEWAY_TRY(copy_tables(step.flight, step.tables_used, *streamed_workspace));
  }
  CAUSEWAY_TRY(step.forward->run_range(step.ranges[index]));
  CAUSEWAY_TRY(stream->record(*step.marks[index % step.marks.size()]));
  if (!step.enqueued()) return {};
  const CudaLogits logits{.data = step.forward->logits(), .vocab = step.forward->config().vocab};
  CAUSEWAY_TRY(step.flight.sampler.enqueue(logits, step.flight.sampler.chosen(), cuda()));
  CAUSEWAY_TRY(step.flight.hidden.enqueue(step.forward->hidden(), cuda()));
  return stream->record(*step.flight.ended);
}

// A step that cannot be enqueued completely fails when its enqueued part has ended.
void CudaExecutor::State::advance() {
  if (!range_may_start()) return;
  const auto current = device::CudaCurrent::enter(slice);
  Status enqueued = current.ok() ? Status() : Status(current.error());
  while (enqueued.ok() && range_may_start()) enqueued = enqueue_range();
  if (enqueued.ok()) return;
  streamed->flight.abandoned = enqueued.error();
  streamed->next = streamed->ranges.size();
  // Where even that fails the device is lost, and no part of the step runs on.
  (void)stream->record(*streamed->flight.ended).ok();
}

std::optional<request::StepResult> CudaExecutor::State::poll_streamed() {
  const Flight& flight = streamed->flight;
  if (!streamed->enqueued()) return std::nullopt;
  Status ended;
  for (const device::Event* event : {flight.uploaded.get(), flight.ended.get()}) {
    const auto done = event->done();
    if (done.ok() && !*done) return std::nullopt;
    if (ended.ok() && !done.ok()) ended = done.error();
  }
  if (flight.abandoned) ended = *flight.abandoned;
  request::StepResult result = finish_step(flight, ended);
  if (ended.ok()) result.experts_chosen = streamed->forward->take_experts_chosen();
  streamed_models.end_step();
  return result;
}

void CudaExecutor::State::start_deferred() {
  while (deferred_may_start()) {
    const DeferredStep step = std::move(deferred.front());
    deferred.pop_front();
    Flight& flight = next();
    flight.step = step.batch.step;
    const Status started = start_step(step.batch, step.weights, *step.model);
    ++submitted;
    if (started.ok()) continue;
    flight.abandoned = started.error();
    return;
  }
}

// A step after one that failed while it was enqueued waits for its end.
bool CudaExecutor::State::deferred_may_start() {
  if (deferred.empty() || !all_open(deferred.front().gates)) return false;
  return submitted == returned || !oldest().abandoned;
}

std::optional<request::StepResult> CudaExecutor::State::poll_resident(Nanos timeout) {
  for (Nanos waited; !deferred.empty(); waited += kLook) {
    start_deferred();
    if (deferred.empty()) break;
    if (submitted > returned) {
      if (auto result = poll_enqueued(kLook)) {
        start_deferred();
        return result;
      }
    } else {
      pause();
    }
    if (waited >= timeout) return std::nullopt;
  }
  return poll_enqueued(timeout);
}

std::optional<request::StepResult> CudaExecutor::State::poll_enqueued(Nanos timeout) {
  const Flight& flight = oldest();
  if (flight.unsampled && !flight.abandoned) {  // this thread will supply its masks
    pause();
    return std::nullopt;
  }
  const Status waited = flight.abandoned ? settle(timeout) : flight.ended->wait(timeout);
  if (!waited.ok() && waited.error().code == ErrorCode::kDeadlineExceeded) return std::nullopt;
  const bool fails = flight.abandoned && waited.ok();
  const Status ended = fails ? Status(*flight.abandoned) : waited;
  request::StepResult result = finish_step(flight, ended);
  ++returned;
  models.end_step();
  return result;
}

std::optional<request::StepResult> CudaExecutor::State::wait_for_either(Nanos timeout) {
  for (Nanos waited;; waited += kLook) {
    advance();
    if (auto result = poll_streamed()) return result;
    if (models.step_in_flight()) {
      if (auto result = poll_resident(kLook)) return result;
    } else {
      pause();
    }
    if (waited >= timeout) return std::nullopt;
  }
}

request::StepResult CudaExecutor::State::finish_step(const Flight& flight,
                                                     const Status& status) const {
  request::StepResult result;
  result.step = flight.step;
  if (!status.ok()) {
    result.error = status.error().message;
    return result;
  }
  result.sampled = flight.sampler.collect();
  flight.hidden.collect(result.sampled);
  const auto from = flight.begun->completed_at();
  const auto to = flight.ended->completed_at();
  if (from.ok() && to.ok()) result.duration = *to - *from;
  return result;
}

CudaExecutor::CudaExecutor(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<CudaExecutor>> CudaExecutor::start(device::Device& slice,
                                                          model::CudaWorkspace& workspace,
                                                          const CudaFrames& frames,
                                                          model::CudaWorkspace* streamed,
                                                          kv::KvMover* mover) {
  if (frames.base == nullptr || frames.bytes.count < 1 || frames.count < 1) {
    return invalid_argument("the KV frames need memory, a size and a count");
  }
  auto state = std::make_unique<State>(slice, workspace, frames, streamed, mover);
  CAUSEWAY_TRY(state->open());
  return std::make_unique<CudaExecutor>(std::move(state));
}

// The streams are destroyed first, and with them the running work; then the rest can be freed. A
// stream that waits for a gate would not end.
CudaExecutor::~CudaExecutor() {
  if (state_->mover != nullptr) state_->mover->open_gates();
  state_->stream.reset();
  state_->uploads.reset();
}

Status CudaExecutor::add_model(ModelId model, CudaModel cuda_model) {
  if (!cuda_model.streamed) return state_->models.add(model, std::move(cuda_model));
  if (!state_->streamed) return unsupported("this slice has no workspace for streamed models");
  return state_->streamed_models.add(model, std::move(cuda_model));
}

Status CudaExecutor::remove_model(ModelId model) {
  const bool streamed = state_->streamed_models.knows(model);
  return (streamed ? state_->streamed_models : state_->models).remove(model);
}

const StepExecutor::Capabilities& CudaExecutor::capabilities() const {
  return state_->capabilities;
}

void CudaExecutor::begin_copies(std::span<const kv::KvCopy> copies) {
  submit_copies(copies, state_->mover);
}
std::vector<kv::KvCopyEnd> CudaExecutor::poll_copies() {
  auto ends = poll_mover(state_->mover);
  state_->start_deferred();
  return ends;
}
bool CudaExecutor::warm_up(ModelId model, const std::function<bool()>& stop) {
  State& state = *state_;
  if (!state.warms || state.streamed_models.knows(model)) return true;
  CAUSEWAY_CHECK(!state.models.step_in_flight(), "kernels are loaded ahead beside a step");
  const auto cuda_model = state.models.begin_step(model);
  if (!cuda_model.ok()) return true;
  const auto loaded = state.load_kernels(model, **cuda_model, stop);
  state.models.take_back_step();
  if (loaded.ok()) return *loaded;
  state.warms = false;
  log_warning("kernels are loaded when they are first used, which is slower: " +
              loaded.error().message);
  return true;
}

kv::KvCopyRates CudaExecutor::copy_rates() const { return rates_of(state_->mover); }

Status CudaExecutor::health() const { return state_->slice.health(); }

Status CudaExecutor::submit(request::Batch batch, weights::StepWeights weights) {
  std::vector<kv::CopyGate> gates = begin_copies_of(batch, state_->mover);
  if (state_->streamed_models.knows(batch.model)) {
    CAUSEWAY_ASSIGN(CudaModel * model, state_->streamed_models.begin_step(batch.model));
    state_->streamed->gates = std::move(gates);
    Status begun = state_->begin_streamed(batch, weights, *model);
    if (begun.ok()) {
      state_->advance();
    } else {
      // Its tables may still be on their way.
      (void)state_->uploads->synchronize(kSettle).ok();
      state_->streamed_models.take_back_step();
    }
    return begun;
  }
  CAUSEWAY_ASSIGN(CudaModel * cuda_model, state_->models.begin_step(batch.model));
  if (!state_->deferred.empty() || !all_open(gates)) {
    if (Status fits = state_->check_limits(batch, state_->workspace); !fits.ok()) {
      state_->models.take_back_step();
      return fits;
    }
    state_->deferred.push_back({std::move(batch), weights, cuda_model, std::move(gates)});
    return {};
  }
  Status started = state_->start_step(batch, weights, *cuda_model);
  if (started.ok()) {
    ++state_->submitted;
  } else {
    state_->models.take_back_step();
  }
  return started;
}

Status CudaExecutor::supply_masks(StepId step, std::vector<request::LateMask> masks) {
  return state_->supply_masks(step, std::move(masks));
}

std::optional<request::StepResult> CudaExecutor::wait(Nanos timeout) {
  const bool streamed = state_->streamed_models.step_in_flight();
  CAUSEWAY_CHECK(streamed || state_->models.step_in_flight(), "no step is in flight");
  return streamed ? state_->wait_for_either(timeout) : state_->poll_resident(timeout);
}

}  // namespace causeway::engine
