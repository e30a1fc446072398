// Slices that are closed, and others that are opened in their place: what is asked of them waits,
// what runs there ends or is withdrawn, models are attached anew.
#include <algorithm>

#include "base/check.h"
#include "fleet/fleet_core_state.h"

namespace causeway::fleet {

// Anything that is answered by an event.
bool FleetCore::State::loader_works() const {
  return rereading || std::any_of(moving.begin(), moving.end(), [this](ModelId id) {
           const ModelPhase phase = models[static_cast<std::size_t>(id.value)].phase;
           return phase == ModelPhase::kMeasuring || phase == ModelPhase::kLoading ||
                  phase == ModelPhase::kLeaving || phase == ModelPhase::kDropping;
         });
}

void FleetCore::State::on(const ResizeWanted& event) {
  CAUSEWAY_CHECK(!event.slices.empty(), "slices change, and these are none");
  if (stopped || stalled || resizing || loader_works()) return;
  resizing = {.closing = event.slices, .until = now + event.drain_max};
  for (const SliceId id : event.slices) {
    Slice& slice = slice_of(id);
    CAUSEWAY_CHECK(slice.open && !slice.closing, "a slice is to be closed twice");
    slice.closing = true;
    view.set_up(id, false);
  }
  for (Model* model : in_motion()) {
    const bool goes =
        model->phase == ModelPhase::kDraining || model->phase == ModelPhase::kMigrating;
    if (!goes || !slice_of(model->slice).closing) continue;
    enter(*model, ModelPhase::kClosing);
    model->taker = {};
    model->to = {};
    model->drops = false;
  }
  for (const SliceId id : event.slices) stay_all(id);
  give_up_all();  // what had a place looks for one among the new slices
  for (Model& model : models) start_closing(model);
}

void FleetCore::State::start_closing(Model& model) {
  const bool ready = model.phase == ModelPhase::kReady && slice_of(model.slice).closing;
  const bool serves = ready || model.phase == ModelPhase::kClosing;
  for (const SliceId id : resizing->closing) {
    if (!serves || id != model.slice) model.there.erase(id);
    model.unfit.erase(id);
    if (model.last == id) model.last = {};
  }
  touch(model);
  if (!ready) return;
  model.running > 0 ? enter(model, ModelPhase::kClosing) : leave_closing(model);
}

// Nothing of it runs there. It is attached again as soon as there is a slice for it.
void FleetCore::State::leave_closing(Model& model) {
  const SliceId from = model.slice;
  model.there.erase(from);
  counters.loads_lost += 1;
  model.ahead = !stopped;
  rest(model);
  if (model.last == from) model.last = {};
}

bool FleetCore::State::finish_closing() {
  if (!resizing || resizing->asked) return false;
  bool any = false, runs = false;
  for (Model* model : in_motion()) {
    if (model->phase != ModelPhase::kClosing) continue;
    if (model->running > 0) {
      runs = true;
      continue;
    }
    leave_closing(*model);
    any = true;
  }
  if (runs && now < resizing->until) return any;
  resizing->asked = true;
  actions.emplace_back(Resize{resizing->closing});
  for (const SliceId id : resizing->closing) {
    Slice& slice = slice_of(id);
    slice.open = slice.up = slice.closing = false;
    slice.epoch += 1;
    const std::int64_t held_before = held;
    resume_all(id, {});
    counters.withdrawn += held - held_before;
  }
  for (Model* model : in_motion()) {
    if (model->phase == ModelPhase::kClosing) leave_closing(*model);
  }
  return true;
}

void FleetCore::State::on(const SlicesChanged& event) {
  stalled.reset();
  CAUSEWAY_CHECK(resizing && resizing->asked, "slices change that were not told to");
  resizing.reset();
  counters.resizes += 1;
  for (const OpenedSlice& opened : event.opened) open(opened);
  if (!any_up()) down_since = now;
}

void FleetCore::State::open(const OpenedSlice& opened) {
  CAUSEWAY_CHECK(!options.moves || opened.spec.models_max == 0,
                 "idle models that take nothing of a slice have no places to count");
  if (opened.slice.value == std::ssize(slices)) {
    slices.emplace_back();
  } else {
    CAUSEWAY_CHECK(!slice_of(opened.slice).open, "a slice is opened under the id of another");
  }
  Slice& slice = slice_of(opened.slice);
  slice.spec = opened.spec;
  slice.up = slice.open = true;
  slice.epoch += 1;
  view.set_slice(opened.slice, opened.spec);
}

}  // namespace causeway::fleet
