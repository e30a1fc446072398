// A model whose requests go on elsewhere though its slice is well: the slice gives them back, and
// they are routed again with what they have answered (ServerlessLLM's live migration,
// arXiv 2401.14351 §5: tokens move, KV is computed again).
#include <algorithm>

#include "base/dcheck.h"
#include "fleet/fleet_core_state.h"

namespace causeway::fleet {

// No effect on one that cannot go now: it comes itself, or the loader has other things to do than
// to attach it there.
void FleetCore::State::migrate(const Migration& migration) {
  Model& model = model_of(migration.model);
  if (model.phase != ModelPhase::kReady || model.running == 0) return;
  CAUSEWAY_DCHECK(migration.to.valid() && migration.to != model.slice,
                  "a model migrates to another slice");
  // While the loader is stalled nothing is held.
  if (stalled || !slice_of(migration.to).takes()) return;
  const bool later = resizing || loads_under_way >= options.loads_max;
  if (later && !model.there.contains(migration.to)) return;
  enter(model, ModelPhase::kMigrating);
  model.to = migration.to;
  counters.migrations += 1;
  std::vector<RequestId> runs;
  for (const auto& [id, asked] : requests) {
    const bool stays = asked.cancelled || asked.withdrawn || !asked.slice.valid();
    if (asked.model == model.id && !stays) runs.push_back(id);
  }
  std::sort(runs.begin(), runs.end());
  for (const RequestId id : runs) {
    requests.at(id).withdrawn = true;
    actions.emplace_back(Withdraw{id, model.slice});
  }
}

void FleetCore::State::on(const RequestWithdrawn& event) {
  const auto at = requests.find(event.request);
  if (at == requests.end() || !at->second.slice.valid()) return;
  Asked& asked = at->second;
  Model& model = model_of(asked.model);
  model.running -= 1;
  touch(model);
  leaves_slice(asked, /*served=*/false);
  asked.slice = {};
  held += 1;
  counters.migrated += 1;
  if (!may_resume(event.request, asked, /*suspect=*/false)) return;
  hold_again(model, {event.request});
  // It was given back for nothing: the model stays.
  if (model.phase == ModelPhase::kReady) route_held(model);
}

// Nothing of it runs where it was.
bool FleetCore::State::finish_migrations() {
  if (!any_in(ModelPhase::kMigrating, ModelPhase::kMigrating)) return false;
  bool any = false;
  for (Model* one : in_motion()) {
    Model& model = *one;
    if (model.phase != ModelPhase::kMigrating) continue;
    if (model.running > 0) continue;
    any = true;
    const SliceId to = model.to;
    const bool attached = model.there.contains(to);
    // While slices change the loader is kept for that.
    if (!attached && resizing) {
      stay(model);
      continue;
    }
    model.to = {};
    model.last = model.slice;
    if (attached) {
      serve_on(model, to);
    } else {
      enter(model, ModelPhase::kPlaced);
      model.slice = to;
    }
  }
  return any;
}

// It serves on where it is. What its slice has not given back yet is routed to it again then.
void FleetCore::State::stay(Model& model) {
  CAUSEWAY_DCHECK(model.phase == ModelPhase::kMigrating, "it does not go");
  model.to = {};
  serve_on(model, model.slice);
}

// All that go to a slice that is lost, or closes; invalid: all.
void FleetCore::State::stay_all(SliceId to) {
  for (Model* model : in_motion()) {
    if (model->phase != ModelPhase::kMigrating) continue;
    if (!to.valid() || model->to == to) stay(*model);
  }
}

}  // namespace causeway::fleet
