#include "fleet/engine_slice.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace causeway::fleet {
namespace {

void warn_of_streaming(const CatalogueEntry& entry, const engine::ModelFacts& facts, Nanos tpot) {
  if (!facts.weights.streams()) return;
  const double streamed = to_gigabytes(facts.weights.streamed_bytes());
  const std::string& name = entry.name;
  const Nanos target = entry.slo.tpot;
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

Result<AttachedModel> EngineSlice::attach(const CatalogueEntry& entry, const ModelSource& source,
                                          bool pinned) {
  CAUSEWAY_ASSIGN(model::ModelConfig config, model::load_config(source.directory));
  config.max_position = std::min(config.max_position, entry.max_model_len);
  CAUSEWAY_ASSIGN(const model::ModelCard card, slice_.card(std::move(config)));
  CAUSEWAY_ASSIGN(auto home, home_.pool.pin(entry.id));
  if (home->layout().bytes != card.layout.bytes) {
    return invalid_argument("its config.json changed since it was loaded: try again");
  }
  CAUSEWAY_ASSIGN(engine::ModelFacts facts, slice_.attach({.id = entry.id,
                                                           .card = card,
                                                           .home = std::move(home),
                                                           .max_model_len = entry.max_model_len,
                                                           .max_resident = entry.max_resident,
                                                           .alpha = entry.alpha}));
  facts.pinned = pinned;
  if (const Status added = slice_.engine().add_model(entry.id, facts); !added.ok()) {
    slice_.detach(entry.id);
    return added.error();
  }
  const Nanos tpot = predicted_tpot(facts);
  warn_of_streaming(entry, facts, tpot);
  return AttachedModel{facts.weights.streamed_bytes(), tpot};
}

// A step waits for what it streams.
Nanos EngineSlice::predicted_tpot(const engine::ModelFacts& facts) const {
  const double rate = slice_.links() != nullptr ? slice_.links()->claim->rate() : 0;
  if (!facts.weights.streams() || rate <= 0) return Nanos(0);
  const auto bytes = static_cast<double>(facts.weights.streamed_bytes().count);
  return std::max(facts.step_of(Tokens(1)), nanos_from_seconds(bytes / rate));
}

Status EngineSlice::detach(ModelId model, Nanos timeout) {
  CAUSEWAY_TRY(slice_.engine().remove_model(model, timeout));
  slice_.detach(model);
  return {};
}

}  // namespace causeway::fleet
