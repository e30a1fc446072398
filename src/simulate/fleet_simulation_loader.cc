// The loader of a simulated fleet: models come into host memory and onto slices, and leave.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "simulate/fleet_simulation_state.h"

namespace causeway::simulate {

Bytes FleetSimulation::host_budget() const {
  if (options_.host_memory > Bytes(0)) return options_.host_memory;
  Bytes all;
  for (const ModelShape& shape : options_.slice.models) all += shape.layout.bytes;
  return all;
}

Bytes FleetSimulation::host_used() const {
  Bytes used;
  for (const auto& [model, there] : home_) used += shape(model).layout.bytes;
  return used;
}

void FleetSimulation::apply(const fleet::Measure& measure) {
  tell(fleet::Measured{measure.model, fleet::HostRoom{shape(measure.model).layout.bytes,
                                                      host_used(), host_budget()}});
}

void FleetSimulation::apply(const fleet::Load& load) {
  Nanos takes = options_.attach;
  if (home_.emplace(load.model, false).second && options_.disk_bytes_per_second > 0) {
    const auto bytes = static_cast<double>(shape(load.model).layout.bytes.count);
    takes += nanos_from_seconds(bytes / options_.disk_bytes_per_second);
  }
  loads_.emplace(clock_.now() + takes, load);
}

void FleetSimulation::end_loads() {
  while (!loads_.empty() && loads_.begin()->first <= clock_.now()) {
    const fleet::Load load = loads_.begin()->second;
    loads_.erase(loads_.begin());
    // What failed because its slice was lost has not failed: so that comes first.
    tell_losses();
    tell(fleet::LoadEnded{load.model, attach(load)});
  }
}

// It may be attached already: after an unload that has not gone all the way.
Result<Bytes> FleetSimulation::attach(const fleet::Load& load) {
  const ModelId model = load.model;
  FleetPlace& to = place(load.slice);
  const bool was_home = std::exchange(home_[model], true);
  if (to.lost || core_.load_is_undone(model)) return Bytes(0);
  const auto at = to.attached.find(model);
  if (at != to.attached.end()) return at->second;
  auto added = slice(load.slice).add_model(model, shape(model));
  if (added.ok()) {
    to.attached[model] = *added;
  } else if (!was_home) {
    home_.erase(model);
  }
  return added;
}

void FleetSimulation::apply(const fleet::Unload& unload) {
  const bool ends = options_.unload_timeout > Nanos(0);
  unloads_.push_back({unload, ends ? clock_.now() + options_.unload_timeout : kNever});
  for (const fleet::SliceId id : unload.slices) {
    slices_.keep_up(static_cast<std::size_t>(id.value));
  }
}

void FleetSimulation::apply(const fleet::Drop& drop) {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    (void)leave(drop.model, fleet::SliceId(static_cast<std::int64_t>(i)));
  }
  home_.erase(drop.model);
  tell(fleet::DropEnded{drop.model});
}

// True: it is not there any more.
bool FleetSimulation::leave(ModelId model, fleet::SliceId from) {
  FleetPlace& there = place(from);
  if (there.lost || !there.attached.contains(model)) return true;
  const Status gone = slice(from).remove_model(model);
  CAUSEWAY_CHECK(gone.ok() || gone.error().code == ErrorCode::kUnavailable, gone.error().message);
  if (gone.ok()) there.attached.erase(model);
  return gone.ok();
}

// A model whose last step is in flight, or whose weights are on their way, goes when something
// happens on its slice. One slice after the other, the one that serves last.
bool FleetSimulation::try_unload(Unloading& one) {
  std::vector<fleet::SliceId>& slices = one.unload.slices;
  while (!slices.empty()) {
    const auto index = static_cast<std::size_t>(slices.front().value);
    const FleetPlace& from = places_[index];
    const bool there = !from.lost && from.attached.contains(one.unload.model);
    if (there && std::exchange(one.tried, true) && !slices_.looked_at(index)) break;
    if (!leave(one.unload.model, slices.front())) break;
    slices_.may_lag(index);
    slices.erase(slices.begin());
    one.tried = false;
  }
  if (slices.empty()) {
    if (one.unload.drop) home_.erase(one.unload.model);
    tell(fleet::UnloadEnded{one.unload.model, {}});
    return true;
  }
  if (clock_.now() < one.until) return false;
  for (const fleet::SliceId id : slices) slices_.may_lag(static_cast<std::size_t>(id.value));
  tell(fleet::UnloadEnded{one.unload.model, unavailable("simulated: it has not let go")});
  return true;
}

bool FleetSimulation::try_unloads() {
  bool any = false;
  for (Unloading& one : std::exchange(unloads_, {})) {
    if (try_unload(one)) {
      any = true;
    } else {
      unloads_.push_back(std::move(one));
    }
  }
  return any;
}

// Nothing is under way any more, and nothing will befall it.
bool FleetSimulation::rests() const {
  const bool asked = arrived_ < workload_.size() || live_ > 0 || befallen_ < options_.faults.size();
  const bool changes = resizing_ || !resizes_.empty() || core_.resizing();
  const bool loads = !loads_.empty() || !unloads_.empty() || core_.loads_pending();
  return !asked && !changes && !loads && next_of_slices() == kNever;
}

// All models are sent to sleep, as by an operator.
void FleetSimulation::let_go() {
  if (all_left_ || std::exchange(asked_to_leave_, true)) return;
  tell(fleet::SleepAsked{RequestId(static_cast<std::int64_t>(workload_.size()))});
}

// What unloads that had no more time have left on slices.
void FleetSimulation::leave_behind_nothing() {
  if (!all_left_) return;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const auto attached = places_[i].attached;
    for (const auto& [model, crosses] : attached) {
      (void)leave(model, fleet::SliceId(static_cast<std::int64_t>(i)));
    }
  }
}

// Asked again where a model did not let go.
void FleetSimulation::apply(const fleet::Answered& answered) {
  all_left_ = answered.result.ok();
  asked_to_leave_ = all_left_;
}

}  // namespace causeway::simulate
