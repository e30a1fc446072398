// What the operator asks for: that models are loaded, leave, are pinned, sleep or wake. An
// ask is answered once: at once, or when what it has begun has ended.
#include <algorithm>
#include <utility>

#include "fleet/fleet_core_state.h"

#include "base/dcheck.h"

namespace causeway::fleet {
namespace {

std::string counted(std::int64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

// False: it has been answered, as there is nothing that can be done.
bool FleetCore::State::takes_ask(RequestId ask) {
  if (stopped) {
    answer(ask, unavailable("the server is shutting down"));
  } else if (requests.contains(ask) || leaving.contains(ask) || sleeping.contains(ask)) {
    answer(ask, invalid_argument("ask " + std::to_string(ask.value) + " is in the fleet already"));
  } else {
    return true;
  }
  return false;
}

void FleetCore::State::answer(RequestId ask, Status result) {
  actions.emplace_back(Answered{ask, std::move(result)});
}

// It is held as a request of the model would be, and so all that holds of those holds of it.
void FleetCore::State::on(const LoadAsked& event) {
  if (!takes_ask(event.ask)) return;
  Model& model = model_of(event.model);
  if (is_removed(model)) return answer(event.ask, removed_error(model));
  model.rate.add(now);
  touch(model);
  if (model.phase == ModelPhase::kReady) return answer(event.ask, {});
  if (stalled) return answer(event.ask, *stalled);
  if (held >= options.waiting_max) {
    return answer(event.ask, exhausted("too many requests wait for models to be loaded; try again "
                                       "later"));
  }
  hold(model, {event.ask, event.model, model.spec.slo, now});
  requests.at(event.ask).loads = true;
}

void FleetCore::State::on(const UnloadAsked& event) {
  if (!takes_ask(event.ask)) return;
  Model& model = model_of(event.model);
  if (is_removed(model)) return answer(event.ask, removed_error(model));
  Status may = may_unload(model, event.keeps_home);
  if (!may.ok()) return answer(event.ask, std::move(may));
  leaving[event.ask].left = 1;  // so that it is not answered before all have begun
  unload(model, event.ask, event.keeps_home);
  CAUSEWAY_DCHECK(leaving.contains(event.ask), "it was answered before all had begun");
  one_left(event.ask, {});
}

void FleetCore::State::on(const SleepAsked& event) {
  if (!takes_ask(event.ask)) return;
  if (stalled) return answer(event.ask, *stalled);
  if (resizing) return answer(event.ask, unavailable("slices are being changed; ask again"));
  Sleeping& one = sleeping[event.ask];
  one.keeps_home = event.keeps_home;
  if (event.mode == SleepMode::kIdle) return;
  for (const auto& [id, asked] : requests) {
    if (!asked.loads) one.until.insert(id);
  }
  if (event.mode != SleepMode::kAbort) return;
  std::vector<RequestId> ending(one.until.begin(), one.until.end());
  std::sort(ending.begin(), ending.end());  // one history, one outcome
  for (const RequestId id : ending) on(RequestCancelled{id});
}

void FleetCore::State::forget(RequestId request) {
  requests.erase(request);
  for (auto& [ask, one] : sleeping) {
    one.until.erase(request);
  }
}

// At the end of every event, as requests end in the midst of others.
bool FleetCore::State::fall_asleep() {
  std::vector<std::pair<RequestId, bool>> ready;
  for (const auto& [ask, one] : sleeping) {
    if (one.until.empty()) ready.emplace_back(ask, one.keeps_home);
  }
  std::sort(ready.begin(), ready.end());
  for (const auto& [ask, keeps_home] : ready) {
    sleeping.erase(ask);
    send_to_sleep(ask, keeps_home);
  }
  return !ready.empty();
}

void FleetCore::State::send_to_sleep(RequestId ask, bool keeps_home) {
  if (resizing) return answer(ask, unavailable("slices are being changed; ask again"));
  asleep = true;
  leaving[ask].left = 1;
  for (Model& model : models) {
    if (!may_unload(model, keeps_home).ok()) continue;
    const bool awake = model.phase >= ModelPhase::kQueued && model.phase <= ModelPhase::kReady;
    unload(model, ask, keeps_home);
    model.sleeps = model.sleeps || awake;
  }
  one_left(ask, {});
}

void FleetCore::State::on(const WakeAsked& event) {
  if (!takes_ask(event.ask)) return;
  asleep = false;
  for (Model& model : models) {
    if (!std::exchange(model.sleeps, false)) continue;
    model.ahead = true;
    if (model.phase == ModelPhase::kCold || model.phase == ModelPhase::kHome) rest(model);
  }
  answer(event.ask, {});
}

void FleetCore::State::on(const PinAsked& event) {
  if (!takes_ask(event.ask)) return;
  Model& model = model_of(event.model);
  if (is_removed(model)) return answer(event.ask, removed_error(model));
  if (event.pinned && model.phase >= ModelPhase::kDraining) {
    return answer(event.ask, invalid_argument("it is being unloaded; pin it when that has ended"));
  }
  model.spec.pinned = event.pinned;
  touch(model);
  answer(event.ask, {});
}

// Requests are not waited for: one that comes while a model leaves has it loaded again.
Status FleetCore::State::may_unload(const Model& model, bool keeps_home) const {
  if (model.spec.pinned) return invalid_argument("it is pinned; unpin it first");
  if (!model.held.empty()) {
    return invalid_argument(counted(std::ssize(model.held), "request") + " for it wait");
  }
  if (model.running > 0) {
    return invalid_argument("it has " + counted(model.running, "request") +
                            "; unload it when they have ended");
  }
  if (is_under_way(model.phase)) {
    return invalid_argument("it is being loaded; unload it when that has ended");
  }
  if (stalled) return *stalled;
  if (resizing) return unavailable("slices are being changed; ask again");
  const bool leaves_all = model.drops || (model.told && keeps_home);
  if (model.phase == ModelPhase::kLeaving && !leaves_all) {
    return unavailable("it is leaving its slice; ask again when it has");
  }
  return {};
}

// As may_unload() allows it.
void FleetCore::State::unload(Model& model, RequestId ask, bool keeps_home) {
  model.ahead = false;
  touch(model);
  if (model.phase == ModelPhase::kPlaced) give_up(model);
  if (model.phase == ModelPhase::kQueued || model.phase == ModelPhase::kWaiting) rest(model);
  const bool goes =
      model.phase == ModelPhase::kReady || (model.phase == ModelPhase::kHome && !keeps_home);
  if (goes) {
    model.told = true;
    leave(model, {}, /*drops=*/!keeps_home);
  }
  if (model.phase != ModelPhase::kLeaving && model.phase != ModelPhase::kDropping) return;
  if (!leaving.contains(ask)) return;  // of a reload that has been answered since
  model.awaiting.push_back(ask);
  leaving.at(ask).left += 1;
}

// Off its slices, or not, as `gone` says.
void FleetCore::State::has_left(Model& model, const Status& gone) {
  if (!gone.ok() && model.removed) keep(model, gone.error());
  for (const RequestId ask : std::exchange(model.awaiting, {})) one_left(ask, gone);
}

void FleetCore::State::one_left(RequestId ask, const Status& gone) {
  Leaving& one = leaving.at(ask);
  CAUSEWAY_DCHECK(one.left > 0, "more models have left than an ask waits for");
  if (one.result.ok()) one.result = gone;
  if (--one.left > 0) return;
  answer(ask, std::move(one.result));
  leaving.erase(ask);
}

// What has begun goes on.
void FleetCore::State::answer_leaving(const Status& result) {
  for (Model& model : models) model.awaiting.clear();
  for (const auto& [ask, one] : std::exchange(leaving, {})) answer(ask, result);
  for (const auto& [ask, one] : std::exchange(sleeping, {})) answer(ask, result);
}

bool FleetCore::State::cancel_leaving(RequestId ask) {
  if (sleeping.erase(ask) > 0) {
    answer(ask, Error{ErrorCode::kCancelled, "it was cancelled; nothing sleeps for it"});
    return true;
  }
  if (leaving.erase(ask) == 0) return false;
  for (Model& model : models) std::erase(model.awaiting, ask);
  answer(ask, Error{ErrorCode::kCancelled, "it was cancelled; what has begun goes on"});
  return true;
}

}  // namespace causeway::fleet
