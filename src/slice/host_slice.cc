#include "slice/host_slice.h"

#include <map>
#include <string>
#include <utility>

#include "base/log.h"
#include "engine/host_executor.h"
#include "kv/frame_arena.h"
#include "slice/step_times.h"
#include "slice/weight_estate.h"

namespace causeway::slice {
namespace {

constexpr std::int64_t kCatalogueExtents = 131'072;  // 4 TiB in extents of 32 MiB

class HostSlice final : public Slice {
 public:
  HostSlice(const HostSliceOptions& options, Machine& machine)
      : options_(options), machine_(machine) {}
  ~HostSlice() override {
    if (entry_) entry_->set_serves({});
    if (twin_home_) twin_home_->stop_growing();
    if (engine_) engine_->stop(Nanos(0));
    if (estate_) estate_->mover().set_notify({});
    if (kv_mover_) kv_mover_->set_notify({});
  }

  Status open(engine::OutputSink& sink);

  engine::Engine& engine() override { return *engine_; }
  std::int64_t frames() const override { return options_.kv / options_.kv_frame; }
  WeightRoom weight_room() const override {
    const Bytes extent = device_->capabilities().extent_bytes;
    return {extent * (options_.cache / extent), extent};
  }
  SliceLimits limits() const override;
  Result<model::ModelCard> card(model::ModelConfig config) const override {
    return host_card(std::move(config), options_.kv_frame);
  }
  Status check(ModelId, const model::ModelCard& card) const override {
    const auto cached = estate_ ? cached_model(card, Bytes(0)) : Result(weights::CachedModel());
    return cached.ok() ? Status() : Status(cached.error());
  }
  Status reach(device::HostAddress, Bytes, const std::function<bool()>&) override { return {}; }
  void unreach(device::HostAddress, Bytes) override {}
  Result<engine::ModelFacts> attach(SliceModel model) override;
  void detach(ModelId model) override;
  Bytes link_bytes() const override { return estate_ ? estate_->mover().moved() : Bytes(0); }
  Nanos link_busy() const override { return estate_ ? estate_->mover().busy() : Nanos(0); }
  Bytes link_bytes_out() const override {
    return bytes_out(links_.engine.get()) + bytes_out(kv_links_.own.get());
  }
  device::Device& device() override { return *device_; }
  const SliceLinks* links() const override { return estate_ ? &links_ : nullptr; }
  Result<Bytes> device_memory_used() override {
    const device::Arena& arena = device_->arena();
    const std::int64_t cached = estate_ ? estate_->cached_extents() : 0;
    return arena.extent_bytes() * cached + frames_->bytes();
  }

 private:
  // How the weights lie in the cache: all of them, or some and a ring. `most`: what they may have.
  Result<weights::CachedModel> cached_model(const model::ModelCard& card, Bytes most) const;
  Status set_up_border();
  Status open_cache();
  Status open_twins();

  const HostSliceOptions options_;
  std::optional<schedule::BorderRules> border_;
  Machine& machine_;
  // In the order in which they are needed: what comes later ends first.
  std::unique_ptr<device::Device> device_;
  StepTimes step_times_;
  std::unique_ptr<SliceBook::Entry> entry_;
  std::optional<kv::FrameArena> frames_;
  std::unique_ptr<TwinHome> twin_home_;    // null: KV does not rotate
  std::unique_ptr<device::Device> front_;  // null: transfers use the device itself
  SliceLinks links_;
  std::unique_ptr<WeightEstate> estate_;  // null: weights are read at home
  std::map<ModelId, std::unique_ptr<weights::PinnedModel>> at_home_;
  KvLinks kv_links_;
  std::unique_ptr<kv::TransferKvMover> kv_mover_;  // null: KV does not rotate
  std::unique_ptr<engine::HostExecutor> executor_;
  std::unique_ptr<engine::StepExecutor>
      executor_front_;  // null: nothing stands before the executor
  std::unique_ptr<engine::Engine> engine_;
};

Status HostSlice::set_up_border() {
  if (!options_.border) return {};
  const Bytes extent = machine_.host()->extent_bytes();
  const std::int64_t kv = options_.kv / extent, cache = options_.cache / extent;
  border_ = options_.border;
  border_->frames_per_extent = extent / options_.kv_frame;
  border_->kv_max = kv + cache;
  if (extent * kv != options_.kv || extent * cache != options_.cache || border_->kv_min < 1 ||
      border_->kv_min > kv) {
    return invalid_argument(
        "where memory moves, KV and cache are whole extents, and KV begins with at least what it "
        "keeps");
  }
  return {};
}

Status HostSlice::open(engine::OutputSink& sink) {
  if (options_.kv < options_.kv_frame || options_.kv_frame < Bytes(1)) {
    return invalid_argument(std::to_string(options_.kv.count) +
                            " bytes for KV are less than one frame of " +
                            std::to_string(options_.kv_frame.count));
  }
  CAUSEWAY_TRY(set_up_border());
  // Addresses: for KV, and for a whole catalogue.
  const Bytes extent = machine_.host()->extent_bytes();
  const Bytes kv_max = options_.kv + (border_ ? options_.cache : Bytes(0));
  const Bytes addresses = options_.cache > Bytes(0) ? extent * kCatalogueExtents : Bytes(0);
  CAUSEWAY_ASSIGN(device_, machine_.open({.name = "cpu",
                                          .physical_device = options_.device,
                                          .processors = options_.threads,
                                          .arena_bytes = round_up(kv_max, extent) + addresses}));
  CAUSEWAY_ASSIGN(step_times_, StepTimes::of(options_.engine.core.schedule, host_machine_name(),
                                             device_->capabilities().processors));
  // The devices' memory is this process's, and no slice's share of it depends on what others have.
  entry_ = machine_.slices().add(options_.device, Bytes(0), [] { return Bytes(0); });
  auto frames = kv::FrameArena::create(*device_, {.frame = options_.kv_frame,
                                                  .frames = options_.kv / options_.kv_frame,
                                                  .frames_max = kv_max / options_.kv_frame});
  if (!frames.ok()) return frames.error().with_context("memory for the KV cache");
  frames_.emplace(std::move(frames).value());
  if (options_.kv_host.bytes > Bytes(0)) {
    CAUSEWAY_ASSIGN(twin_home_,
                    TwinHome::open(*device_, machine_, options_.kv_frame, options_.kv_host));
  }
  const bool copies = twin_home_ || options_.cache > Bytes(0);
  if (copies && options_.link_front) front_ = options_.link_front(*device_);
  if (options_.cache > Bytes(0)) CAUSEWAY_TRY(open_cache());
  if (twin_home_) CAUSEWAY_TRY(open_twins());
  CAUSEWAY_ASSIGN(executor_,
                  engine::HostExecutor::start({.base = frames_->base(),
                                               .bytes = frames_->frame_bytes(),
                                               .count = frames_->frames_max()},
                                              machine_.clock(), kv_mover_.get(), options_.threads));
  if (options_.executor_front) executor_front_ = options_.executor_front(*executor_);
  engine::StepExecutor& executor = executor_front_ ? *executor_front_ : *executor_;
  engine::EngineOptions engine = options_.engine;
  if (options_.switching != Switching::kLayers) {
    engine.core.step_start = engine::StepStart::kAllCached;
  }
  engine.core.frames = this->frames();
  engine.core.border = border_;
  engine.core.frame = options_.kv_frame;
  // What stands before the executor may keep the twins for itself.
  if (twin_home_ && executor.capabilities().rotates) {
    engine.core.twins = twin_home_->twins().twins_there();
  }
  CAUSEWAY_ASSIGN(engine_, engine::Engine::start(engine, machine_.clock(), executor, sink,
                                                 estate_ ? &estate_->cache() : nullptr));
  if (estate_) estate_->mover().set_notify([this] { engine_->poke(); });
  if (kv_mover_) kv_mover_->set_notify([this] { engine_->poke(); });
  entry_->set_serves([this] { return engine_->observe().requests() > 0; });
  if (!twin_home_) return {};
  return twin_home_->grow([this](std::int64_t twins) { engine_->add_twins(twins); });
}

// What a CPU computes and reads in a second is not known; of links only what is modelled.
SliceLimits HostSlice::limits() const {
  SliceLimits limits;
  if (!estate_) return limits;
  limits.memory = options_.cache + options_.kv;
  if (machine_.host()->links()) limits.link_bytes_per_second = links_.claim->rate();
  return limits;
}

Status HostSlice::open_twins() {
  device::Device& device = front_ ? *front_ : *device_;
  CAUSEWAY_ASSIGN(kv_links_, machine_.connect_kv(device, options_.device, links_));
  kv_mover_ = make_kv_mover(*device_, kv_links_, *frames_, *twin_home_,
                            {.late_max = options_.kv_host.late_max}, machine_.clock());
  return {};
}

Status HostSlice::open_cache() {
  const Bytes extent = machine_.host()->extent_bytes();
  if (options_.cache < extent) {
    return invalid_argument("a cache of " + std::to_string(options_.cache.count) +
                            " bytes is less than one extent of " + std::to_string(extent.count));
  }
  CAUSEWAY_ASSIGN(links_, machine_.connect(front_ ? *front_ : *device_, options_.device));
  weights::ResidencyOptions residency = options_.residency;
  residency.extent = extent;
  residency.extents = options_.cache / extent;
  if (border_) {
    residency.extents_max = residency.extents + options_.kv / extent - border_->kv_min;
  }
  CAUSEWAY_ASSIGN(estate_, WeightEstate::create(*device_, links_, machine_.peer_home(), residency));
  estate_->mover().set_frames(frames_->range());
  if (options_.switching != Switching::kSleep) return {};
  return estate_->sleep_to(*device_, machine_.home().memory);
}

Result<weights::CachedModel> HostSlice::cached_model(const model::ModelCard& card,
                                                     Bytes most) const {
  const WeightRoom room = weight_room();
  const Bytes budget = most > Bytes(0) ? std::min(most, room.budget) : room.budget;
  if (room.taken_by(card.layout.bytes) <= round_up(budget, room.extent)) {
    const weights::CachedModel cached = weights::cached_model(card.layout, card.reading);
    return options_.switching == Switching::kLayers ? cached : weights::as_a_whole(cached);
  }
  return weights::streamed_model(card.layout, card.reading,
                                 {.extent = room.extent,
                                  .budget = budget,
                                  .ring = options_.ring,
                                  .experts = options_.experts});
}

Result<engine::ModelFacts> HostSlice::attach(SliceModel model) {
  const model::ModelCard& card = model.card;
  engine::ModelFacts facts{.tokens_per_block = card.kv.tokens,
                           .max_model_len = model.max_model_len,
                           .vocab = card.config.vocab,
                           .alpha = model.alpha,
                           .step_table = step_times_.table(card)};
  const weights::PlacedWeights at_home = model.home->weights();
  weights::PlacedWeights cached = at_home;
  if (estate_) {
    CAUSEWAY_ASSIGN(facts.weights, cached_model(card, model.max_resident));
    CAUSEWAY_ASSIGN(cached, estate_->add(model.id, facts.weights, std::move(model.home)));
    cached = facts.weights.placed(cached.base, *cached.layout);
  } else {
    at_home_[model.id] = std::move(model.home);
  }
  const Status added = executor_->add_model(
      model.id, {.forward = std::make_unique<model::HostForward>(card.config, cached, at_home,
                                                                 facts.weights.slots(cached.base)),
                 .layout = card.kv,
                 .kv_dtype = card.storage,
                 .streamed = facts.weights.streams()});
  if (added.ok()) return facts;
  if (estate_) estate_->remove(model.id);
  at_home_.erase(model.id);
  return added.error();
}

void HostSlice::detach(ModelId model) {
  if (const Status removed = executor_->remove_model(model); !removed.ok()) {
    spdlog::error("cannot let go of a model: {}", removed.error().message);
    return;
  }
  if (estate_) estate_->remove(model);
  at_home_.erase(model);
}

}  // namespace

Result<model::ModelCard> host_card(model::ModelConfig config, Bytes kv_frame) {
  const DType storage = model::host_dtype(config.dtype);
  return model::make_card(std::move(config), storage, kv_frame);
}

Result<std::unique_ptr<Slice>> open_host_slice(const HostSliceOptions& options, Machine& machine,
                                               engine::OutputSink& sink) {
  auto slice = std::make_unique<HostSlice>(options, machine);
  CAUSEWAY_TRY(slice->open(sink));
  return std::unique_ptr<Slice>(std::move(slice));
}

}  // namespace causeway::slice
