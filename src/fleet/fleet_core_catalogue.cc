// The catalogue while it is served: new models come, those whose folders are gone leave.
#include <utility>

#include "base/check.h"
#include "fleet/fleet_core_state.h"

namespace causeway::fleet {

bool FleetCore::State::is_removed(const Model& model) const { return model.removed; }

Error FleetCore::State::removed_error(const Model& model) {
  return not_found("the model '" + model.spec.name + "' was removed: its folder is gone");
}

void FleetCore::State::on(const ReloadAsked& event) {
  if (!takes_ask(event.ask)) return;
  if (stalled) return answer(event.ask, *stalled);
  if (resizing) return answer(event.ask, unavailable("slices are being changed; ask again"));
  if (rereading) {
    return answer(event.ask, unavailable("the models' folder is being read already; ask again"));
  }
  rereading = event.ask;
  leaving[event.ask].left = 1;  // until it is read
  actions.emplace_back(Reread{});
}

void FleetCore::State::on(const CatalogueRead& event) {
  stalled.reset();
  CAUSEWAY_CHECK(rereading, "a catalogue is read that was not asked for");
  const RequestId ask = *std::exchange(rereading, std::nullopt);
  if (event.news.ok()) {
    for (const FoundModel& found : event.news->found) add(found);
    for (const ModelId gone : event.news->gone) remove(model_of(gone), ask);
  }
  if (leaving.contains(ask)) one_left(ask, event.news.ok() ? Status() : event.news.error());
}

void FleetCore::State::add(const FoundModel& found) {
  if (found.model.value == std::ssize(models)) {
    models.emplace_back().id = found.model;
  } else {
    const Model& before = model_of(found.model);
    CAUSEWAY_CHECK(before.removed && before.phase == ModelPhase::kCold,
                   "a model is found that there is");
  }
  Model& model = model_of(found.model);
  model.spec = found.spec;
  model.removed = false;
  model.rate = {};
  model.last = {};
  model.unfit.clear();
  model.needed = {};
  model.last_error.clear();
  touch(model);
}

// A model with requests serves on: an operator that removed its folder stops these, and asks again.
void FleetCore::State::remove(Model& model, RequestId ask) {
  CAUSEWAY_CHECK(!model.removed, "a model is gone that was removed before");
  const Status may = may_unload(model, /*keeps_home=*/false);
  if (!may.ok()) return keep(model, may.error());
  model.sleeps = false;
  model.removed = true;
  counters.removed += 1;
  actions.emplace_back(ModelRemoved{model.id});
  unload(model, ask, /*keeps_home=*/false);
}

void FleetCore::State::keep(Model& model, const Error& why) {
  counters.removed -= std::exchange(model.removed, false);
  actions.emplace_back(ModelKept{model.id, why});
}

}  // namespace causeway::fleet
