#include "fleet/home_backend.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace causeway::fleet {
namespace {

constexpr double kGigabyte = 1e9;

double gigabytes(Bytes bytes) { return static_cast<double>(bytes.count) / kGigabyte; }

// Logs a load's progress every few seconds, so that a long one is seen to move.
std::function<void(const weights::LoadProgress&)> log_progress(std::string name) {
  static constexpr Nanos kEvery = seconds(2);
  return [name = std::move(name), next = kEvery](const weights::LoadProgress& p) mutable {
    if (p.elapsed < next) return;
    next = p.elapsed + kEvery;
    spdlog::info("loading {}: {:.1f} of {:.1f} GB, {:.2f} GB/s, {:.0f} s left", name,
                 gigabytes(p.done), gigabytes(p.total), p.bytes_per_second / kGigabyte,
                 to_seconds(p.remaining));
  };
}

void log_loaded(const std::string& name, Bytes bytes, Nanos took) {
  spdlog::info("loaded {}: {:.2f} GB in {:.2f} s ({:.2f} GB/s)", name, gigabytes(bytes),
               to_seconds(took), gigabytes(bytes) / std::max(1e-9, to_seconds(took)));
}

void warn_of_streaming(const std::string& name, const engine::ModelFacts& facts, Nanos tpot) {
  if (!facts.weights.streams()) return;
  const double streamed = gigabytes(facts.weights.streamed_bytes());
  const Nanos target = request::Slo{}.tpot;
  if (tpot == Nanos(0)) {
    spdlog::info("{}: {:.2f} GB of its weights cross the link at every step", name, streamed);
  } else if (tpot <= target) {
    spdlog::info("{}: {:.2f} GB of its weights cross the link at every step, {:.0f} ms a token",
                 name, streamed, to_millis(tpot));
  } else {
    spdlog::warn(
        "{}: {:.2f} GB of its weights cross the link at every step, so that a token takes at least "
        "{:.0f} ms; requests without a target of their own ask for {:.0f} ms",
        name, streamed, to_millis(tpot), to_millis(target));
  }
}

}  // namespace

HomeBackend::HomeBackend(slice::ModelHome& home, slice::Slice& slice, const Clock& clock,
                         const LoadSettings& settings, std::unique_ptr<EarlyLoad> early)
    : home_(home), slice_(slice), clock_(clock), settings_(settings), early_(std::move(early)) {
  if (early_) early_->slice_opened(slice_);
}

// While others are served they keep most of the processors.
int HomeBackend::load_threads() const {
  if (settings_.threads > 0) return settings_.threads;
  const request::Observation seen = slice_.engine().observe();
  if (seen.requests() == 0) return 0;  // the pool's choice
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency() / 4));
}

weights::HomeLeaves HomeBackend::leaves() const {
  return [this](device::HostAddress address, Bytes bytes) { slice_.unreach(address, bytes); };
}

Result<Nanos> HomeBackend::load(const CatalogueEntry& entry, const ModelSource& source,
                                const model::ModelCard& card,
                                const std::function<bool()>& cancelled) {
  if (early_) {
    if (early_->bytes() != card.layout.bytes) {
      early_.reset();
      return invalid_argument("its config.json changed while it was loaded: try again");
    }
    const Nanos start = early_->started();
    const Status loaded = early_->take(cancelled);
    early_.reset();
    CAUSEWAY_TRY(loaded);
    return start;
  }
  const Nanos start = clock_.now();
  CAUSEWAY_TRY(home_.pool.load(
      entry.id, {source.directory, card.plan, card.layout},
      {.threads = load_threads(),
       .progress = log_progress(entry.name),
       .cancelled = cancelled,
       .home_taken = [&](device::HostAddress address,
                         Bytes bytes) { return slice_.reach(address, bytes, cancelled); },
       .home_leaves = leaves()}));
  return start;
}

Result<model::ModelCard> HomeBackend::card(const CatalogueEntry& entry,
                                           const ModelSource& source) const {
  CAUSEWAY_ASSIGN(model::ModelConfig config, model::load_config(source.directory));
  CAUSEWAY_ASSIGN(model::ModelCard card, slice_.card(std::move(config)));
  CAUSEWAY_TRY(slice_.check(entry.id, card));
  return card;
}

Result<model::ModelCard> HomeBackend::next_card(const CatalogueEntry& entry,
                                                const ModelSource& source) {
  auto card = this->card(entry, source);
  if (early_ && (early_->model() != entry.id || !card.ok())) early_.reset();
  return card;
}

Result<HostRoom> HomeBackend::room_for(const CatalogueEntry& entry, const ModelSource& source) {
  CAUSEWAY_ASSIGN(const model::ModelCard card, next_card(entry, source));
  const weights::PoolUse use = home_.pool.use();
  // What loads early has taken its room already, unless it has failed.
  const Bytes early = early_ ? std::min(use.used, early_->bytes()) : Bytes(0);
  return HostRoom{.needed = card.layout.bytes, .used = use.used - early, .budget = use.budget};
}

Result<AttachedModel> HomeBackend::attach(const CatalogueEntry& entry, const ModelSource& source,
                                          const std::function<bool()>& cancelled) {
  CAUSEWAY_ASSIGN(const model::ModelCard card, next_card(entry, source));
  CAUSEWAY_ASSIGN(const Nanos start, load(entry, source, card, cancelled));
  CAUSEWAY_ASSIGN(auto home, home_.pool.pin(entry.id));
  auto facts = slice_.attach({.id = entry.id,
                              .card = card,
                              .home = std::move(home),
                              .max_model_len = entry.max_model_len,
                              .max_resident = entry.max_resident,
                              .alpha = entry.alpha});
  if (!facts.ok()) {
    if (const Status undone = home_.pool.unload(entry.id, leaves()); !undone.ok()) {
      spdlog::error("{}: {}", entry.name, undone.error().message);
    }
    return facts.error();
  }
  log_loaded(entry.name, card.layout.bytes, clock_.now() - start);
  const Nanos tpot = predicted_tpot(*facts);
  warn_of_streaming(entry.name, *facts, tpot);
  return AttachedModel{std::move(facts).value(), card.layout.bytes, tpot};
}

// A step waits for what it streams.
Nanos HomeBackend::predicted_tpot(const engine::ModelFacts& facts) const {
  const double rate = slice_.links() != nullptr ? slice_.links()->claim->rate() : 0;
  if (!facts.weights.streams() || rate <= 0) return Nanos(0);
  const auto bytes = static_cast<double>(facts.weights.streamed_bytes().count);
  return std::max(facts.step_of(Tokens(1)), nanos_from_seconds(bytes / rate));
}

void HomeBackend::detach(ModelId model) {
  slice_.detach(model);
  if (const Status unloaded = home_.pool.unload(model, leaves()); !unloaded.ok()) {
    spdlog::error("cannot let go of a model: {}", unloaded.error().message);
  }
}

}  // namespace causeway::fleet
