#include "engine/cuda_executor.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "device/cuda/cuda_device.h"
#include "engine/cuda_sampler.h"
#include "engine/executor_models.h"
#include "kernels/cuda_status.cuh"

namespace causeway::engine {
namespace {

// A graph each: one costs some megabytes, and padding to the next costs less than a tenth.
constexpr std::array<std::int64_t, 20> kBuckets = {1,  2,  4,  8,  12, 16, 20,  24,  28,  32,
                                                   40, 48, 56, 64, 80, 96, 128, 160, 192, 256};
constexpr Nanos kSettle = seconds(10);  // for what a failed submit() left behind

struct FreeHost {
  void operator()(std::int32_t* memory) const { cudaFreeHost(memory); }
};
using PinnedTables = std::unique_ptr<std::int32_t, FreeHost>;

}  // namespace

class CudaExecutor::State {
 public:
  State(device::Device& slice, model::CudaWorkspace& workspace, const CudaFrames& frames)
      : slice(slice), workspace(workspace), frames(frames), models(frames.bytes) {}

  Status open();
  Status start_step(const request::Batch& batch, CudaModel& cuda_model);
  Status enqueue(const request::Batch& batch, CudaModel& cuda_model);
  request::StepResult finish_step(const Status& ended) const;

  device::Device& slice;
  model::CudaWorkspace& workspace;
  const CudaFrames frames;
  const Capabilities capabilities;

  std::unique_ptr<device::Stream> stream;
  std::unique_ptr<device::Event> begun;
  std::unique_ptr<device::Event> ended;
  std::vector<std::int64_t> buckets;
  PinnedTables tables;
  std::size_t table_elements = 0;
  CudaSampler sampler;

  StepId step;                     // in flight
  std::optional<Error> abandoned;  // why the step in flight is to fail, though part of it runs
  ExecutorModels<CudaModel> models;
};

Status CudaExecutor::State::open() {
  CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(slice));
  CAUSEWAY_ASSIGN(stream, device::make_cuda_stream(slice, "steps", device::CopyPriority::kStep));
  CAUSEWAY_ASSIGN(begun, slice.make_event());
  CAUSEWAY_ASSIGN(ended, slice.make_event());
  const model::CudaStepLimits& limits = workspace.limits();
  std::copy_if(kBuckets.begin(), kBuckets.end(), std::back_inserter(buckets),
               [&](std::int64_t bucket) { return bucket <= limits.places; });
  table_elements = static_cast<std::size_t>(
      model::table_elements_max(limits.rows, limits.places, limits.frames));
  void* pinned = nullptr;
  CAUSEWAY_TRY(kernels::cuda_status(cudaMallocHost(&pinned, table_elements * sizeof(std::int32_t)),
                                    "pinned memory for a step's tables"));
  tables.reset(static_cast<std::int32_t*>(pinned));
  return {};
}

Status CudaExecutor::State::enqueue(const request::Batch& batch, CudaModel& cuda_model) {
  for (const FrameId frame : batch.frames) {
    CAUSEWAY_CHECK(frame.value >= 0 && frame.value < frames.count, "a frame outside the pool");
  }
  const kernels::CudaStream cuda = device::cuda_stream_of(*stream);
  const model::StepShape shape = model::shape_of(batch, buckets);
  const std::int64_t used = model::write_tables(batch, shape, {tables.get(), table_elements});
  CAUSEWAY_TRY(sampler.prepare(batch));
  CAUSEWAY_TRY(stream->record(*begun));
  CAUSEWAY_TRY(
      kernels::cuda_status(cudaMemcpyAsync(workspace.tables(), tables.get(),
                                           static_cast<std::size_t>(used) * sizeof(std::int32_t),
                                           cudaMemcpyHostToDevice, cuda),
                           "copying a step's tables"));
  const model::KvMemory kv{.base = frames.base, .layout = cuda_model.layout, .dtype = DType::kBF16};
  CAUSEWAY_TRY(cuda_model.forward->run(shape, kv, cuda));
  CAUSEWAY_TRY(
      sampler.enqueue(cuda_model.forward->logits(), cuda_model.forward->config().vocab, cuda));
  return stream->record(*ended);
}

Status CudaExecutor::State::start_step(const request::Batch& batch, CudaModel& cuda_model) {
  const model::CudaStepLimits& limits = workspace.limits();
  if (std::ssize(batch.tokens) > limits.rows || std::ssize(batch.entries) > limits.places ||
      std::ssize(batch.frames) > limits.frames) {
    return invalid_argument("a step of " + std::to_string(batch.tokens.size()) + " tokens, " +
                            std::to_string(batch.entries.size()) + " sequences and " +
                            std::to_string(batch.frames.size()) +
                            " frames exceeds what the workspace was made for");
  }
  CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(slice));
  abandoned.reset();
  const Status enqueued = enqueue(batch, cuda_model);
  if (enqueued.ok()) return {};
  // What was enqueued of it must not run on while the frames go to others.
  const Status settled = stream->synchronize(kSettle);
  if (settled.ok() || settled.error().code != ErrorCode::kDeadlineExceeded) return enqueued;
  abandoned = enqueued.error();  // wait() reports it when the rest has ended
  return {};
}

request::StepResult CudaExecutor::State::finish_step(const Status& status) const {
  request::StepResult result;
  result.step = step;
  if (!status.ok()) {
    result.error = status.error().message;
    return result;
  }
  result.sampled = sampler.collect();
  const auto from = begun->completed_at();
  const auto to = ended->completed_at();
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

// The stream goes first, and with it what still runs; the rest may be freed then.
CudaExecutor::~CudaExecutor() { state_->stream.reset(); }

Status CudaExecutor::add_model(ModelId model, CudaModel cuda_model) {
  return state_->models.add(model, std::move(cuda_model));
}

Status CudaExecutor::remove_model(ModelId model) { return state_->models.remove(model); }

const StepExecutor::Capabilities& CudaExecutor::capabilities() const {
  return state_->capabilities;
}

Status CudaExecutor::submit(request::Batch batch) {
  CAUSEWAY_ASSIGN(CudaModel * cuda_model, state_->models.begin_step(batch.model));
  state_->step = batch.step;
  Status started = state_->start_step(batch, *cuda_model);
  if (!started.ok()) state_->models.end_step();
  return started;
}

std::optional<request::StepResult> CudaExecutor::wait(Nanos timeout) {
  CAUSEWAY_CHECK(state_->models.step_in_flight(), "no step is in flight");
  Status ended =
      state_->abandoned ? state_->stream->synchronize(timeout) : state_->ended->wait(timeout);
  if (!ended.ok() && ended.error().code == ErrorCode::kDeadlineExceeded) return std::nullopt;
  if (state_->abandoned && ended.ok()) ended = *state_->abandoned;
  request::StepResult result = state_->finish_step(ended);
  state_->models.end_step();
  return result;
}

}  // namespace causeway::engine
