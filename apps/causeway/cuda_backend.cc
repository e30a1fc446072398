#include "cuda_backend.h"

#ifdef CAUSEWAY_CUDA_BUILT
#include <algorithm>
#include <map>
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

// What code, libraries and the graphs of a model take of the GPU beside the arena, at most.
constexpr Bytes kDriver = mib(128);
constexpr Bytes kDriverOfModel = mib(64);

// A model that could be served, if memory allows.
struct Candidate {
  model::ModelConfig config;
  Bytes weights;            // in extents of its own
  std::int64_t blocks = 1;  // of the longest sequence it takes
};

Result<Candidate> read_model(const fleet::CatalogueModel& one, Bytes frame, Bytes extent) {
  CAUSEWAY_ASSIGN(model::ModelConfig config, model::load_config(one.source.directory));
  CAUSEWAY_ASSIGN(const auto layout, kv::plan_block(model::kv_shape(config, kStorage), frame));
  const auto plan = model::plan_weights(config, kStorage);
  // Each group begins at a page of its own.
  const Bytes groups = kib(4) * std::ssize(plan.groups);
  return Candidate{.config = std::move(config),
                   .weights = round_up(model::PlacedModel::bytes_of(plan) + groups, extent),
                   .blocks = one.entry->max_model_len.count / layout.tokens.count + 1};
}

class CudaBackend final : public PooledBackend {
 public:
  CudaBackend(const CudaBackendOptions& options, const Clock& clock)
      : PooledBackend({.bytes = options.pool, .load_threads = options.load_threads}, clock),
        options_(options) {}

  Status start(const std::vector<fleet::CatalogueModel>& models);

  Result<fleet::AttachedModel> attach(const fleet::CatalogueEntry& entry,
                                      const fleet::ModelSource& source,
                                      const std::function<bool()>& cancelled) override;
  engine::StepExecutor& executor() override { return *executor_; }
  std::int64_t frames() const override { return frames_->frames(); }

 private:
  // What is served together.
  struct Chosen {
    std::vector<model::ModelConfig> configs;
    model::CudaStepLimits limits;
    Bytes weights;
    schedule::HbmPlan plan;
  };

  Status open_slice();
  Status choose(const std::vector<fleet::CatalogueModel>& models);
  Result<Chosen> with(Candidate candidate) const;
  Status make_workspace();
  Status make_frames();
  DType storage_of(const model::ModelConfig&) const override { return kStorage; }
  Bytes kv_frame() const override { return options_.kv_frame; }
  Result<Tokens> add(ModelId model, const model::ModelConfig& config) override;
  Status remove(ModelId model) override { return executor_->remove_model(model); }

  const CudaBackendOptions options_;
  device::CudaGpu gpu_;
  Bytes free_;  // of the GPU, when the slice was opened
  Chosen chosen_;
  std::map<ModelId, Error> unavailable_;  // models that are not among them, and why
  std::unique_ptr<device::CudaMachine> machine_;
  std::unique_ptr<device::Device> slice_;
  std::unique_ptr<model::CudaWorkspace> workspace_;
  std::optional<kv::FrameArena> frames_;
  std::unique_ptr<engine::CudaExecutor> executor_;  // last: its models hold pins and extents
};

Status CudaBackend::start(const std::vector<fleet::CatalogueModel>& models) {
  CAUSEWAY_TRY(open_slice());
  CAUSEWAY_TRY(choose(models));
  CAUSEWAY_TRY(make_workspace());
  CAUSEWAY_TRY(make_frames());
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
    return invalid_argument(
        "--gpu " + std::to_string(options_.gpu) + ": this process sees " +
        std::to_string(machine_->gpus()) +
        " GPU(s), counted from 0; see CUDA_VISIBLE_DEVICES and `causeway topology`");
  }
  CAUSEWAY_ASSIGN(gpu_, machine_->describe(options_.gpu));
  // Addresses only, and twice as many: models come and go, and each wants neighbouring extents.
  CAUSEWAY_ASSIGN(slice_, machine_->open({.name = gpu_.name,
                                          .physical_device = options_.gpu,
                                          .arena_bytes = gpu_.memory * 2}));
  CAUSEWAY_ASSIGN(free_, machine_->free_memory(options_.gpu));
  return {};
}

// Models that cannot be read, or do not fit beside those before them, are left out with a warning;
// whoever asks for one is told why. None left: the last one's reason.
Status CudaBackend::choose(const std::vector<fleet::CatalogueModel>& models) {
  Error last = not_found("there is no model to serve");
  for (const fleet::CatalogueModel& one : models) {
    const fleet::CatalogueEntry& entry = *one.entry;
    auto candidate = read_model(one, options_.kv_frame, slice_->capabilities().extent_bytes);
    auto together =
        candidate.ok() ? with(std::move(candidate).value()) : Result<Chosen>(candidate.error());
    if (together.ok()) {
      chosen_ = std::move(together).value();
      continue;
    }
    last = together.error().with_context(entry.name);
    unavailable_.emplace(entry.id, together.error());
    if (models.size() > 1)
      spdlog::warn("{} is not available: {}", entry.name, together.error().message);
  }
  if (chosen_.configs.empty()) return last;
  return {};
}

Result<CudaBackend::Chosen> CudaBackend::with(Candidate candidate) const {
  const Bytes extent = slice_->capabilities().extent_bytes;
  Chosen together = chosen_;
  model::CudaStepLimits& limits = together.limits;
  limits.rows = std::max(options_.tokens_per_step_max, options_.sequences_max);
  limits.places = options_.sequences_max;
  const std::int64_t frames = options_.sequences_max * candidate.blocks;
  limits.frames = together.configs.empty() ? frames : std::max(limits.frames, frames);
  together.configs.push_back(std::move(candidate.config));
  together.weights += candidate.weights;
  CAUSEWAY_ASSIGN(const Bytes workspace,
                  model::CudaWorkspace::bytes_for(together.configs, limits,
                                                  slice_->capabilities().processors, extent));
  CAUSEWAY_ASSIGN(
      together.plan,
      schedule::plan_hbm({.total = gpu_.memory,
                          .free = free_,
                          .utilization = options_.memory_utilization,
                          .extent = extent,
                          .workspace = workspace,
                          .weights = together.weights,
                          .driver = kDriver + kDriverOfModel * std::ssize(together.configs),
                          .kv = options_.kv,
                          .kv_min = options_.kv_frame}));
  return together;
}

Status CudaBackend::make_workspace() {
  CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(*slice_));
  CAUSEWAY_ASSIGN(const auto stream, slice_->make_stream("setup"));
  CAUSEWAY_ASSIGN(workspace_, model::CudaWorkspace::create(*slice_, chosen_.configs, chosen_.limits,
                                                           slice_->capabilities().processors,
                                                           device::cuda_stream_of(*stream)));
  return stream->synchronize(seconds(60));
}

Status CudaBackend::make_frames() {
  const schedule::HbmPlan& plan = chosen_.plan;
  auto frames = kv::FrameArena::create(*slice_, options_.kv_frame, plan.kv / options_.kv_frame);
  if (!frames.ok()) return frames.error().with_context("memory for the KV cache");
  frames_.emplace(std::move(frames).value());
  spdlog::info("{}: {:.1f} GB for weights, {:.1f} GB for KV, {:.1f} GB of workspace", gpu_.name,
               static_cast<double>(plan.weights.count) / 1e9,
               static_cast<double>(plan.kv.count) / 1e9,
               static_cast<double>(plan.workspace.count) / 1e9);
  return {};
}

Result<fleet::AttachedModel> CudaBackend::attach(const fleet::CatalogueEntry& entry,
                                                 const fleet::ModelSource& source,
                                                 const std::function<bool()>& cancelled) {
  // Not into host memory either.
  if (const auto why = unavailable_.find(entry.id); why != unavailable_.end()) return why->second;
  return PooledBackend::attach(entry, source, cancelled);
}

Result<Tokens> CudaBackend::add(ModelId model, const model::ModelConfig& config) {
  CAUSEWAY_ASSIGN(const kv::BlockLayout layout, layout_of(config));
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
