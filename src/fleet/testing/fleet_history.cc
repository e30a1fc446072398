#include "fleet/testing/fleet_history.h"

#include <algorithm>

#include "fleet/testing/fleet_history_state.h"
#include "fleet/testing/placement_scan.h"

namespace causeway::fleet::testing {
namespace {

// Whether it takes the model out of memory.
bool gives_up(const Action& task) {
  return std::holds_alternative<Unload>(task) || std::holds_alternative<Drop>(task);
}

}  // namespace

void History::start() {
  const bool limits = random_.chance(0.7), moves = random_.chance(0.5);
  const bool migrates = moves && random_.chance(0.3);
  const std::int64_t models = random_.between(1, 8);
  const std::int64_t slices = migrates ? random_.between(2, 4) : random_.between(1, 4);
  Bytes most, all;
  for (std::int64_t i = 0; i < models; ++i) {
    spec_.models.push_back(new_model(i));
    most = std::max(most, bytes_.back());
    all += bytes_.back();
  }
  const bool tight = random_.chance(0.6);
  budget_ = tight ? Bytes(random_.between(most.count / 2, all.count)) : all;
  spec_.links = {{.bytes_per_second = limits ? static_cast<double>(random_.between(5, 40)) : 0}};
  for (std::int64_t i = 0; i < slices; ++i) {
    spec_.slices.push_back({.link = LinkId(0),
                            .models_max = limits && !moves ? random_.between(1, 3) : 0,
                            .memory = limits ? Bytes(random_.between(2, 12)) : Bytes(0)});
  }
  slices_.resize(spec_.slices.size());
  up_.assign(spec_.slices.size(), true);
  open_ = up_;
  lost_.assign(spec_.slices.size(), 0);
  options_ = {.waiting_max = random_.between(1, 30),
              .loads_max = random_.between(1, 3),
              .room_timeout = millis(random_.between(1, 2000)),
              .drain_after = std::nullopt,
              .resumes_max = random_.below(4),
              .resume_timeout = millis(random_.between(1, 5000)),
              .return_timeout = millis(random_.between(1, 5000)),
              .moves = moves,
              .seed = random_.bits()};
  resizes_ = random_.chance(0.5);
  if (random_.chance(0.6)) options_.drain_after = millis(random_.between(0, 1000));
  const auto kind =
      migrates ? PlacementKind::kLocality : static_cast<PlacementKind>(random_.below(5));
  auto policy =
      kind == PlacementKind::kBandwidth ? make_compared_placement() : make_placement(kind);
  core_ = std::make_unique<FleetCore>(spec_, options_, std::move(policy));
  if (random_.chance(0.3)) {
    for (std::int64_t i = 0; i < models; ++i, ++wanted_) tell(ModelWanted{ModelId(i)});
  }
}

// It takes `bytes_` more.
ModelSpec History::new_model(std::int64_t number) {
  bytes_.push_back(Bytes(random_.between(1, 20)));
  ModelSpec model{.name = "m" + std::to_string(number)};
  model.weights = bytes_.back();
  model.slo.tpot = seconds(1);
  model.rate = random_.uniform();
  model.memory_min = Bytes(random_.between(0, 3));
  model.pinned = random_.chance(0.1);
  return model;
}

void History::tell(const Event& event) {
  for (const Action& action : core_->on_event(event, now_)) {
    std::visit([this](const auto& one) { apply(one); }, action);
  }
  const auto held = std::count_if(requests_.begin(), requests_.end(),
                                  [](const auto& one) { return !one.second.slice.valid(); });
  if (held != core_->waiting()) fail("a request is forgotten, or held that runs or has ended");
  const Status whole = core_->check_integrity();
  if (!whole.ok()) fail(whole.error().message);
  if (stalled_ && core_->waiting() > 0) fail("requests wait for a loader that is stalled");
  for (const auto& [id, asked] : requests_) {
    if (asked.slice.valid() || asked.lost_at < Nanos(0)) continue;
    const bool woken = std::holds_alternative<Woken>(event);
    if (woken && now_ > asked.lost_at + options_.resume_timeout) {
      fail("a request waits too long to go on");
    }
  }
  if (std::holds_alternative<Woken>(event) && !closing_.empty() && !closed_ && now_ > drained_at_) {
    fail("slices drain for longer than they may");
  }
  end_late(std::exchange(withdrawn_, {}));
}

void History::happen() {
  if (random_.chance(0.03)) return ask();
  const double dice = random_.uniform();
  if (dice < 0.35) return arrive();
  if (dice < 0.42) return cancel();
  if (dice < 0.62) return random_.chance(0.5) ? end_one() : give_back();
  if (dice < 0.87) return answer_one();
  if (dice < 0.90) return lose_or_return();
  if (dice < 0.91) return stall();
  if (dice < 0.93) return resize();
  if (dice < 0.95) return see_link();
  pass_time();
}

// Now and then what cannot be.
void History::see_link() {
  const std::int64_t moved = random_.between(-gib(1).count, gib(8).count);
  const Nanos busy = millis(random_.between(-100, 2'000));
  tell(LinkSeen{LinkId(0), random_.chance(0.1) ? Bytes(INT64_MAX / 4) : Bytes(moved),
                random_.chance(0.1) ? Nanos(INT64_MAX / 4) : busy});
  const double most = spec_.links[0].bytes_per_second, counted = core_->link_rate(LinkId(0));
  if (!(counted <= most && counted >= RateMeter::kFloor * most)) {
    fail("a link counts with more than it has, or with less than the floor");
  }
}

void History::arrive() {
  const bool again = random_.chance(0.02) && !requests_.empty();
  const RequestId id = again ? any_of(requests_)->first : RequestId(next_request_++);
  const ModelId model(random_.below(std::ssize(spec_.models)));
  request::Slo slo;
  slo.ttft = millis(random_.between(1, 5000));
  if (!again) {
    requests_[id] = {model, {}};
    requests_[id].poison = random_.chance(0.03);
    report_.requests += 1;
  }
  arriving_ = again ? id.value : -1;
  tell(RequestArrived{id, model, slo, now_});
  arriving_ = -1;
}

void History::cancel() {
  if (!asks_.empty() && random_.chance(0.3)) return tell(RequestCancelled{any_of(asks_)->first});
  if (requests_.empty()) return;
  const auto at = any_of(requests_);
  at->second.cancelled = at->second.slice.valid();
  tell(RequestCancelled{at->first});
}

// Ends one of the requests that run.
void History::end_one() {
  std::vector<RequestId> running;
  for (const auto& [id, asked] : requests_) {
    if (asked.slice.valid()) running.push_back(id);
  }
  if (running.empty()) return;
  const RequestId id = running[static_cast<std::size_t>(random_.below(std::ssize(running)))];
  if (requests_.at(id).poison) return strike(id);
  requests_.erase(id);
  ended_.insert(id);
  tell(RequestEnded{id});
}

// One that was to be given back, if there is any; else one ends.
void History::give_back() {
  std::vector<RequestId> told;
  for (const auto& [id, asked] : requests_) {
    if (asked.slice.valid() && asked.given_back) told.push_back(id);
  }
  if (told.empty()) return end_one();
  const RequestId id = told[static_cast<std::size_t>(random_.below(std::ssize(told)))];
  Asked& asked = requests_.at(id);
  asked.slice = {};
  asked.lost_at = now_;
  asked.withdrawn += 1;
  asked.given_back = false;
  report_.given_back += 1;
  tell(RequestWithdrawn{id});
}

void History::answer_one() {
  if (closed_ && (tasks_.empty() || random_.chance(0.3))) return open_others();
  if (rereads_ && (tasks_.empty() || random_.chance(0.3))) {
    rereads_ = stalled_ = false;
    const CatalogueRead read = read_catalogue();
    tell(read);
    gone_.clear();
    return;
  }
  if (tasks_.empty()) return;
  const auto at = any_of(tasks_);
  const Action task = at->second;
  tasks_.erase(at);
  stalled_ = false;
  tell(answer_to(task));
}

Event History::answer_to(const Action& task) {
  if (const auto* measure = std::get_if<Measure>(&task)) {
    if (random_.chance(0.03)) return Measured{measure->model, unsupported("a strange model")};
    return Measured{measure->model, HostRoom{bytes(measure->model), host_used(), budget_}};
  }
  if (const auto* load = std::get_if<Load>(&task)) return load_ended(load->model, load->slice);
  if (const auto* unload = std::get_if<Unload>(&task)) return unload_ended(*unload);
  const ModelId dropped = std::get<Drop>(task).model;
  home_.erase(dropped);
  for (auto& models : slices_) models.erase(dropped);  // forgotten ones
  return DropEnded{dropped};
}

Event History::load_ended(ModelId model, SliceId slice) {
  const std::int64_t lost_before = loading_since_.at(model);
  loading_since_.erase(model);
  if (random_.chance(0.1)) {
    report_.loads_failed += 1;
    // This slice cannot take it; or none could.
    if (random_.chance(0.3)) return LoadEnded{model, exhausted("too large for the slice")};
    return LoadEnded{model, corrupt("a broken file")};
  }
  home_.insert(model);
  if (is_up(slice) && lost_before == lost_[static_cast<std::size_t>(slice.value)]) {
    on(slice).insert(model);
    forgotten_.erase({model, slice});
  }
  return LoadEnded{model, Bytes(random_.between(0, spec(model).weights.count))};
}

Event History::unload_ended(const Unload& unload) {
  if (random_.chance(0.1)) {
    report_.kept += 1;
    // Any of those that were to be left before.
    for (std::size_t i = 0; i + 1 < unload.slices.size(); ++i) {
      const SliceId slice = unload.slices[i];
      if (random_.chance(0.7)) on(slice).erase(unload.model);
      if (on(slice).contains(unload.model)) forgotten_.emplace(unload.model, slice);
    }
    return UnloadEnded{unload.model, unavailable("it has not let go")};
  }
  for (const SliceId slice : unload.slices) on(slice).erase(unload.model);
  if (unload.drop) {
    home_.erase(unload.model);
    for (auto& models : slices_) models.erase(unload.model);  // forgotten ones
  }
  return UnloadEnded{unload.model, {}};
}

void History::lose_or_return() {
  const auto index = static_cast<std::size_t>(random_.below(std::ssize(up_)));
  const SliceId slice(static_cast<std::int64_t>(index));
  if (!open_[index]) return;
  if (up_[index]) return lose(slice);
  up_[index] = true;
  tell(SliceReturned{slice});
}

// What was there is routed again, or refused; some of it had ended, of which the core hears late.
// `by`: it was in the step that ran, as were any of the others.
void History::lose(SliceId slice, RequestId by) {
  up_[static_cast<std::size_t>(slice.value)] = false;
  lost_[static_cast<std::size_t>(slice.value)] += 1;
  report_.slices_lost += 1;
  on(slice).clear();
  std::vector<RequestId> there;
  SliceLost event{slice};
  for (auto& [id, asked] : requests_) {
    if (asked.slice != slice) continue;
    asked.slice = {};
    asked.lost_at = now_;
    there.push_back(id);
    const bool suspect = id == by || random_.chance(0.4);
    if (suspect) event.suspects.push_back(id);
    ++(suspect ? asked.suspected : asked.waited);
    if (!suspect && asked.waited > options_.resumes_max) report_.waited_long += 1;
  }
  tell(event);
  end_late(there);
}

void History::strike(RequestId poison) {
  report_.strikes += 1;
  lose(requests_.at(poison).slice, poison);
}

void History::end_late(const std::vector<RequestId>& routed) {
  for (const RequestId id : routed) {
    if (!requests_.contains(id) || !random_.chance(0.1)) continue;
    report_.ended_late += 1;
    requests_.erase(id);
    ended_.insert(id);
    tell(RequestEnded{id});
  }
}

// Any of those that are open.
void History::resize() {
  if (!closing_.empty() || !resizes_) return;
  ResizeWanted wanted{.slices = {}, .drain_max = millis(random_.between(0, 1000))};
  for (std::size_t i = 0; i < open_.size(); ++i) {
    if (!open_[i] || !random_.chance(0.6)) continue;
    wanted.slices.emplace_back(static_cast<std::int64_t>(i));
  }
  if (wanted.slices.empty()) return;
  closing_ = {wanted.slices.begin(), wanted.slices.end()};
  drained_at_ = now_ + wanted.drain_max;
  tell(wanted);
  if (!core_->resizing()) {
    if (tasks_.empty() && !rereads_ && !stalled_)
      fail("slices do not change though nothing is in the way");
    closing_.clear();
  }
}

// More or fewer than were closed; now and then none can be opened.
void History::open_others() {
  SlicesChanged changed;
  const std::int64_t count = random_.chance(0.05) ? 0 : random_.between(1, 3);
  report_.opened_none += count == 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = std::find(open_.begin(), open_.end(), false);
    const auto index = static_cast<std::size_t>(at - open_.begin());
    const SliceSpec like = spec_.slices.front();
    const SliceSpec spec{
        .link = LinkId(0),
        .models_max = like.models_max > 0 ? random_.between(1, 3) : 0,
        .memory = like.memory > Bytes(0) ? Bytes(random_.between(2, 12)) : Bytes(0)};
    if (at == open_.end()) {
      open_.push_back(true);
      up_.push_back(true);
      lost_.push_back(0);
      slices_.emplace_back();
      spec_.slices.push_back(spec);
    }
    open_[index] = up_[index] = true;
    spec_.slices[index] = spec;
    changed.opened.push_back({SliceId(static_cast<std::int64_t>(index)), spec});
  }
  closing_.clear();
  closed_ = stalled_ = false;
  tell(changed);
}

void History::apply(const Resize& resize) {
  if (closed_ || std::set(resize.closing.begin(), resize.closing.end()) != closing_) {
    fail("slices are closed that were not to be");
  }
  closed_ = true;
  for (const auto& [model, task] : tasks_) {
    if (std::holds_alternative<Load>(task)) fail("slices are closed while models are loaded");
  }
  for (const SliceId slice : resize.closing) {
    const auto index = static_cast<std::size_t>(slice.value);
    open_[index] = up_[index] = false;
    lost_[index] += 1;
    on(slice).clear();
    for (auto& [id, asked] : requests_) {
      if (asked.slice != slice) continue;
      asked.slice = {};
      asked.lost_at = now_;
      asked.withdrawn += 1;
      withdrawn_.push_back(id);
    }
  }
}

void History::stall() {
  if (tasks_.empty() && !closed_ && !rereads_) return;
  report_.stalls += 1;
  stalled_ = true;
  tell(LoaderStalled{unavailable("nothing moves")});
}

void History::pass_time() {
  const auto wakeup = core_->next_wakeup();
  if (wakeup && random_.chance(0.6)) {
    now_ = *wakeup;
  } else {
    now_ += millis(random_.between(0, 500));
  }
  tell(Woken{});
}

void History::apply(const Route& route) {
  const auto at = requests_.find(route.request);
  if (at == requests_.end()) return fail("a request is routed that has ended");
  if (at->second.slice.valid()) return fail("a request is routed twice");
  if (at->second.loads) return fail("an ask is routed");
  if (removed_.contains(at->second.model)) fail("a request is routed to a removed model");
  if (!on(route.slice).contains(at->second.model)) {
    return fail("a request is routed to a slice without its model");
  }
  if (at->second.cancelled) fail("a request goes on that was cancelled");
  const Asked& asked = at->second;
  if (asked.suspected > options_.resumes_max) fail("a request may bring down slices for ever");
  if (++at->second.routed > 1 + asked.suspected + asked.waited + asked.withdrawn)
    fail("a request is routed too often");
  if (!is_up(route.slice)) fail("a request is routed to a slice that is lost");
  if (closing_.contains(route.slice)) fail("a request is routed to a slice that is to be closed");
  at->second.slice = route.slice;
  at->second.lost_at = Nanos(-1);
  at->second.given_back = false;
}

void History::apply(const CancelOn& cancel) {
  const auto at = requests_.find(cancel.request);
  if (at == requests_.end() || at->second.slice != cancel.slice) {
    return fail("a request is cancelled where it is not");
  }
  at->second.cancelled = true;
}

void History::apply(const Withdraw& withdraw) {
  const auto at = requests_.find(withdraw.request);
  if (at == requests_.end() || at->second.slice != withdraw.slice) {
    return fail("a request is taken back where it is not");
  }
  if (at->second.cancelled) fail("a request is taken back that was cancelled");
  if (std::exchange(at->second.given_back, true)) fail("a request is taken back twice");
}

void History::apply(const Refuse& refuse) {
  // The twin of one that lives: nothing has ended.
  if (refuse.request.value == arriving_) {
    arriving_ = -1;
    return;
  }
  const auto at = requests_.find(refuse.request);
  if (at == requests_.end()) return fail("a request ends twice");
  if (at->second.slice.valid()) return fail("a request is refused that a slice has");
  if (at->second.loads) return fail("an ask is refused as a request is");
  const bool cancelled = refuse.reason == request::FinishReason::kCancelled;
  if (!cancelled && refuse.error.message.empty()) fail("a request is refused without a reason");
  const bool as_suspect = refuse.error.message.find("it is not sent to") != std::string::npos;
  if (as_suspect && at->second.suspected <= options_.resumes_max) {
    fail("a request is refused that only waited where slices were lost");
  }
  report_.suspects_ended += as_suspect;
  report_.cancelled += cancelled;
  requests_.erase(at);
  ended_.insert(refuse.request);
}

void History::apply(const Load& load) {
  take(load.model, load);
  const SliceSpec& slice = spec_.slices[static_cast<std::size_t>(load.slice.value)];
  if (!is_up(load.slice)) fail("a model is loaded onto a slice that was lost");
  if (closing_.contains(load.slice)) fail("a model is loaded onto a slice that is to be closed");
  std::int64_t there = std::ssize(on(load.slice));
  Bytes memory = spec(load.model).memory_min;
  for (const ModelId model : on(load.slice)) memory += spec(model).memory_min;
  for (const auto& [model, task] : tasks_) {
    const auto* other = std::get_if<Load>(&task);
    if (model == load.model || other == nullptr || other->slice != load.slice) continue;
    if (loading_since_.at(model) != lost_[static_cast<std::size_t>(load.slice.value)]) continue;
    there += 1;
    memory += spec(model).memory_min;
  }
  if (slice.models_max > 0 && there >= slice.models_max) fail("a slice has more than its places");
  if (!options_.moves && slice.memory > Bytes(0) && memory > slice.memory) {
    fail("a slice's memory is exceeded");
  }
  loading_since_[load.model] = lost_[static_cast<std::size_t>(load.slice.value)];
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    const SliceId slice_id(static_cast<std::int64_t>(i));
    const bool may = options_.moves && slice_id != load.slice;
    const bool left_behind = forgotten_.contains({load.model, slice_id});
    if (!may && slices_[i].contains(load.model) && !left_behind) {
      fail("a model is loaded that is on a slice");
    }
  }
  if (host_used() > budget_) fail("host memory is exceeded");
}

void History::apply(const Unload& unload) {
  take(unload.model, unload);
  for (const SliceId slice : unload.slices) {
    if (!on(slice).contains(unload.model)) fail("a model leaves a slice that has it not");
  }
  if (spec(unload.model).pinned) fail("a pinned model leaves");
  if (uses(unload.model)) fail("a model leaves that has requests");
}

void History::apply(const Drop& drop) {
  take(drop.model, drop);
  report_.drops += 1;
  if (!home_.contains(drop.model)) fail("a model is dropped that is not there");
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    const SliceId slice(static_cast<std::int64_t>(i));
    if (slices_[i].contains(drop.model) && !forgotten_.contains({drop.model, slice})) {
      fail("a model is dropped that is on a slice");
    }
  }
}

void History::take(ModelId model, const Action& task) {
  if (removed_.contains(model) && !gives_up(task)) fail("a model that was removed comes back");
  if (!tasks_.emplace(model, task).second) fail("two things are done to a model at once");
}

// Whether a request was routed to the model where it is now.
bool History::uses(ModelId model) const {
  return std::any_of(requests_.begin(), requests_.end(), [&](const auto& entry) {
    const Asked& asked = entry.second;
    return asked.model == model && asked.slice.valid() && is_up(asked.slice) &&
           slices_[static_cast<std::size_t>(asked.slice.value)].contains(model) &&
           core_->model(model).running > 0;
  });
}

Bytes History::host_used() const {
  Bytes sum;
  for (const ModelId model : home_) sum += bytes(model);
  for (const auto& [model, task] : tasks_) {
    if (std::holds_alternative<Load>(task) && !home_.contains(model)) sum += bytes(model);
  }
  return sum;
}

std::string History::state() const {
  std::string all;
  for (std::int64_t i = 0; i < core_->models(); ++i) {
    const ModelSeen seen = core_->model(ModelId(i));
    all += (i > 0 ? ", " : "") + std::string(name_of(seen.phase)) + " with " +
           std::to_string(seen.held) + " held, " + std::to_string(seen.running) + " running, " +
           std::to_string(bytes(ModelId(i)).count) + " bytes";
  }
  return all + "; " + std::to_string(core_->host_used().count) + " of " +
         std::to_string(budget_.count) + " bytes taken";
}

// Nothing arrives any more: everything ends, and soon.
void History::settle() {
  const bool returns = random_.chance(0.7), stops = random_.chance(0.3);
  const auto all_return = [this] {
    for (std::size_t i = 0; i < up_.size(); ++i) {
      if (up_[i] || !open_[i]) continue;
      up_[i] = true;
      tell(SliceReturned{SliceId(static_cast<std::int64_t>(i))});
    }
  };
  if (returns) all_return();
  if (stops) tell(Stopped{});
  const auto poisons = std::count_if(requests_.begin(), requests_.end(),
                                     [](const auto& one) { return one.second.poison; });
  const std::int64_t bound = 40 * (std::ssize(requests_) + std::ssize(spec_.models)) +
                             40 * poisons * (1 + options_.resumes_max) + 100;
  for (std::int64_t i = 0; failure_.empty() && (!requests_.empty() || !tasks_.empty() ||
                                                !closing_.empty() || !asks_.empty() || rereads_);
       ++i) {
    if (i > bound) return fail("requests do not end: " + state());
    give_back();
    if (returns) all_return();
    answer_one();
    if (const auto wakeup = core_->next_wakeup()) {
      now_ = *wakeup;
      tell(Woken{});
    }
  }
  if (!failure_.empty()) return;
  const std::int64_t loads_most =
      report_.requests + wanted_ + core_->counters().loads_lost + core_->counters().loads_failed;
  if (core_->counters().loads > loads_most) fail("more loads than requests");
  if (std::ssize(ended_) != report_.requests) fail("a request was lost");
  if (core_->waiting() != 0 || core_->loads_pending()) fail("something waits for nobody");
}

FleetHistoryReport run_fleet_history(std::uint64_t seed) { return History(seed).run(); }

}  // namespace causeway::fleet::testing
