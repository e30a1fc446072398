#include "slice/cuda_slice.h"

#include "model/model_card.h"

#ifdef CAUSEWAY_CUDA_BUILT
#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"
#include "device/cuda/cuda_device.h"
#include "device/paced_registration.h"
#include "engine/cuda_executor.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kv/frame_arena.h"
#include "schedule/hbm_plan.h"
#include "slice/sm_rates.h"
#include "slice/step_times.h"
#include "slice/weight_estate.h"
#endif

namespace causeway::slice {

// What is cached is BF16, whatever the checkpoint has.
Result<model::ModelCard> cuda_card(model::ModelConfig config, Bytes kv_frame) {
  return model::make_card(std::move(config), DType::kBF16, kv_frame);
}

#ifdef CAUSEWAY_CUDA_BUILT

namespace {

// What code, libraries and the graphs of a model take of the GPU beside the arena, at most.
constexpr Bytes kDriver = mib(128);
constexpr Bytes kDriverOfModel = mib(64);

// Addresses for the weights of a catalogue, beside those for what is in HBM at the same time: of a
// GPU's slices together, and of one at least.
constexpr Bytes kCatalogue = gib(4096);
constexpr Bytes kCatalogueMin = gib(512);

constexpr Bytes driver_of(std::int64_t models) { return kDriver + kDriverOfModel * models; }

Status check_gpu(const device::CudaMachine& gpus, int gpu) {
  if (gpu >= 0 && gpu < gpus.gpus()) return {};
  return invalid_argument("there is no GPU " + std::to_string(gpu) + ": this process sees " +
                          std::to_string(gpus.gpus()) + " GPU(s), counted from 0");
}

class CudaSlice final : public Slice {
 public:
  CudaSlice(const CudaSliceOptions& options, Machine& machine)
      : options_(options), machine_(machine), gpus_(*machine.cuda()) {}
  ~CudaSlice() override {
    if (entry_) entry_->set_serves({});
    if (twin_home_) twin_home_->stop_growing();
    if (engine_) engine_->stop(Nanos(0));
    if (estate_) estate_->mover().set_notify({});
    if (kv_mover_) kv_mover_->set_notify({});
  }

  Status open(std::span<const CudaCandidate> candidates, engine::OutputSink& sink);

  engine::Engine& engine() override { return *engine_; }
  std::int64_t frames() const override { return frames_->frames_max(); }
  WeightRoom weight_room() const override {
    const Bytes extent = device_->capabilities().extent_bytes;
    return {extent * (chosen_.plan.weights / extent), extent};
  }
  SliceLimits limits() const override;
  Result<model::ModelCard> card(model::ModelConfig config) const override {
    return cuda_card(std::move(config), options_.kv_frame);
  }
  Status check(ModelId model, const model::ModelCard& card) const override;
  Status reach(device::HostAddress address, Bytes bytes,
               const std::function<bool()>& cancelled) override;
  void unreach(device::HostAddress address, Bytes bytes) override;
  Result<engine::ModelFacts> attach(SliceModel model) override;
  void detach(ModelId model) override;
  Bytes link_bytes() const override { return estate_->mover().moved(); }
  Nanos link_busy() const override { return estate_->mover().busy(); }
  Bytes link_bytes_out() const override {
    return bytes_out(links_.engine.get()) + bytes_out(kv_links_.own.get());
  }
  device::Device& device() override { return *device_; }
  const SliceLinks* links() const override { return &links_; }
  Result<Bytes> device_memory_used() override {
    if (!whole()) return device_->arena().memory_taken();
    CAUSEWAY_ASSIGN(const Bytes free, gpus_.free_memory(options_.gpu));
    return gpu_.memory - free;
  }

 private:
  // What is served together.
  struct Chosen {
    model::CudaStepLimits limits;
    model::CudaNeeds resident_needs;
    model::CudaNeeds streamed_needs;    // of those whose weights are streamed
    std::map<ModelId, Bytes> streamed;  // what HBM has for them
    Bytes weights;                      // in HBM, of all, in extents of their own
    Bytes largest;                      // of them
    Bytes pinned;                       // of those that are
    schedule::HbmPlan plan;

    std::int64_t models() const { return resident_needs.models + streamed_needs.models; }
  };

  bool whole() const { return options_.share >= 1; }
  double processors() const { return device_->capabilities().processors; }
  // Its SMs' part of what the GPU's memory gives: what all slices may count on at once.
  double memory_rate() const { return bytes_per_sm(gpu_.memory_peak, gpu_.sms) * processors(); }
  Status check_part() const;
  Status open_device();
  Status choose(std::span<const CudaCandidate> candidates);
  Result<Chosen> with(const CudaCandidate& candidate) const;
  Result<Chosen> with_resident(const CudaCandidate& candidate, const model::ModelCard& card) const;
  Result<Chosen> with_streamed(const CudaCandidate& candidate, const model::ModelCard& card,
                               Bytes most) const;
  Chosen with_config(const CudaCandidate& candidate, const model::ModelCard& card) const;
  std::int64_t frames_of(Tokens max_model_len, const model::ModelCard& card) const;
  Status check_context(const SliceModel& model) const;
  Result<schedule::HbmDemand> demand_of(const Chosen& together) const;
  weights::StreamOptions stream_options(Bytes budget) const;
  Result<weights::CachedModel> cached_model(ModelId model, const model::ModelCard& card) const;
  Status make_workspace();
  Status make_frames();
  Status make_estate();
  Status make_twins();
  Status start_engine(engine::OutputSink& sink);
  device::Pace pace(const std::function<bool()>& cancelled) const;
  engine::ModelFacts facts_of(const SliceModel& model, weights::CachedModel weights);

  const CudaSliceOptions options_;
  Machine& machine_;
  device::CudaMachine& gpus_;
  device::CudaGpu gpu_;
  // The GPU's bytes when the slice was opened: those free, and those of the process's other slices.
  Bytes free_, neighbours_;
  Chosen chosen_;
  std::map<ModelId, Error> unavailable_;  // candidates that are not among them, and why
  // In the order in which they are needed: what comes later ends first.
  std::unique_ptr<device::Device> device_;
  StepTimes step_times_;
  std::unique_ptr<SliceBook::Entry> entry_;
  std::unique_ptr<model::CudaWorkspace> workspace_;
  std::unique_ptr<model::CudaWorkspace> streamed_workspace_;  // null: no model is streamed
  std::optional<kv::FrameArena> frames_;
  std::unique_ptr<TwinHome> twin_home_;    // null: KV does not rotate
  std::unique_ptr<device::Device> front_;  // null: transfers use the device itself
  SliceLinks links_;
  std::unique_ptr<WeightEstate> estate_;
  KvLinks kv_links_;
  std::unique_ptr<kv::TransferKvMover> kv_mover_;  // null: KV does not rotate
  std::unique_ptr<engine::CudaExecutor> executor_;
  std::unique_ptr<engine::StepExecutor>
      executor_front_;  // null: nothing stands before the executor
  std::unique_ptr<engine::Engine> engine_;
};

Status CudaSlice::open(std::span<const CudaCandidate> candidates, engine::OutputSink& sink) {
  std::string took;
  const auto part = [&](const char* name, const auto& make) -> Status {
    const Nanos began = machine_.clock().now();
    CAUSEWAY_TRY(make());
    const double length = to_millis(machine_.clock().now() - began);
    took += fmt::format("{}{} {:.0f}", took.empty() ? "" : ", ", name, length);
    return {};
  };
  CAUSEWAY_TRY(part("context", [&] { return open_device(); }));
  CAUSEWAY_TRY(part("plan", [&] { return choose(candidates); }));
  CAUSEWAY_TRY(part("workspace", [&] { return make_workspace(); }));
  CAUSEWAY_TRY(part("KV", [&] { return make_frames(); }));
  CAUSEWAY_TRY(part("weights", [&] { return make_estate(); }));
  CAUSEWAY_TRY(part("KV in host memory", [&] { return make_twins(); }));
  CAUSEWAY_TRY(part("engine", [&] { return start_engine(sink); }));
  spdlog::info("{}: a slice is open; ms by part: {}", gpu_.name, took);
  return {};
}

Status CudaSlice::check_part() const {
  CAUSEWAY_TRY(check_gpu(gpus_, options_.gpu));
  if (options_.share > 0 && options_.share <= 1) return {};
  return invalid_argument("a slice's share of a GPU's memory is above 0 and at most 1");
}

Status CudaSlice::open_device() {
  CAUSEWAY_TRY(check_part());
  CAUSEWAY_ASSIGN(gpu_, gpus_.describe(options_.gpu));
  const std::string machine = gpu_machine_name(gpu_.name);
  const bool part = options_.processors > 0 && options_.processors < gpu_.sms;
  if (part) gpu_.name += ", " + std::to_string(options_.processors) + " SMs";
  const auto scaled = [this](Bytes bytes) {
    return Bytes(static_cast<std::int64_t>(static_cast<double>(bytes.count) * options_.share));
  };
  const Bytes addresses = gpu_.memory * 2 + std::max(scaled(kCatalogue), kCatalogueMin);
  CAUSEWAY_ASSIGN(device_, machine_.open({.name = gpu_.name,
                                          .physical_device = options_.gpu,
                                          .processors = options_.processors,
                                          .unit = options_.unit,
                                          .arena_bytes = addresses}));
  CAUSEWAY_ASSIGN(step_times_, StepTimes::of(options_.engine.core.schedule, machine,
                                             device_->capabilities().processors));
  CAUSEWAY_ASSIGN(free_, gpus_.free_memory(options_.gpu));
  const Bytes used = gpu_.memory - free_;
  // To a slice that is to have all, its neighbours are others.
  if (!whole()) neighbours_ = machine_.slices().slices_use(options_.gpu, used);
  entry_ =
      machine_.slices().add(options_.gpu, used, [this] { return device_->arena().memory_taken(); });
  return {};
}

// Models that cannot be read, or do not fit, are left out with a warning; a request for one is told
// why. None left: the last one's reason.
Status CudaSlice::choose(std::span<const CudaCandidate> candidates) {
  Error last = not_found("there is no model to serve");
  for (const CudaCandidate& candidate : candidates) {
    auto together = with(candidate);
    if (together.ok()) {
      chosen_ = std::move(together).value();
      continue;
    }
    last = together.error().with_context(candidate.name);
    unavailable_.emplace(candidate.id, together.error());
    if (candidates.size() > 1) {
      spdlog::warn("{} is not available: {}", candidate.name, together.error().message);
    }
  }
  if (chosen_.models() == 0) return last;
  entry_->set_beside(driver_of(chosen_.models()));
  return {};
}

// What exceeds its share of HBM, or does not fit beside the others, is streamed.
Result<CudaSlice::Chosen> CudaSlice::with(const CudaCandidate& candidate) const {
  CAUSEWAY_TRY(candidate.config.ok() ? Status() : Status(candidate.config.error()));
  CAUSEWAY_ASSIGN(const model::ModelCard card, this->card(*candidate.config));
  const Bytes extent = device_->capabilities().extent_bytes;
  Bytes most = candidate.max_resident;
  if (options_.weights > Bytes(0)) {
    most = most > Bytes(0) ? std::min(most, options_.weights) : options_.weights;
  }
  if (most > Bytes(0) && round_up(card.layout.bytes, extent) > round_up(most, extent)) {
    return with_streamed(candidate, card, most);
  }
  Result<Chosen> together = with_resident(candidate, card);
  if (together.ok() || together.error().code != ErrorCode::kResourceExhausted) return together;
  Result<Chosen> streamed = with_streamed(candidate, card, Bytes(0));
  return streamed.ok() ? std::move(streamed) : std::move(together);
}

// Frames for as many sequences as run at once, each as long as may be.
std::int64_t CudaSlice::frames_of(Tokens max_model_len, const model::ModelCard& card) const {
  const std::int64_t blocks = max_model_len.count / card.kv.tokens.count + 1;
  return options_.engine.core.schedule.running_max * blocks;
}

// A model that is no candidate came later. Its weights are cached whole or not at all, and the
// workspace checks its shapes.
Status CudaSlice::check_context(const SliceModel& model) const {
  if (frames_of(model.max_model_len, model.card) <= chosen_.limits.frames) return {};
  return unsupported(
      "a context of " + std::to_string(model.max_model_len.count) +
      " tokens is longer than those of the models for which the GPU's memory was "
      "divided at the start; start the program anew, or give models a shorter context");
}

CudaSlice::Chosen CudaSlice::with_config(const CudaCandidate& candidate,
                                         const model::ModelCard& card) const {
  const auto& schedule = options_.engine.core.schedule;
  Chosen together = chosen_;
  model::CudaStepLimits& limits = together.limits;
  limits.rows = std::max(schedule.tokens_per_step_max, schedule.running_max);
  limits.slots = schedule.running_max;
  const std::int64_t frames = frames_of(candidate.max_model_len, card);
  limits.frames = together.models() == 0 ? frames : std::max(limits.frames, frames);
  return together;
}

Result<CudaSlice::Chosen> CudaSlice::with_resident(const CudaCandidate& candidate,
                                                   const model::ModelCard& card) const {
  Chosen together = with_config(candidate, card);
  const int sms = device_->capabilities().processors;
  CAUSEWAY_TRY(together.resident_needs.add(card.config, together.limits, sms));
  const Bytes weights = round_up(card.layout.bytes, device_->capabilities().extent_bytes);
  together.weights += weights;
  together.largest = std::max(together.largest, weights);
  if (candidate.pinned) together.pinned += weights;
  CAUSEWAY_ASSIGN(const schedule::HbmDemand demand, demand_of(together));
  CAUSEWAY_ASSIGN(together.plan, schedule::plan_hbm(demand));
  return together;
}

// `most`: of HBM for its weights; zero: what there is.
Result<CudaSlice::Chosen> CudaSlice::with_streamed(const CudaCandidate& candidate,
                                                   const model::ModelCard& card, Bytes most) const {
  Chosen together = with_config(candidate, card);
  const int sms = device_->capabilities().processors;
  CAUSEWAY_TRY(together.streamed_needs.add(card.config, together.limits, sms));
  CAUSEWAY_ASSIGN(schedule::HbmDemand demand, demand_of(together));
  Bytes room = schedule::weights_room(demand);
  if (most > Bytes(0)) room = std::min(room, demand.extent * (most / demand.extent));
  const auto cached = weights::streamed_model(card.layout, card.reading, stream_options(room));
  if (!cached.ok()) return cached.error();
  together.streamed.emplace(candidate.id, room);
  together.weights = demand.weights += room;
  together.largest = demand.weights_largest = std::max(together.largest, room);
  if (candidate.pinned) together.pinned = demand.weights_pinned += room;
  CAUSEWAY_ASSIGN(together.plan, schedule::plan_hbm(demand));
  return together;
}

Result<schedule::HbmDemand> CudaSlice::demand_of(const Chosen& together) const {
  const device::Capabilities& capabilities = device_->capabilities();
  Bytes workspace;
  for (const auto& needs : {together.resident_needs, together.streamed_needs}) {
    if (needs.models == 0) continue;
    workspace += model::CudaWorkspace::bytes_for(needs, together.limits, capabilities.extent_bytes);
  }
  return schedule::HbmDemand{.total = gpu_.memory,
                             .free = free_,
                             .share = options_.share,
                             .neighbours = neighbours_,
                             .utilization = options_.memory_utilization,
                             .extent = capabilities.extent_bytes,
                             .workspace = workspace,
                             .weights = together.weights,
                             .weights_largest = together.largest,
                             .weights_pinned = together.pinned,
                             .weights_wanted = options_.weights,
                             .driver = driver_of(together.models()),
                             .kv = options_.kv,
                             .kv_min = options_.kv_frame};
}

Status CudaSlice::check(ModelId model, const model::ModelCard& card) const {
  const auto why = unavailable_.find(model);
  if (why != unavailable_.end()) return why->second;
  const WeightRoom room = weight_room();
  if (chosen_.streamed.contains(model) || room.taken_by(card.layout.bytes) <= room.budget)
    return {};
  return exhausted("its weights take " + std::to_string(room.taken_by(card.layout.bytes).count) +
                   " bytes of the device, and of these " + std::to_string(room.budget.count) +
                   " cache weights");
}

weights::StreamOptions CudaSlice::stream_options(Bytes budget) const {
  return {.extent = device_->capabilities().extent_bytes,
          .budget = budget,
          .ring = options_.ring,
          .experts = options_.experts};
}

// How the model's weights lie in HBM: all of them, or some and a ring or slots.
Result<weights::CachedModel> CudaSlice::cached_model(ModelId model,
                                                     const model::ModelCard& card) const {
  const auto streamed = chosen_.streamed.find(model);
  if (streamed == chosen_.streamed.end()) {
    const weights::CachedModel cached = weights::cached_model(card.layout, card.reading);
    return options_.switching == Switching::kLayers ? cached : weights::as_a_whole(cached);
  }
  return weights::streamed_model(card.layout, card.reading, stream_options(streamed->second));
}

Status CudaSlice::make_workspace() {
  CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(*device_));
  CAUSEWAY_ASSIGN(const auto stream, device_->make_stream("setup"));
  const auto make = [&](const model::CudaNeeds& needs) {
    return model::CudaWorkspace::create(*device_, needs, chosen_.limits,
                                        device_->capabilities().processors,
                                        device::cuda_stream_of(*stream));
  };
  // The executor has one for resident models in any case.
  const bool resident = chosen_.resident_needs.models > 0;
  CAUSEWAY_ASSIGN(workspace_, make(resident ? chosen_.resident_needs : chosen_.streamed_needs));
  if (chosen_.streamed_needs.models > 0) {
    CAUSEWAY_ASSIGN(streamed_workspace_, make(chosen_.streamed_needs));
  }
  return stream->synchronize(seconds(60));
}

Status CudaSlice::make_frames() {
  const schedule::HbmPlan& plan = chosen_.plan;
  auto frames = kv::FrameArena::create(*device_, {.frame = options_.kv_frame,
                                                  .frames = plan.kv / options_.kv_frame,
                                                  .frames_max = plan.kv_most / options_.kv_frame});
  if (!frames.ok()) return frames.error().with_context("memory for the KV cache");
  frames_.emplace(std::move(frames).value());
  const auto gigabytes = [](Bytes bytes) { return static_cast<double>(bytes.count) / 1e9; };
  spdlog::info(
      "{}: {:.1f} GB to cache weights of {:.1f} GB, {:.1f} GB for KV, {:.1f} GB of workspace",
      gpu_.name, gigabytes(plan.weights), gigabytes(chosen_.weights), gigabytes(plan.kv),
      gigabytes(plan.workspace));
  if (plan.border_moves()) {
    spdlog::info("{}: KV may have {:.1f} to {:.1f} GB, as requests and models need it", gpu_.name,
                 gigabytes(plan.kv_least), gigabytes(plan.kv_most));
  }
  return {};
}

Status CudaSlice::make_estate() {
  if (options_.link_front) front_ = options_.link_front(*device_);
  CAUSEWAY_ASSIGN(links_, machine_.connect(front_ ? *front_ : *device_, options_.gpu));
  weights::ResidencyOptions residency = options_.residency;
  residency.extent = device_->capabilities().extent_bytes;
  residency.extents = chosen_.plan.weights / residency.extent;
  residency.extents_max = chosen_.plan.weights_most() / residency.extent;
  CAUSEWAY_ASSIGN(estate_, WeightEstate::create(*device_, links_, machine_.peer_home(), residency));
  estate_->mover().set_frames(frames_->range());
  if (options_.switching != Switching::kSleep) return {};
  return estate_->sleep_to(*device_, machine_.home().memory);
}

// What is to be there before the slice serves: its own steps wait for no registration of that.
Status CudaSlice::make_twins() {
  if (options_.kv_host.bytes == Bytes(0)) return {};
  CAUSEWAY_ASSIGN(twin_home_,
                  TwinHome::open(*device_, machine_, options_.kv_frame, options_.kv_host));
  device::Device& device = front_ ? *front_ : *device_;
  CAUSEWAY_ASSIGN(kv_links_, machine_.connect_kv(device, options_.gpu, links_));
  kv_mover_ = make_kv_mover(*device_, kv_links_, *frames_, *twin_home_,
                            {.late_max = options_.kv_host.late_max}, machine_.clock());
  spdlog::info("{}: {} blocks of KV may be in host memory", gpu_.name, twin_home_->twins().twins());
  return {};
}

Status CudaSlice::start_engine(engine::OutputSink& sink) {
  CAUSEWAY_ASSIGN(executor_,
                  engine::CudaExecutor::start(*device_, *workspace_,
                                              {.base = frames_->base(),
                                               .bytes = frames_->frame_bytes(),
                                               .count = frames_->frames_max()},
                                              streamed_workspace_.get(), kv_mover_.get()));
  if (options_.executor_front) executor_front_ = options_.executor_front(*executor_);
  engine::StepExecutor& executor = executor_front_ ? *executor_front_ : *executor_;
  const schedule::HbmPlan& plan = chosen_.plan;
  const Bytes extent = device_->capabilities().extent_bytes;
  engine::EngineOptions engine = options_.engine;
  if (options_.switching != Switching::kLayers) {
    engine.core.step_start = engine::StepStart::kAllCached;
  }
  engine.core.frames = plan.kv / options_.kv_frame;
  engine.core.frame = options_.kv_frame;
  // What stands before the executor may keep the twins for itself.
  if (twin_home_ && executor.capabilities().rotates) {
    engine.core.twins = twin_home_->twins().twins_there();
  }
  if (plan.border_moves()) {
    engine.core.border = schedule::BorderRules{.frames_per_extent = extent / options_.kv_frame,
                                               .kv_min = plan.kv_least / extent,
                                               .kv_max = plan.kv_most / extent};
  }
  engine.may_warm_up = [this] { return !machine_.slices().serving(); };
  CAUSEWAY_ASSIGN(
      engine_, engine::Engine::start(engine, machine_.clock(), executor, sink, &estate_->cache()));
  estate_->mover().set_notify([this] { engine_->poke(); });
  if (kv_mover_) kv_mover_->set_notify([this] { engine_->poke(); });
  entry_->set_serves([this] { return engine_->observe().requests() > 0; });
  if (!twin_home_) return {};
  return twin_home_->grow([this](std::int64_t twins) { engine_->add_twins(twins); });
}

device::Pace CudaSlice::pace(const std::function<bool()>& cancelled) const {
  return pace_among(
      machine_.slices(), options_.registered_at_once, cancelled ? cancelled : [] { return false; });
}

Status CudaSlice::reach(device::HostAddress address, Bytes bytes,
                        const std::function<bool()>& cancelled) {
  return device::make_reachable_paced(*device_, address, bytes, pace(cancelled));
}

void CudaSlice::unreach(device::HostAddress address, Bytes bytes) {
  device::make_unreachable_paced(*device_, address, bytes, pace({}));
}

engine::ModelFacts CudaSlice::facts_of(const SliceModel& model, weights::CachedModel weights) {
  const model::ModelCard& card = model.card;
  return {.tokens_per_block = card.kv.tokens,
          .max_model_len = model.max_model_len,
          .vocab = card.config.vocab,
          .weights = std::move(weights),
          .alpha = model.alpha,
          .step_min =
              nanos_from_seconds(static_cast<double>(card.bytes_per_step.count) / memory_rate()),
          .seconds_per_token = card.operations_per_token / (kFlopsPerSm * processors()),
          .step_table = step_times_.table(card)};
}

SliceLimits CudaSlice::limits() const {
  return {.link_bytes_per_second = links_.claim->rate(),
          .memory_bytes_per_second = memory_rate(),
          .flops_per_second = kFlopsPerSm * processors(),
          .memory = chosen_.plan.weights + chosen_.plan.kv};
}

Result<engine::ModelFacts> CudaSlice::attach(SliceModel model) {
  CAUSEWAY_TRY(check(model.id, model.card));
  CAUSEWAY_TRY(check_context(model));
  CAUSEWAY_ASSIGN(weights::CachedModel in_cache, cached_model(model.id, model.card));
  engine::ModelFacts facts = facts_of(model, std::move(in_cache));
  const bool streamed = facts.weights.streams();
  const device::HostAddress address = model.home->address();
  const weights::WeightLayout& layout = model.home->layout();
  CAUSEWAY_ASSIGN(const auto seen, device::cuda_address_of(*device_, address, layout.bytes));
  CAUSEWAY_ASSIGN(const weights::PlacedWeights cached,
                  estate_->add(model.id, facts.weights, std::move(model.home)));
  const model::CudaWeights weights{.cached = facts.weights.placed(cached.base, layout),
                                   .home = {&layout, reinterpret_cast<const std::byte*>(seen)},
                                   .slots = facts.weights.slots(cached.base)};
  const auto add = [&]() -> Status {
    CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(*device_));
    CAUSEWAY_ASSIGN(auto forward,
                    model::CudaForward::create(model.card.config, weights,
                                               streamed ? *streamed_workspace_ : *workspace_,
                                               {.graphs = options_.graphs}));
    return executor_->add_model(
        model.id, {.forward = std::move(forward), .layout = model.card.kv, .streamed = streamed});
  };
  const Status added = add();
  if (added.ok()) return facts;
  estate_->remove(model.id);
  return added.error();
}

void CudaSlice::detach(ModelId model) {
  if (const Status removed = executor_->remove_model(model); !removed.ok()) {
    spdlog::error("cannot let go of a model: {}", removed.error().message);
    return;
  }
  estate_->remove(model);
}

}  // namespace

// A device without memory, and the library's handle in its context.
Status warm_up_cuda(Machine& machine, int gpu) {
  CAUSEWAY_CHECK(machine.cuda() != nullptr, "a GPU of a machine without");
  CAUSEWAY_TRY(check_gpu(*machine.cuda(), gpu));
  CAUSEWAY_ASSIGN(const auto device, machine.open({.name = "warm-up", .physical_device = gpu}));
  CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(*device));
  CAUSEWAY_ASSIGN(const auto library, kernels::gemm::CudaGemm::create());
  return {};
}

Result<std::unique_ptr<Slice>> open_cuda_slice(const CudaSliceOptions& options,
                                               std::span<const CudaCandidate> candidates,
                                               Machine& machine, engine::OutputSink& sink) {
  CAUSEWAY_CHECK(machine.cuda() != nullptr, "a slice of a GPU on a machine without");
  auto slice = std::make_unique<CudaSlice>(options, machine);
  CAUSEWAY_TRY(slice->open(candidates, sink));
  return std::unique_ptr<Slice>(std::move(slice));
}

#else

Status warm_up_cuda(Machine&, int) {
  return unsupported("this build has no CUDA parts: build where nvcc is, or serve on the CPU");
}

Result<std::unique_ptr<Slice>> open_cuda_slice(const CudaSliceOptions&,
                                               std::span<const CudaCandidate>, Machine&,
                                               engine::OutputSink&) {
  return unsupported("this build has no CUDA parts: build where nvcc is, or serve on the CPU");
}

#endif

}  // namespace causeway::slice
