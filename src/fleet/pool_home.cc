#include "fleet/pool_home.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/dcheck.h"
#include "base/log.h"

namespace causeway::fleet {
namespace {

constexpr double kGigabyte = 1e9;

// Tells a load's progress, and logs it every few seconds, so that a long one is seen to move.
std::function<void(const weights::LoadProgress&)> follow_progress(std::string name,
                                                                  const LoadWatch& watch) {
  static constexpr Nanos kEvery = seconds(2);
  return [name = std::move(name), next = kEvery,
          told = watch.progress](const weights::LoadProgress& p) mutable {
    if (told && p.total > Bytes(0)) told(static_cast<int>(100 * p.done.count / p.total.count));
    if (p.elapsed < next) return;
    next = p.elapsed + kEvery;
    spdlog::info("loading {}: {:.1f} of {:.1f} GB, {:.2f} GB/s, {:.0f} s left", name,
                 to_gigabytes(p.done), to_gigabytes(p.total), p.bytes_per_second / kGigabyte,
                 to_seconds(p.remaining));
  };
}

void log_loaded(const std::string& name, Bytes bytes, Nanos took) {
  spdlog::info("loaded {}: {:.2f} GB in {:.2f} s ({:.2f} GB/s)", name, to_gigabytes(bytes),
               to_seconds(took), to_gigabytes(bytes) / std::max(1e-9, to_seconds(took)));
}

// Those of this process: the first says how models are kept, and reaches for all.
class SlicesHere final : public SlicesOfHome {
 public:
  explicit SlicesHere(std::vector<slice::Slice*> slices) : slices_(std::move(slices)) {
    CAUSEWAY_CHECK(!slices_.empty(), "models are loaded for slices");
  }
  Result<model::ModelCard> card(model::ModelConfig config) const override {
    return slices_.front()->card(std::move(config));
  }
  Status check(ModelId model, const model::ModelCard& card) const override {
    Status first = slices_.front()->check(model, card);
    const bool runs = std::any_of(slices_.begin(), slices_.end(), [&](slice::Slice* slice) {
      return slice->check(model, card).ok();
    });
    return runs ? Status() : first;
  }
  Status reach(device::HostAddress address, Bytes bytes,
               const std::function<bool()>& cancelled) override {
    return slices_.front()->reach(address, bytes, cancelled);
  }
  void unreach(device::HostAddress address, Bytes bytes) override {
    slices_.front()->unreach(address, bytes);
  }
  bool serves() const override {
    return std::any_of(slices_.begin(), slices_.end(), [](slice::Slice* slice) {
      return slice->engine().observe().requests() > 0;
    });
  }

 private:
  const std::vector<slice::Slice*> slices_;
};

}  // namespace

PoolHome::PoolHome(slice::ModelHome& home, std::unique_ptr<SlicesOfHome> slices, const Clock& clock,
                   const LoadSettings& settings, std::unique_ptr<EarlyLoad> early)
    : home_(home),
      slices_(std::move(slices)),
      clock_(clock),
      settings_(settings),
      early_(std::move(early)) {}

PoolHome::PoolHome(slice::ModelHome& home, std::vector<slice::Slice*> slices, const Clock& clock,
                   const LoadSettings& settings, std::unique_ptr<EarlyLoad> early)
    : PoolHome(home, std::make_unique<SlicesHere>(slices), clock, settings) {
  early_ = std::move(early);
  if (early_) early_->slice_opened(*slices.front());
}

// While others are served they keep most of the processors.
int PoolHome::load_threads() const {
  if (settings_.threads > 0) return settings_.threads;
  if (!slices_->serves()) return 0;  // the pool's choice
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency() / 4));
}

weights::HomeLeaves PoolHome::leaves() const {
  return [this](device::HostAddress address, Bytes bytes) { slices_->unreach(address, bytes); };
}

Result<model::ModelCard> PoolHome::card(const CatalogueEntry& entry,
                                        const ModelSource& source) const {
  CAUSEWAY_ASSIGN(model::ModelConfig config, model::load_config(source.directory));
  CAUSEWAY_ASSIGN(model::ModelCard card, slices_->card(std::move(config)));
  CAUSEWAY_TRY(slices_->check(entry.id, card));
  return card;
}

Result<model::ModelCard> PoolHome::next_card(const CatalogueEntry& entry,
                                             const ModelSource& source) {
  auto card = this->card(entry, source);
  if (early_ && (early_->model() != entry.id || !card.ok())) early_.reset();
  return card;
}

Result<HostRoom> PoolHome::room_for(const CatalogueEntry& entry, const ModelSource& source) {
  CAUSEWAY_ASSIGN(const model::ModelCard card, next_card(entry, source));
  const weights::PoolUse use = home_.pool.use();
  // What loads early has taken its room already, unless it has failed.
  const Bytes early = early_ ? std::min(use.used, early_->bytes()) : Bytes(0);
  return HostRoom{.needed = card.layout.bytes, .used = use.used - early, .budget = use.budget};
}

Status PoolHome::take_early(const model::ModelCard& card, const std::function<bool()>& cancelled) {
  CAUSEWAY_DCHECK(early_ != nullptr, "there is no early load to take");
  const std::unique_ptr<EarlyLoad> early = std::move(early_);
  if (early->bytes() != card.layout.bytes) {
    return invalid_argument("its config.json changed while it was loaded: try again");
  }
  return early->take(cancelled);
}

Status PoolHome::load(const CatalogueEntry& entry, const ModelSource& source,
                      const LoadWatch& watch) {
  CAUSEWAY_ASSIGN(const model::ModelCard card, next_card(entry, source));
  CAUSEWAY_DCHECK(!early_ || early_->model() == entry.id, "an early load of another model is left");
  const Nanos start = early_ ? early_->started() : clock_.now();
  if (early_) {
    CAUSEWAY_TRY(take_early(card, watch.cancelled));
  } else {
    CAUSEWAY_TRY(home_.pool.load(
        entry.id, {source.directory, card.plan, card.layout},
        {.threads = load_threads(),
         .progress = follow_progress(entry.name, watch),
         .cancelled = watch.cancelled,
         .home_taken = [&](device::HostAddress address,
                           Bytes bytes) { return slices_->reach(address, bytes, watch.cancelled); },
         .home_leaves = leaves()}));
  }
  log_loaded(entry.name, card.layout.bytes, clock_.now() - start);
  return {};
}

void PoolHome::unload(ModelId model) {
  if (const Status unloaded = home_.pool.unload(model, leaves()); !unloaded.ok()) {
    spdlog::error("cannot let go of a model: {}", unloaded.error().message);
  }
}

}  // namespace causeway::fleet
