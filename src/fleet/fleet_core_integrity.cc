// Every invariant of a FleetCore, the slow way.
#include <algorithm>
#include <array>
#include <cstdint>

#include "fleet/fleet_core_state.h"

namespace causeway::fleet {
namespace {

Error broken(const std::string& what) { return Error{ErrorCode::kCorrupt, "fleet: " + what}; }

bool same_candidate(const UnloadCandidate& a, const UnloadCandidate& b) {
  return a.model == b.model && a.bytes == b.bytes && a.cost == b.cost && a.last_used == b.last_used;
}

constexpr auto kPhases = static_cast<std::size_t>(ModelPhase::kDropping) + 1;
using PhaseSet = std::uint32_t;

constexpr PhaseSet bit_of(ModelPhase phase) { return PhaseSet{1} << static_cast<unsigned>(phase); }
template <typename... Phases>
constexpr PhaseSet phases(Phases... named) {
  return (bit_of(named) | ...);
}

// By the phase before. docs/design/fleet.md, "A model's way", says why each may be.
constexpr std::array<PhaseSet, kPhases> phases_after() {
  using enum ModelPhase;
  std::array<PhaseSet, kPhases> after = {};
  const auto set = [&after](ModelPhase from, PhaseSet to) {
    after[static_cast<std::size_t>(from)] = to;
  };
  set(kCold, phases(kQueued));
  set(kHome, phases(kQueued, kDropping));
  set(kQueued, phases(kMeasuring, kWaiting, kHome, kCold));
  set(kMeasuring, phases(kWaiting, kCold));
  set(kWaiting, phases(kPlaced, kReady, kHome, kCold));
  set(kPlaced, phases(kLoading, kReady, kWaiting));
  set(kLoading, phases(kReady, kQueued, kHome, kCold));
  set(kReady, phases(kReady, kPlaced, kClosing, kMigrating, kDraining, kLeaving, kQueued, kHome));
  set(kClosing, phases(kReady, kQueued, kHome));
  set(kMigrating, phases(kReady, kPlaced, kClosing, kQueued, kHome));
  set(kDraining, phases(kReady, kLeaving, kClosing, kQueued, kHome));
  set(kLeaving, phases(kReady, kQueued, kHome, kCold));
  set(kDropping, phases(kCold, kQueued));
  return after;
}
constexpr std::array<PhaseSet, kPhases> kAfter = phases_after();

}  // namespace

bool may_follow(ModelPhase from, ModelPhase to) {
  return (kAfter[static_cast<std::size_t>(from)] & bit_of(to)) != 0;
}

Status FleetCore::State::check_model(const Model& model) const {
  const std::string name =
      "model " + std::to_string(model.id.value) + ", " + std::string(name_of(model.phase)) + ", ";
  const bool has_slice = model.phase >= ModelPhase::kPlaced && model.phase <= ModelPhase::kLeaving;
  if (has_slice != model.slice.valid()) return broken(name + "and its slice disagree");
  const bool serves = model.phase == ModelPhase::kReady || model.phase == ModelPhase::kDraining ||
                      model.phase == ModelPhase::kClosing || model.phase == ModelPhase::kMigrating;
  if (!serves && model.running != 0) return broken(name + "has requests that run");
  if (serves && slice_was_lost(model)) return broken(name + "serves on a slice that was lost");
  if (model.phase == ModelPhase::kReady && !model.held.empty()) return broken(name + "holds some");
  const bool rests = model.phase == ModelPhase::kCold || model.phase == ModelPhase::kHome;
  if (rests && (model.ahead || !model.held.empty())) return broken(name + "is asked for");
  if (rests && model.home != (model.phase == ModelPhase::kHome)) return broken(name + "is not");
  if (serves && !model.home) return broken(name + "is not in host memory");
  if (serves && !model.there.contains(model.slice)) return broken(name + "serves detached");
  if (rests && !model.there.empty()) return broken(name + "is attached");
  if (!options.moves && model.there.size() > 1) return broken(name + "is on several slices");
  for (const auto& [slice, crosses] : model.there) {
    if (!slices[static_cast<std::size_t>(slice.value)].up) return broken(name + "is on a lost one");
  }
  CAUSEWAY_TRY(check_removed(model));
  CAUSEWAY_TRY(check_migrating(model));
  const bool goes = model.phase >= ModelPhase::kDraining;
  if (goes && model.spec.pinned) return broken(name + "goes though it is pinned");
  if (model.told && model.taker.valid()) return broken(name + "goes for two reasons");
  if (goes != (model.taker.valid() || model.told)) {
    return broken(name + "and the model that it goes for disagree");
  }
  return {};
}

Status FleetCore::State::check_migrating(const Model& model) const {
  const std::string name = "model " + std::to_string(model.id.value) + ", which migrates, ";
  if ((model.phase == ModelPhase::kMigrating) != model.to.valid()) {
    return broken(name + "and where it goes disagree");
  }
  if (!model.to.valid()) return {};
  if (model.running == 0) return broken(name + "waits for nothing");
  if (model.to == model.slice) return broken(name + "goes where it is");
  if (!slices[static_cast<std::size_t>(model.to.value)].takes()) {
    return broken(name + "goes to a slice that is lost or closes");
  }
  return {};
}

// It is gone, or goes, and nothing brings it back.
Status FleetCore::State::check_removed(const Model& model) const {
  if (!model.removed) return {};
  const std::string name = "model " + std::to_string(model.id.value) + " was removed, and ";
  const bool goes =
      model.phase == ModelPhase::kDropping || (model.phase == ModelPhase::kLeaving && model.drops);
  if (model.phase != ModelPhase::kCold && !goes) return broken(name + "stays");
  if (!model.held.empty() || model.running > 0) return broken(name + "has requests");
  if (model.ahead || model.sleeps || model.spec.pinned) return broken(name + "is wanted");
  return {};
}

Status FleetCore::State::check_slice(std::size_t index) const {
  const Slice& slice = slices[index];
  const std::string name = "slice " + std::to_string(index) + " ";
  std::int64_t placed = 0, there = 0;
  bool loads = false;
  Bytes memory;
  for (const Model& model : models) {
    if (model.slice != SliceId(static_cast<std::int64_t>(index))) continue;
    const bool goes = model.phase == ModelPhase::kDraining || model.phase == ModelPhase::kLeaving;
    const bool comes = model.phase == ModelPhase::kPlaced;
    if (comes && !slice.up) return broken(name + "is lost, and has models placed");
    loads = loads || model.phase == ModelPhase::kLoading;
    // What was lost with the slice takes no place of the one that has returned.
    if (!comes && slice_was_lost(model)) continue;
    placed += !goes;
    there += !comes;
    if (!goes) memory += model.spec.memory_min;
  }
  const std::int64_t most = slice.spec.models_max;
  if (most > 0 && placed > most) return broken(name + "has more models than places");
  if (most > 0 && loads && there > most) return broken(name + "has a load without a place");
  // A model that changes slices may be served where it is when no slice has room for it.
  if (!options.moves && slice.spec.memory > Bytes(0) && memory > slice.spec.memory) {
    return broken(name + "has less memory than its models need");
  }
  return {};
}

Status FleetCore::State::check_resizing() const {
  const std::vector<SliceId> none;
  const std::vector<SliceId>& closing = resizing ? resizing->closing : none;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const SliceId id(static_cast<std::int64_t>(i));
    const bool listed = std::find(closing.begin(), closing.end(), id) != closing.end();
    if (slices[i].closing != (listed && !resizing->asked)) return broken("a slice closes unasked");
    if (listed && slices[i].open == resizing->asked) return broken("a slice is open that closes");
    if (!slices[i].open && slices[i].up) return broken("a closed slice is up");
    if (slices[i].up && view.slice(id).spec.memory != slices[i].spec.memory) {
      return broken("a slice is shown as another");
    }
  }
  if (resizing && loader_works()) return broken("the loader works while slices change");
  for (const Model& model : models) {
    if (model.phase == ModelPhase::kPlaced && resizing) return broken("a model comes meanwhile");
    if (model.phase != ModelPhase::kClosing) continue;
    const Slice& slice = slices[static_cast<std::size_t>(model.slice.value)];
    if (!slice.closing || model.running == 0) return broken("a model waits for nothing to close");
  }
  return {};
}

Status FleetCore::State::check_requests() const {
  std::vector<std::int64_t> running(models.size()), holding(models.size());
  std::vector<std::int64_t> on_slice(slices.size());
  std::int64_t again = 0;
  for (const auto& [id, asked] : requests) {
    const auto index = static_cast<std::size_t>(asked.model.value);
    const Model& model = models[index];
    if (asked.resumes > 0 && !asked.again) return broken("a request goes on that never began");
    if (asked.resumes > options.resumes_max) return broken("a request goes on too often");
    if (!asked.slice.valid()) {
      holding[index] += 1;
      again += asked.again;
      if (asked.cancelled) return broken("a request is held that was cancelled");
      if (asked.again && !model.resume_until) return broken("a request is held for ever");
    } else {
      running[index] += 1;
      on_slice[static_cast<std::size_t>(asked.slice.value)] += 1;
      if (asked.slice != model.slice) return broken("a request runs where its model is not");
    }
  }
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (slices[i].running != on_slice[i]) return broken("a slice is thought to run others");
  }
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const std::string name = "model " + std::to_string(i);
    if (std::ssize(models[i].held) != holding[i]) return broken(name + " holds others");
    if (models[i].running != running[i]) return broken(name + " runs others");
    sum += holding[i];
  }
  if (sum != held) return broken("the number of held requests is another");
  if (held - again > options.waiting_max) return broken("more requests are held than may be");
  return {};
}

// An ask waits for models that leave, and each of them leads to it.
Status FleetCore::State::check_asks() const {
  std::unordered_map<RequestId, std::int64_t> awaiting;
  if (rereading && leaving.contains(*rereading)) awaiting[*rereading] += 1;
  for (const Model& model : models) {
    const bool leaves = model.phase == ModelPhase::kLeaving || model.phase == ModelPhase::kDropping;
    if (!leaves && !model.awaiting.empty()) return broken("an ask waits for a model that stays");
    for (const RequestId ask : model.awaiting) awaiting[ask] += 1;
  }
  for (const auto& [ask, count] : awaiting) {
    if (!leaving.contains(ask)) return broken("a model leads to an ask that was answered");
  }
  for (const auto& [ask, one] : sleeping) {
    if (one.until.empty() || leaving.contains(ask)) return broken("an ask to sleep waits for none");
    for (const RequestId id : one.until) {
      const auto at = requests.find(id);
      if (at == requests.end()) return broken("an ask to sleep waits for what has ended");
      if (at->second.loads) return broken("an ask to sleep waits for a load");
    }
  }
  for (const auto& [ask, one] : leaving) {
    if (one.left == 0 || one.left != awaiting[ask]) return broken("an ask waits for no model");
  }
  return {};
}

// What is kept up as things change, against what it would be from the start.
Status FleetCore::State::check_sums() {
  if (!changed.empty()) return broken("sums are not brought up");
  rank_unloadable();
  FleetView all(std::vector<SliceSpec>(slices.size()), {});
  std::set<UnloadCandidate> may_unload;
  Bytes there, reserved, unloadable_bytes;
  std::int64_t under_way = 0;
  for (const Model& model : models) {
    const bool rests = model.phase == ModelPhase::kCold || model.phase == ModelPhase::kHome ||
                       model.phase == ModelPhase::kReady;
    if (moving.contains(model.id) == rests) return broken("a model moves that is not listed");
    under_way += is_under_way(model.phase);
    const bool loads = model.phase == ModelPhase::kLoading;
    const bool comes = loads || model.phase == ModelPhase::kPlaced;
    const bool goes = model.drops || model.phase == ModelPhase::kDropping;
    if (model.home || loads) there += model.needed;
    if (comes || (model.home && !goes)) reserved += model.needed;
    if (const SliceId slice = takes_of(model); slice.valid()) all.put(slice, placed(model));
    if (!gives_host_memory(model)) continue;
    may_unload.insert(unload_candidate(model));
    unloadable_bytes += model.needed;
  }
  if (under_way != loads_under_way) return broken("another number of loads is under way");
  if (unloadable_bytes != unloadable_sum) return broken("the sum of what could leave is another");
  if (!std::equal(may_unload.begin(), may_unload.end(), unloadable.begin(), unloadable.end(),
                  same_candidate)) {
    return broken("models that could leave host memory are others");
  }
  if (there != there_sum || reserved != reserved_sum) return broken("host memory's sum is another");
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (view.slice(SliceId(static_cast<std::int64_t>(i))).up != slices[i].takes())
      return broken("a slice is shown up that is not");
    if (!view.shows(SliceId(static_cast<std::int64_t>(i)), all)) {
      return broken("slice " + std::to_string(i) + " is shown as it is not");
    }
  }
  return view.adds_up() ? Status() : broken("the sums of slices are others");
}

Status FleetCore::check_integrity() const {
  State& state = *state_;
  if (!state.wrong_change.empty()) return broken(state.wrong_change);
  for (const State::Model& model : state.models) CAUSEWAY_TRY(state.check_model(model));
  for (std::size_t i = 0; i < state.slices.size(); ++i) CAUSEWAY_TRY(state.check_slice(i));
  CAUSEWAY_TRY(state.check_resizing());
  CAUSEWAY_TRY(state.check_requests());
  CAUSEWAY_TRY(state.check_asks());
  CAUSEWAY_TRY(state.check_sums());
  if (state.loads_under_way > state.options.loads_max) return broken("too many loads");
  if (state.host_budget && state.host_other + state.there_sum > *state.host_budget) {
    return broken("host memory has less than models take");
  }
  return {};
}

}  // namespace causeway::fleet
