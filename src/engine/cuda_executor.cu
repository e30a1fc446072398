#include "engine/cuda_executor.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "device/cuda/cuda_device.h"
#include "engine/cuda_mirror.cuh"
#include "engine/cuda_sampler.h"
#include "engine/executor_models.h"
#include "kernels/pending_tokens/pending_tokens.h"
#include "kernels/small_copy/small_copy.h"

namespace causeway::engine {
namespace {

constexpr Nanos kSettle = seconds(10);  // for what a failed submit() left behind

constexpr int kStepsInFlightMax = 2;

// What a step in flight needs of its own. The other's may be in use at the same time.
struct Flight {
  explicit Flight(model::CudaWorkspace& workspace) : tables(workspace), sampler(workspace) {}

  StepId step;
  CudaMirror<std::int32_t> tables;  // as uploaded, pending tokens and all
  CudaSampler sampler;
  std::unique_ptr<device::Event> uploaded;
  std::unique_ptr<device::Event> begun;
  std::unique_ptr<device::Event> ended;
  std::optional<Error> abandoned;  // why it is to fail, though part of it runs
};

}  // namespace

class CudaExecutor::State {
 public:
  State(device::Device& slice, model::CudaWorkspace& workspace, const CudaFrames& frames)
      : slice(slice),
        workspace(workspace),
        frames(frames),
        capabilities{.steps_in_flight_max = kStepsInFlightMax},
        flights{Flight(workspace), Flight(workspace)},
        models(frames.bytes, kStepsInFlightMax) {}

  Status open();
  Status open(Flight& flight);
  Status start_step(const request::Batch& batch, weights::StepWeights weights,
                    CudaModel& cuda_model);
  Status enqueue(const request::Batch& batch, weights::StepWeights weights, CudaModel& cuda_model);
  Status upload(const request::Batch& batch, const model::StepShape& shape, Flight& flight);
  Status bring_tables(const request::Batch& batch, Flight& flight);
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
  const CudaFrames frames;
  const Capabilities capabilities;

  std::array<Flight, kStepsInFlightMax> flights;
  // After what they use: what still runs ends with them.
  std::unique_ptr<device::Stream> stream;   // the steps, one after the other
  std::unique_ptr<device::Stream> uploads;  // of the next one's tables meanwhile
  std::vector<std::int64_t> buckets;
  std::size_t table_elements = 0;
  std::int64_t submitted = 0;
  std::int64_t returned = 0;
  std::int64_t tables_used = 0;  // of the step that is being enqueued
  ExecutorModels<CudaModel> models;
};

Status CudaExecutor::State::open() {
  CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(slice));
  CAUSEWAY_ASSIGN(stream, device::make_cuda_stream(slice, "steps", device::CopyPriority::kStep));
  CAUSEWAY_ASSIGN(uploads, device::make_cuda_stream(slice, "tables", device::CopyPriority::kStep));
  const model::CudaStepLimits& limits = workspace.limits();
  buckets = model::decode_buckets(limits.places);
  table_elements = static_cast<std::size_t>(
      model::table_elements_max(limits.rows, limits.places, limits.frames));
  for (Flight& flight : flights) CAUSEWAY_TRY(open(flight));
  return {};
}

Status CudaExecutor::State::open(Flight& flight) {
  CAUSEWAY_ASSIGN(flight.uploaded, slice.make_event());
  CAUSEWAY_ASSIGN(flight.begun, slice.make_event());
  CAUSEWAY_ASSIGN(flight.ended, slice.make_event());
  // Memory is taken now: later it would wait for the step that runs.
  CAUSEWAY_TRY(flight.sampler.reserve(workspace.limits().places));
  return flight.tables.ensure(table_elements);
}

// While the step before runs.
Status CudaExecutor::State::upload(const request::Batch& batch, const model::StepShape& shape,
                                   Flight& flight) {
  tables_used = model::write_tables(batch, shape, {flight.tables.host(), table_elements});
  CAUSEWAY_TRY(flight.sampler.prepare(batch));
  const kernels::CudaStream cuda_uploads = device::cuda_stream_of(*uploads);
  CAUSEWAY_TRY(flight.tables.up(static_cast<std::size_t>(tables_used), cuda_uploads));
  CAUSEWAY_TRY(flight.sampler.upload(cuda_uploads));
  return uploads->record(*flight.uploaded);
}

// When the step before is done: its tokens into the tables, and the tables to where kernels and
// graphs read them. The kernels behind wait for the copy's end before they read the tables, or
// stand behind one that does (rope's and embedding's let nothing start before).
Status CudaExecutor::State::bring_tables(const request::Batch& batch, Flight& flight) {
  const bool pending = std::any_of(batch.tokens.begin(), batch.tokens.end(), request::is_pending);
  const CudaChosen chosen = before().sampler.chosen();
  // The table of tokens is the first of the block, a token a row.
  if (pending) {
    CAUSEWAY_TRY(kernels::pending_tokens::run({.tokens = flight.tables.device(),
                                               .count = std::ssize(batch.tokens),
                                               .chosen = chosen.tokens,
                                               .rows = chosen.rows},
                                              cuda()));
  }
  return kernels::small_copy::run({.target = workspace.tables(),
                                   .source = flight.tables.device(),
                                   .bytes = Bytes(tables_used * 4)},
                                  cuda());
}

Status CudaExecutor::State::enqueue(const request::Batch& batch, weights::StepWeights weights,
                                    CudaModel& cuda_model) {
  for (const FrameId frame : batch.frames) {
    CAUSEWAY_CHECK(frame.value >= 0 && frame.value < frames.count, "a frame outside the pool");
  }
  Flight& flight = next();
  const model::StepShape shape = model::shape_of(batch, buckets);
  CAUSEWAY_TRY(upload(batch, shape, flight));
  CAUSEWAY_TRY(stream->wait(*flight.uploaded));
  CAUSEWAY_TRY(stream->record(*flight.begun));
  CAUSEWAY_TRY(bring_tables(batch, flight));
  const model::KvMemory kv{.base = frames.base, .layout = cuda_model.layout, .dtype = DType::kBF16};
  CAUSEWAY_TRY(cuda_model.forward->run(shape, kv, {weights, stream.get()}, cuda()));
  const CudaLogits logits{.data = cuda_model.forward->logits(),
                          .vocab = cuda_model.forward->config().vocab};
  CAUSEWAY_TRY(flight.sampler.enqueue(logits, before().sampler.chosen(), cuda()));
  return stream->record(*flight.ended);
}

// What was enqueued of a step that failed must not run on while its frames go to others.
Status CudaExecutor::State::settle(Nanos timeout) {
  const Status uploaded = uploads->synchronize(timeout);
  const Status run = stream->synchronize(timeout);
  const bool late = !uploaded.ok() && uploaded.error().code == ErrorCode::kDeadlineExceeded;
  return late ? uploaded : run;
}

Status CudaExecutor::State::start_step(const request::Batch& batch, weights::StepWeights weights,
                                       CudaModel& cuda_model) {
  const model::CudaStepLimits& limits = workspace.limits();
  if (std::ssize(batch.tokens) > limits.rows || std::ssize(batch.entries) > limits.places ||
      std::ssize(batch.frames) > limits.frames) {
    return invalid_argument("a step of " + std::to_string(batch.tokens.size()) + " tokens, " +
                            std::to_string(batch.entries.size()) + " sequences and " +
                            std::to_string(batch.frames.size()) +
                            " frames exceeds what the workspace was made for");
  }
  CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(slice));
  Flight& flight = next();
  flight.step = batch.step;
  flight.abandoned.reset();
  const Status enqueued = enqueue(batch, weights, cuda_model);
  if (enqueued.ok()) return {};
  const Status settled = settle(kSettle);
  if (settled.ok() || settled.error().code != ErrorCode::kDeadlineExceeded) return enqueued;
  flight.abandoned = enqueued.error();  // wait() reports it when the rest has ended
  return {};
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
  const auto from = flight.begun->completed_at();
  const auto to = flight.ended->completed_at();
  if (from.ok() && to.ok()) result.duration = *to - *from;
  return result;
}

CudaExecutor::CudaExecutor(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<CudaExecutor>> CudaExecutor::start(device::Device& slice,
                                                          model::CudaWorkspace& workspace,
                                                          const CudaFrames& frames) {
  if (frames.base == nullptr || frames.bytes.count < 1 || frames.count < 1) {
    return invalid_argument("the KV frames need memory, a size and a count");
  }
  auto state = std::make_unique<State>(slice, workspace, frames);
  CAUSEWAY_TRY(state->open());
  return std::make_unique<CudaExecutor>(std::move(state));
}

// The streams go first, and with them what still runs; the rest may be freed then.
CudaExecutor::~CudaExecutor() {
  state_->stream.reset();
  state_->uploads.reset();
}

Status CudaExecutor::add_model(ModelId model, CudaModel cuda_model) {
  return state_->models.add(model, std::move(cuda_model));
}

Status CudaExecutor::remove_model(ModelId model) { return state_->models.remove(model); }

const StepExecutor::Capabilities& CudaExecutor::capabilities() const {
  return state_->capabilities;
}

Status CudaExecutor::health() const { return state_->slice.health(); }

Status CudaExecutor::submit(request::Batch batch, weights::StepWeights weights) {
  CAUSEWAY_ASSIGN(CudaModel * cuda_model, state_->models.begin_step(batch.model));
  Status started = state_->start_step(batch, weights, *cuda_model);
  if (started.ok()) {
    ++state_->submitted;
  } else {
    state_->models.take_back_step();
  }
  return started;
}

std::optional<request::StepResult> CudaExecutor::wait(Nanos timeout) {
  CAUSEWAY_CHECK(state_->models.step_in_flight(), "no step is in flight");
  const Flight& flight = state_->oldest();
  const Status waited = flight.abandoned ? state_->settle(timeout) : flight.ended->wait(timeout);
  if (!waited.ok() && waited.error().code == ErrorCode::kDeadlineExceeded) return std::nullopt;
  const bool fails = flight.abandoned && waited.ok();
  const Status ended = fails ? Status(*flight.abandoned) : waited;
  request::StepResult result = state_->finish_step(flight, ended);
  ++state_->returned;
  state_->models.end_step();
  return result;
}

}  // namespace causeway::engine
