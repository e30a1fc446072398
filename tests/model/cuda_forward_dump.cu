// Runs the GPU's forward pass over scripted steps (steps_script.h) and writes the logits: the C++
// side of transformers_check.py.
//
//   cuda_forward_dump MODEL_DIR STEPS LOGITS        exit code 77: no GPU
//
// LOGITS receives, in order, a row of f32 for every entry that samples. The frames' memory is full
// of NaN, so that reading what was never written shows. Steps of single tokens are padded to the
// engine's kind of buckets, so that graphs are captured and replayed.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <memory>
#include <vector>

#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_machine.h"
#include "kernels/cuda_status.cuh"
#include "model/config.h"
#include "model/cuda_forward.h"
#include "steps_script.h"
#include "weights/model_pool.h"

namespace causeway::tests {
namespace {

using kernels::cuda_status;

constexpr std::int64_t kFrames = 1024;
constexpr Bytes kArena = gib(16);
constexpr Nanos kPatience = seconds(60);
constexpr std::int64_t kBuckets[] = {1, 2, 4, 8, 16};
constexpr int kNoGpu = 77;

// One model resident on one slice.
class Runner {
 public:
  Status open(const char* directory, const StepsScript& script);
  Result<std::vector<float>> step(const ScriptStep& step);

 private:
  Status load(const char* directory);
  Status reserve(const StepsScript& script);

  device::HostMemory memory_;
  RealClock clock_;
  weights::ModelPool pool_{memory_, clock_, gib(16)};
  std::unique_ptr<weights::PinnedModel> home_;
  model::ModelConfig config_;
  std::unique_ptr<device::CudaMachine> machine_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  device::Extents weights_memory_;
  device::Extents kv_memory_;
  kv::BlockLayout layout_;
  std::unique_ptr<SequenceFrames> sequences_;
  std::unique_ptr<model::CudaWorkspace> workspace_;
  std::unique_ptr<model::CudaForward> forward_;
};

Status Runner::open(const char* directory, const StepsScript& script) {
  CAUSEWAY_ASSIGN(const auto api, device::load_cuda_api());
  CAUSEWAY_ASSIGN(machine_, device::CudaMachine::create(api, {}, clock_, memory_));
  CAUSEWAY_ASSIGN(device_, machine_->open({.name = "dump", .arena_bytes = kArena}));
  CAUSEWAY_ASSIGN(stream_, device_->make_stream("dump"));
  CAUSEWAY_ASSIGN(config_, model::load_config(directory));
  if (script.kv != DType::kBF16) return invalid_argument("on a GPU the script's kv is BF16");
  CAUSEWAY_ASSIGN(layout_, kv::plan_block(model::kv_shape(config_, script.kv), script.frame_bytes));
  sequences_ = std::make_unique<SequenceFrames>(kFrames, layout_.tokens.count);
  CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(*device_));
  CAUSEWAY_TRY(reserve(script));
  return load(directory);
}

// KV and workspace for the largest step of the script.
Status Runner::reserve(const StepsScript& script) {
  model::CudaStepLimits limits{.rows = 1, .slots = 16, .frames = kFrames};
  for (const ScriptStep& step : script.steps) {
    std::int64_t rows = 0;
    for (const ScriptEntry& entry : step) rows += std::ssize(entry.tokens);
    limits.rows = std::max({limits.rows, rows, limits.slots});
    limits.slots = std::max(limits.slots, std::ssize(step));
  }
  const Bytes extent = device_->arena().extent_bytes();
  CAUSEWAY_ASSIGN(kv_memory_,
                  device_->arena().allocate((layout_.frame * kFrames + extent - Bytes(1)) / extent,
                                            device::Arena::End::kLow));
  CAUSEWAY_TRY(cuda_status(
      cudaMemsetAsync(kv_memory_.data(), 0xFF, static_cast<std::size_t>(kv_memory_.bytes().count),
                      device::cuda_stream_of(*stream_)),
      "poisoning the KV"));
  CAUSEWAY_ASSIGN(workspace_, model::CudaWorkspace::create(*device_, config_, limits,
                                                           device_->capabilities().processors,
                                                           device::cuda_stream_of(*stream_)));
  return {};
}

Status Runner::load(const char* directory) {
  const ModelId id(0);
  const auto plan = model::plan_weights(config_, model::host_dtype(config_.dtype));
  CAUSEWAY_ASSIGN(const auto placed, weights::lay_out(plan));
  CAUSEWAY_TRY(pool_.load(id, {directory, plan, placed}, {}));
  CAUSEWAY_ASSIGN(home_, pool_.pin(id));
  device::Arena& arena = device_->arena();
  CAUSEWAY_ASSIGN(weights_memory_,
                  arena.allocate(arena.extents_for(placed.bytes), device::Arena::End::kHigh));
  const device::Copy copy{
      .target = device::MemoryAddress::in_arena(device_->id(), weights_memory_.offset()),
      .source = device::MemoryAddress::in_host(home_->address()),
      .bytes = placed.bytes};
  CAUSEWAY_TRY(stream_->copy({&copy, 1}, device::CopyPriority::kStep));
  CAUSEWAY_TRY(stream_->synchronize(kPatience));
  CAUSEWAY_ASSIGN(forward_,
                  model::CudaForward::create(config_, {.cached = {&placed, weights_memory_.data()}},
                                             *workspace_, {}));
  return {};
}

Result<std::vector<float>> Runner::step(const ScriptStep& step) {
  CAUSEWAY_ASSIGN(const request::Batch batch, sequences_->batch(step));
  CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(*device_));
  const auto stream = device::cuda_stream_of(*stream_);
  const model::StepShape shape = model::shape_of(batch, kBuckets, config_.plain_context());
  std::vector<std::int32_t> tables(static_cast<std::size_t>(
      model::table_elements_max(shape.rows, shape.slots, std::ssize(batch.frames))));
  const std::int64_t used = model::write_tables(batch, shape, tables);
  CAUSEWAY_TRY(cuda_status(
      cudaMemcpyAsync(workspace_->tables(), tables.data(), static_cast<std::size_t>(4 * used),
                      cudaMemcpyHostToDevice, stream),
      "copying the tables"));
  CAUSEWAY_TRY(forward_->run(shape, {.base = kv_memory_.data(), .layout = layout_}, stream));
  std::vector<float> logits(static_cast<std::size_t>(sampled_rows(step) * config_.vocab));
  CAUSEWAY_TRY(
      cuda_status(cudaMemcpyAsync(logits.data(), forward_->logits(), logits.size() * sizeof(float),
                                  cudaMemcpyDeviceToHost, stream),
                  "copying the logits"));
  CAUSEWAY_TRY(stream_->synchronize(kPatience));
  return logits;
}

Status run(const char* directory, const char* steps, const char* out) {
  CAUSEWAY_ASSIGN(const StepsScript script, read_steps_script(steps));
  Runner runner;
  CAUSEWAY_TRY(runner.open(directory, script));
  return write_logits(script, out, [&](const ScriptStep& step) { return runner.step(step); });
}

}  // namespace
}  // namespace causeway::tests

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: cuda_forward_dump MODEL_DIR STEPS LOGITS\n";
    return 2;
  }
  const causeway::Status status = causeway::tests::run(argv[1], argv[2], argv[3]);
  if (status.ok()) return 0;
  std::cerr << "cuda_forward_dump: " << status.error().message << "\n";
  return status.error().code == causeway::ErrorCode::kUnavailable ? causeway::tests::kNoGpu : 1;
}
