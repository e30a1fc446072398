// The operator in a FleetHistory: what is asked, a catalogue that changes, and the answers.
#include <algorithm>

#include "fleet/testing/fleet_history_state.h"

namespace causeway::fleet::testing {

void History::ask() {
  const RequestId id(next_request_++);
  const ModelId model(random_.below(std::ssize(spec_.models)));
  report_.asks += 1;
  switch (random_.below(8)) {
    case 0: return ask_to_sleep(id);
    case 1: wanted_ += std::ssize(spec_.models); return tell_ask(id, WakeAsked{id});
    case 2: return tell_ask(id, PinAsked{id, model, random_.chance(0.3)});
    case 3: return ask_to_load(id, model);
    case 4:
    case 5: return ask_to_reload(id);
    default: return ask_to_unload(id, model);
  }
}

// The answer, which may come at once, takes the ask off the list.
void History::tell_ask(RequestId id, const Event& event) {
  asks_.emplace(id, event);
  tell(event);
}

void History::ask_to_load(RequestId id, ModelId model) {
  requests_[id] = {.model = model, .slice = {}, .loads = true};
  report_.requests += 1;
  tell(LoadAsked{id, model});
}

// No requests, no pin, and nothing is being done to it.
bool History::rests(ModelId model) const {
  const bool asked = std::any_of(requests_.begin(), requests_.end(),
                                 [&](const auto& one) { return one.second.model == model; });
  return !asked && !spec(model).pinned && !tasks_.contains(model) && !removed_.contains(model);
}

// What was left behind by an unload that failed is another matter.
bool History::is_left(ModelId model, bool keeps_home) const {
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    const SliceId slice(static_cast<std::int64_t>(i));
    if (slices_[i].contains(model) && !forgotten_.contains({model, slice})) return false;
  }
  return keeps_home || !home_.contains(model);
}

void History::ask_to_unload(RequestId id, ModelId model) {
  const UnloadAsked event{id, model, random_.chance(0.3)};
  const bool may = rests(model) && closing_.empty() && !stalled_;
  tell_ask(id, event);
  if (may && asks_refused_.contains(id)) fail("a model that rests is not unloaded");
}

void History::ask_to_sleep(RequestId id) {
  const auto mode = static_cast<SleepMode>(random_.below(3));
  const SleepAsked event{id, random_.chance(0.5), mode};
  std::set<RequestId>& until = sleeps_behind_[id];
  for (const auto& [request, asked] : requests_) {
    if (mode != SleepMode::kIdle && !asked.loads) until.insert(request);
  }
  tell_ask(id, event);
  if (asks_refused_.contains(id) || any_there(until)) return;
  for (std::int64_t i = 0; i < core_->models(); ++i) {
    const bool idle = core_->model(ModelId(i)).phase == ModelPhase::kReady && rests(ModelId(i));
    if (idle) fail("a model without requests does not sleep");
  }
}

bool History::any_there(const std::set<RequestId>& requests) const {
  return std::any_of(requests.begin(), requests.end(),
                     [this](RequestId id) { return requests_.contains(id); });
}

void History::ask_to_reload(RequestId id) {
  if (!rereads_) reloader_ = id;
  const bool may = !rereads_ && closing_.empty() && !stalled_;
  tell_ask(id, ReloadAsked{id});
  if (may && !rereads_) fail("the catalogue is not read though nothing is in the way");
}

// Some folders are gone, some are new or back; or none can be read.
CatalogueRead History::read_catalogue() {
  report_.reloads += 1;
  if (random_.chance(0.1)) return {unavailable("no such folder")};
  CatalogueNews news;
  for (std::int64_t i = 0; i < std::ssize(spec_.models); ++i) {
    const ModelId id(i);
    if (!removed_.contains(id)) {
      if (random_.chance(0.4)) news.gone.push_back(id);
    } else if (core_->model(id).phase == ModelPhase::kCold && random_.chance(0.5)) {
      spec_.models[static_cast<std::size_t>(i)].pinned = random_.chance(0.1);
      news.found.push_back({id, spec(id)});
    }
  }
  for (std::int64_t more = random_.below(3); more > 0 && std::ssize(spec_.models) < 12; --more) {
    const ModelId id(std::ssize(spec_.models));
    spec_.models.push_back(new_model(id.value));
    news.found.push_back({id, spec(id)});
  }
  for (const FoundModel& found : news.found) removed_.erase(found.model);
  report_.found += std::ssize(news.found);
  gone_ = {news.gone.begin(), news.gone.end()};
  return {std::move(news)};
}

void History::apply(const ModelRemoved& removed) {
  if (!removed_.emplace(removed.model, reloader_).second) fail("a model is removed twice");
  if (!gone_.contains(removed.model)) fail("a model is removed whose folder is there");
  if (spec(removed.model).pinned) fail("a pinned model is removed");
  if (uses(removed.model)) fail("a model is removed that has requests");
}

// At once, or later, because a slice does not let go of it.
void History::apply(const ModelKept& kept) {
  report_.gone_kept += 1;
  if (kept.why.message.empty()) fail("a model is kept without a reason");
  if (removed_.erase(kept.model) > 0) return;
  if (!gone_.contains(kept.model)) fail("a model is kept that was not to go");
  if (rests(kept.model) && closing_.empty()) fail("a model that rests is not removed");
}

void History::apply(const Answered& answered) {
  const Status& result = answered.result;
  if (!result.ok() && result.error().message.empty()) fail("an ask is refused without a reason");
  report_.asks_refused += !result.ok();
  if (!result.ok()) asks_refused_.insert(answered.ask);
  if (const auto at = requests_.find(answered.ask); at != requests_.end()) {
    if (!at->second.loads) return fail("a request is answered as an ask is");
    if (result.ok() && is_left(at->second.model, true)) fail("a model is said to be loaded");
    report_.loaded_asked += result.ok();
    requests_.erase(at);
    ended_.insert(answered.ask);
    return;
  }
  const auto at = asks_.find(answered.ask);
  if (at == asks_.end()) return fail("an ask is answered twice, or was never made");
  const Event asked = at->second;
  asks_.erase(at);
  if (!result.ok()) return;
  if (const auto* unload = std::get_if<UnloadAsked>(&asked)) {
    report_.unloaded_asked += 1;
    if (!is_left(unload->model, unload->keeps_home)) fail("a model is said to have left");
  } else if (const auto* pin = std::get_if<PinAsked>(&asked)) {
    spec_.models[static_cast<std::size_t>(pin->model.value)].pinned = pin->pinned;
  }
  if (const auto* slept = std::get_if<SleepAsked>(&asked)) {
    report_.slept += 1;
    report_.slept_behind += !sleeps_behind_.at(answered.ask).empty();
    report_.slept_aborting += slept->mode == SleepMode::kAbort;
    if (any_there(sleeps_behind_.at(answered.ask))) fail("all sleeps under requests");
  }
  if (!std::holds_alternative<ReloadAsked>(asked)) return;
  for (const auto& [model, ask] : removed_) {
    if (ask == answered.ask && !is_left(model, false))
      fail("the catalogue is said to be read, and models have not left");
  }
}

}  // namespace causeway::fleet::testing
