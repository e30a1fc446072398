#include "cuda_backend.h"

#ifdef CAUSEWAY_CUDA_BUILT
#include <algorithm>
#include <optional>

#include "base/log.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_machine.h"
#include "engine/cuda_executor.h"
#include "kv/frame_arena.h"
#include "model/bench_model.h"
#include "model/config.h"
#include "schedule/hbm_plan.h"
#include "weights/resident_model.h"
#endif

namespace causeway::app {

#ifdef CAUSEWAY_CUDA_BUILT

namespace {

constexpr Nanos kCopyPatience = seconds(600);  // for one model over the link
// What is resident is BF16, whatever the checkpoint has.
constexpr DType kStorage = DType::kBF16;

struct Planned {
  std::vector<model::ModelConfig> configs;
  Bytes weights;            // of all, each in extents of its own
  std::int64_t blocks = 1;  // of the longest sequence that any model takes
};

Result<Planned> read_models(const std::vector<fleet::CatalogueModel>& models, Bytes frame) {
  Planned planned;
  for (const fleet::CatalogueModel& one : models) {
    const auto read = model::load_config(one.source.directory);
    if (!read.ok()) return read.error().with_context(one.entry->name);
    const model::ModelConfig& config = *read;
    const auto layout = kv::plan_block(model::kv_shape(config, kStorage), frame);
    if (!layout.ok()) return layout.error().with_context(one.entry->name);
    const auto plan = model::plan_weights(config, kStorage);
    // Each group begins at a page of its own.
    const Bytes groups = kib(4) * std::ssize(plan.groups);
    planned.weights += round_up(model::PlacedModel::bytes_of(plan) + groups, device::kExtentBytes);
    planned.blocks =
        std::max(planned.blocks, one.entry->max_model_len.count / layout->tokens.count + 1);
    planned.configs.push_back(config);
  }
  return planned;
}

class CudaBackend final : public PooledBackend {
 public:
  CudaBackend(const CudaBackendOptions& options, const Clock& clock)
      : PooledBackend({.bytes = options.pool, .load_threads = options.load_threads}, clock),
        options_(options) {}

  Status start(const std::vector<fleet::CatalogueModel>& models);

  engine::StepExecutor& executor() override { return *executor_; }
  std::int64_t frames() const override { return frames_->frames(); }

 private:
  Status open_slice();
  Status make_workspace(const Planned& planned);
  Status make_frames(const Planned& planned, Bytes free_before);
  DType storage_of(const model::ModelConfig&) const override { return kStorage; }
  Result<Tokens> add(ModelId model, const model::ModelConfig& config) override;
  Status remove(ModelId model) override { return executor_->remove_model(model); }

  const CudaBackendOptions options_;
  std::unique_ptr<device::CudaMachine> machine_;
  std::unique_ptr<device::Device> slice_;
  std::unique_ptr<model::CudaWorkspace> workspace_;
  std::optional<kv::FrameArena> frames_;
  std::unique_ptr<engine::CudaExecutor> executor_;  // last: its models hold pins and extents
};

Status CudaBackend::start(const std::vector<fleet::CatalogueModel>& models) {
  CAUSEWAY_ASSIGN(const Planned planned, read_models(models, options_.kv_frame));
  CAUSEWAY_TRY(open_slice());
  CAUSEWAY_ASSIGN(const Bytes free, machine_->free_memory(options_.gpu));
  CAUSEWAY_TRY(make_workspace(planned));
  CAUSEWAY_TRY(make_frames(planned, free));
  CAUSEWAY_ASSIGN(executor_, engine::CudaExecutor::start(*slice_, *workspace_,
                                                         {.base = frames_->base(),
                                                          .bytes = frames_->frame_bytes(),
                                                          .count = frames_->frames()}));
  return {};
}

Status CudaBackend::open_slice() {
  CAUSEWAY_ASSIGN(const auto api, device::load_cuda_api());
  CAUSEWAY_ASSIGN(machine_, device::CudaMachine::create(api, {}, clock(), memory()));
  if (options_.gpu >= machine_->gpus()) {
    return invalid_argument("there is no GPU " + std::to_string(options_.gpu) +
                            "; this machine has " + std::to_string(machine_->gpus()));
  }
  CAUSEWAY_ASSIGN(const device::CudaGpu gpu, machine_->describe(options_.gpu));
  // Addresses only, and twice as many: models come and go, and each wants neighbouring extents.
  CAUSEWAY_ASSIGN(slice_, machine_->open({.name = gpu.name,
                                          .physical_device = options_.gpu,
                                          .arena_bytes = gpu.memory * 2}));
  return {};
}

Status CudaBackend::make_workspace(const Planned& planned) {
  const model::CudaStepLimits limits{
      .rows = std::max(options_.tokens_per_step_max, options_.sequences_max),
      .places = options_.sequences_max,
      .frames = options_.sequences_max * planned.blocks};
  CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(*slice_));
  CAUSEWAY_ASSIGN(const auto stream, slice_->make_stream("setup"));
  CAUSEWAY_ASSIGN(workspace_, model::CudaWorkspace::create(*slice_, planned.configs, limits,
                                                           slice_->capabilities().processors,
                                                           device::cuda_stream_of(*stream)));
  return stream->synchronize(seconds(60));
}

Status CudaBackend::make_frames(const Planned& planned, Bytes free_before) {
  CAUSEWAY_ASSIGN(const device::CudaGpu gpu, machine_->describe(options_.gpu));
  CAUSEWAY_ASSIGN(const auto plan,
                  schedule::plan_hbm({.total = gpu.memory,
                                      .free = free_before,
                                      .utilization = options_.memory_utilization,
                                      .extent = slice_->capabilities().extent_bytes,
                                      .workspace = workspace_->bytes(),
                                      .weights = planned.weights,
                                      .kv = options_.kv,
                                      .kv_min = options_.kv_frame}));
  auto frames = kv::FrameArena::create(*slice_, options_.kv_frame, plan.kv / options_.kv_frame);
  if (!frames.ok()) return frames.error().with_context("memory for the KV cache");
  frames_.emplace(std::move(frames).value());
  spdlog::info("{}: {:.1f} GB for weights, {:.1f} GB for KV, {:.1f} GB of workspace", gpu.name,
               static_cast<double>(plan.weights.count) / 1e9,
               static_cast<double>(plan.kv.count) / 1e9,
               static_cast<double>(plan.workspace.count) / 1e9);
  return {};
}

Result<Tokens> CudaBackend::add(ModelId model, const model::ModelConfig& config) {
  CAUSEWAY_ASSIGN(const kv::BlockLayout layout,
                  kv::plan_block(model::kv_shape(config, kStorage), options_.kv_frame));
  CAUSEWAY_ASSIGN(auto home, pool().pin(model));
  CAUSEWAY_ASSIGN(auto resident,
                  weights::make_resident(std::move(home), memory(), *slice_, kCopyPatience));
  CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(*slice_));
  CAUSEWAY_ASSIGN(auto forward,
                  model::CudaForward::create(config, std::move(resident), *workspace_, {}));
  CAUSEWAY_TRY(executor_->add_model(model, {.forward = std::move(forward), .layout = layout}));
  return layout.tokens;
}

}  // namespace

Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaBackendOptions& options,
                                                   const std::vector<fleet::CatalogueModel>& models,
                                                   const Clock& clock) {
  auto backend = std::make_unique<CudaBackend>(options, clock);
  CAUSEWAY_TRY(backend->start(models));
  return std::unique_ptr<Backend>(std::move(backend));
}

#else

Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaBackendOptions&,
                                                   const std::vector<fleet::CatalogueModel>&,
                                                   const Clock&) {
  return unsupported("this build has no CUDA parts: build where nvcc is, or use --device cpu");
}

#endif

}  // namespace causeway::app
