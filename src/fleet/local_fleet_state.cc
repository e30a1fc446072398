#include "fleet/local_fleet_state.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/dcheck.h"
#include "base/log.h"

namespace causeway::fleet {
namespace {

constexpr Nanos kUnloadPoll = seconds(1);  // a stop ends the wait for a model to go this soon
constexpr Nanos kWatch = millis(20);       // how often slices are looked at
constexpr Nanos kEffortApart = seconds(60);  // how often the log speaks of a model's best effort

Event event_of(const Ask& ask) {
  switch (ask.kind) {
    case AskKind::kLoad: return LoadAsked{ask.id, ask.model};
    case AskKind::kUnload: return UnloadAsked{ask.id, ask.model, ask.keeps_home};
    case AskKind::kPin: return PinAsked{ask.id, ask.model, true};
    case AskKind::kUnpin: return PinAsked{ask.id, ask.model, false};
    case AskKind::kSleep: return SleepAsked{ask.id, ask.keeps_home, ask.mode};
    case AskKind::kReload: return ReloadAsked{ask.id};
    case AskKind::kWake: break;
  }
  return WakeAsked{ask.id};
}

request::Output ended(RequestId request, request::FinishReason reason, const Error& error) {
  request::Output output;
  output.request = request;
  output.finished = true;
  output.reason = reason;
  output.error = error.message;
  output.code = error.code;
  return output;
}

std::vector<request::Output> joined(std::vector<request::Output> outputs,
                                    std::vector<request::Output> more) {
  std::move(more.begin(), more.end(), std::back_inserter(outputs));
  return outputs;
}

ModelState state_of(const ModelSeen& seen) {
  switch (seen.phase) {
    case ModelPhase::kReady:
    case ModelPhase::kClosing:
    case ModelPhase::kMigrating:
    case ModelPhase::kDraining: return seen.running > 0 ? ModelState::kActive : ModelState::kReady;
    case ModelPhase::kQueued:
    case ModelPhase::kMeasuring:
    case ModelPhase::kWaiting:
    case ModelPhase::kPlaced:
    case ModelPhase::kLoading: return ModelState::kLoading;
    case ModelPhase::kHome: return ModelState::kReady;
    case ModelPhase::kCold:
    case ModelPhase::kLeaving:
    case ModelPhase::kDropping: break;
  }
  // What leaves while it is asked for is loaded again.
  return seen.held > 0 ? ModelState::kLoading : ModelState::kUnloaded;
}

std::vector<const CatalogueEntry*> entries_of(const std::vector<CatalogueModel>& models) {
  std::vector<const CatalogueEntry*> entries;
  for (const CatalogueModel& model : models) entries.push_back(model.entry.get());
  return entries;
}

bool any_restarts(const FleetSlices& slices) {
  return std::any_of(slices.slices.begin(), slices.slices.end(),
                     [](const FleetSlice* slice) { return slice->restarts(); });
}

FleetSpec spec_of(const std::vector<CatalogueModel>& models, const FleetSlices& slices) {
  FleetSpec spec{.models = {}, .slices = slices.specs, .links = slices.links};
  if (spec.slices.empty()) spec.slices.resize(slices.slices.size());
  CAUSEWAY_CHECK(!spec.slices.empty() && spec.slices.size() == slices.slices.size(),
                 "a fleet has slices, and knows what each has");
  for (const CatalogueModel& model : models) spec.models.push_back(spec_of(model));
  return spec;
}

}  // namespace

LocalFleet::State::State(std::vector<CatalogueModel> models, const LocalFleetOptions& options,
                         FleetHome& home, FleetSlices slices, SerialSink& sink)
    : options_(options),
      clock_(options.clock != nullptr ? *options.clock : machine_clock_),
      home_(home),
      sink_(sink),
      opener_(slices.opener),
      resumes_(opener_ != nullptr || slices.slices.size() > 1 || any_restarts(slices)),
      entries_(entries_of(models)),
      slices_(slices.slices),
      core_(spec_of(models, slices),
            {.waiting_max = options.waiting_for_load_max,
             .room_timeout = options.room_timeout,
             .resumes_max = options.resumes_max,
             .resume_timeout = options.resume_timeout,
             .return_timeout = any_restarts(slices) ? options.return_timeout : Nanos(0),
             .moves = opener_ != nullptr || slices.slices.size() > 1},
            make_placement(options.placement)),
      lost_(slices_.size()),
      demand_(models.size()),
      past_of_(models.size()) {
  for (CatalogueModel& model : models) slots_.emplace_back().model = std::move(model);
}

LocalFleet::State::~State() {
  (void)stop();
  if (loader_.joinable()) loader_.join();
  sink_.listen({});
}

Status LocalFleet::State::begin() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const CatalogueEntry& entry = *slots_[i].model.entry;
    CAUSEWAY_CHECK(entry.id == ModelId(static_cast<std::int64_t>(i)),
                   "catalogue entries are not numbered in order");
    if (!by_name_.emplace(entry.name, i).second) {
      return invalid_argument("two models are named '" + entry.name + "'");
    }
  }
  SerialSink::Screen screen;
  if (resumes_) screen = [this](Outputs outputs) { return routed_.pass(std::move(outputs)); };
  sink_.listen([this](const std::vector<RequestId>& requests,
                      const std::vector<RequestId>& given_back) { on_ended(requests, given_back); },
               std::move(screen));
  const std::scoped_lock lock(mutex_);
  std::vector<ModelId> all;
  for (const Slot& slot : slots_) all.push_back(slot.model.entry->id);
  if (options_.load_ahead) (void)want(std::move(all));  // nothing is held: nothing ends
  return start_threads();
}

Status LocalFleet::State::start_threads() {
  try {
    watch_ = std::thread([this] { run_watch(); });
    loader_ended_ = false;
    loader_ = std::thread([this] { run_loader(); });
  } catch (const std::system_error& error) {
    loader_ended_ = true;
    return exhausted(std::string("cannot start the fleet's threads: ") + error.what());
  }
  return {};
}

const CatalogueEntry* LocalFleet::State::find(std::string_view name) const {
  const std::scoped_lock lock(mutex_);
  const auto found = by_name_.find(name);
  if (found == by_name_.end() || slots_[found->second].removed) return nullptr;
  return entries_[found->second];
}

std::size_t LocalFleet::State::index(ModelId model) const {
  const auto i = static_cast<std::size_t>(model.value);
  CAUSEWAY_CHECK(i < slots_.size(), "a model that is not of this catalogue");
  return i;
}

ModelStatus LocalFleet::State::status(ModelId model) const {
  ModelStatus status;
  const std::scoped_lock lock(mutex_);
  const Slot& slot = this->slot(model);
  const ModelSeen of_core = core_.model(model);
  status.state = state_of(of_core);
  status.host_bytes = of_core.host;
  const bool ready = status.state == ModelState::kReady || status.state == ModelState::kActive;
  if (const auto at = slot.attached.find(of_core.slice); ready && at != slot.attached.end()) {
    status.streamed_bytes = at->second.streamed;
    status.predicted_tpot = at->second.predicted_tpot;
  }
  const Nanos target = entries_[index(model)]->slo.tpot, summed = core_.predicted_tpot(model);
  if (summed > target) status.predicted_tpot = std::max(status.predicted_tpot, summed);
  status.best_effort = status.predicted_tpot > target;
  status.requests_waiting = of_core.held;
  status.last_error = of_core.last_error;
  status.loads_failed = of_core.loads_failed;
  if (load_percent_ && load_percent_->first == model) status.load_percent = load_percent_->second;
  status.pinned = of_core.pinned;
  status.attached = of_core.attached;
  for (const FleetSlice* slice : slices_) {
    if (slice == nullptr) continue;
    const request::Observation seen = slice->observe(model);
    status.device_bytes += seen.weights_cached;
    status.requests_running += seen.requests_running;
    status.requests_waiting += seen.requests_waiting;
    status.requests_rotary += seen.requests_rotary;
  }
  return status;
}

Status LocalFleet::State::submit(request::Request request, bool only_ready) {
  const RequestId id = request.id;
  const RequestArrived event{id, request.model, request.slo, request.arrival, only_ready};
  Outputs outputs;
  Status taken;
  std::optional<SliceId> routed;
  {
    const std::scoped_lock lock(mutex_);
    if (opener_ != nullptr) {
      demand_[index(request.model)].arrived(Tokens(std::ssize(request.prompt)), clock_.now());
    }
    std::vector<Action> actions = core_.on_event(event, clock_.now());
    // What becomes of this one at once is the caller's to know; the rest is of others.
    const auto own = std::find_if(actions.begin(), actions.end(), [id](const Action& action) {
      const auto* route = std::get_if<Route>(&action);
      const auto* refuse = std::get_if<Refuse>(&action);
      return (route != nullptr && route->request == id) ||
             (refuse != nullptr && refuse->request == id);
    });
    if (own == actions.end()) {
      held_.emplace(id, Held{std::move(request), clock_.now()});
    } else {
      if (const auto* refuse = std::get_if<Refuse>(&*own)) taken = refuse->error;
      if (const auto* route = std::get_if<Route>(&*own)) routed = route->slice;
      if (routed) note_effort(event.model, std::get<Route>(*own));
      actions.erase(own);
    }
    apply(std::move(actions), outputs);
    // Before any thread can hear that the slice is lost.
    if (routed && resumes_) taken = give(*routed, std::move(request), /*again=*/false);
  }
  // A model that a request enters does not go, so the slice knows it.
  // Slices that stay: the pointer is good.
  if (routed && !resumes_) taken = slice(*routed).submit(std::move(request));
  if (routed && !taken.ok()) on_ended({id}, {});
  deliver(std::move(outputs));
  return taken;
}

// Where an ask is refused at once the caller is told, and the sink hears nothing of it.
Status LocalFleet::State::ask(const Ask& ask) {
  if (ask.kind == AskKind::kReload && options_.reader == nullptr) {
    return invalid_argument(
        "it was started for one model; models that come and go are those of a folder");
  }
  Outputs outputs;
  Status result;
  {
    const std::scoped_lock lock(mutex_);
    std::vector<Action> actions = core_.on_event(event_of(ask), clock_.now());
    const auto refused = std::find_if(actions.begin(), actions.end(), [&](const Action& action) {
      const auto* answered = std::get_if<Answered>(&action);
      return answered != nullptr && answered->ask == ask.id && !answered->result.ok();
    });
    if (refused != actions.end()) {
      result = std::get<Answered>(*refused).result;
      actions.erase(refused);
    }
    apply(std::move(actions), outputs);
  }
  deliver(std::move(outputs));
  return result;
}

bool LocalFleet::State::asleep() const {
  const std::scoped_lock lock(mutex_);
  return core_.asleep();
}

void LocalFleet::State::cancel(RequestId id) {
  std::unique_lock lock(mutex_);
  Outputs outputs = tell(RequestCancelled{id});
  lock.unlock();
  deliver(std::move(outputs));
}

request::Observation LocalFleet::State::observe() const {
  const std::scoped_lock lock(mutex_);
  request::Observation all = past_;
  if (!change_) all.lost = none_open_;
  std::int64_t lost = std::count(slices_.begin(), slices_.end(), nullptr);
  for (const FleetSlice* slice : slices_) {
    if (slice == nullptr) continue;
    request::Observation seen = slice->observe();
    seen.link_bytes = slice->link_bytes();
    // The fleet serves on with what is left.
    const bool gone = !seen.lost.empty() && !slice->restarts();
    const bool last = gone && ++lost == std::ssize(slices_);
    if (!last) seen.lost.clear();
    all += seen;
  }
  all.requests_waiting += core_.waiting();
  all.requests_resumed = core_.counters().resumed;
  return all;
}

std::vector<std::pair<ModelId, request::Observation>> LocalFleet::State::observe_models() const {
  std::vector<std::pair<ModelId, request::Observation>> models;
  const std::scoped_lock lock(mutex_);
  for (const CatalogueEntry* entry : entries_) {
    models.emplace_back(entry->id, request::Observation());
  }
  for (auto& [id, seen] : models) seen = past_of_[index(id)];
  for (const FleetSlice* slice : slices_) {
    if (slice == nullptr) continue;
    for (const auto& [id, seen] : slice->observe_models()) models[index(id)].second += seen;
  }
  for (auto& [id, seen] : models) seen.requests_waiting += core_.model(id).held;
  return models;
}

bool LocalFleet::State::wait_until_loaded(Nanos timeout) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::nanoseconds(timeout.count), [this] {
    return stopped_ || (!core_.loads_pending() && tasks_.empty() && !loading_);
  });
}

bool LocalFleet::State::stop() {
  std::unique_lock lock(mutex_);
  const bool first = !std::exchange(stopped_, true);
  const Nanos timeout = first ? options_.stop_timeout : Nanos(0);
  cancelled_ = true;
  // What slices that are lost have said before is told to the core before it stops.
  routed_.close();
  Outputs outputs = first ? joined(hear(), tell(Stopped{})) : Outputs();
  changed_.notify_all();
  tasks_changed_.notify_all();
  watch_changed_.notify_all();
  lock.unlock();
  deliver(std::move(outputs));
  if (watch_.joinable()) watch_.join();
  lock.lock();
  const bool loader_ended = changed_.wait_for(lock, std::chrono::nanoseconds(timeout.count),
                                              [this] { return loader_ended_; });
  lock.unlock();
  if (loader_ended && loader_.joinable()) loader_.join();
  if (!loader_ended) {
    spdlog::error("the load of a model has not ended within {:.0f} s of being told to; it is left",
                  to_seconds(options_.stop_timeout));
  }
  return loader_ended;
}

LocalFleet::State::Outputs LocalFleet::State::tell(const Event& event) {
  Outputs outputs;
  apply(core_.on_event(event, clock_.now()), outputs);
  return outputs;
}

// Held requests enter their slice under the lock, so that none that came later overtakes them.
void LocalFleet::State::apply(std::vector<Action> actions, Outputs& outputs) {
  for (Action& action : actions) {
    if (const auto* one = std::get_if<Route>(&action)) {
      route(*one, outputs);
    } else if (const auto* cancel = std::get_if<CancelOn>(&action)) {
      slice(cancel->slice).cancel(cancel->request);
    } else if (const auto* back = std::get_if<Withdraw>(&action)) {
      if (routed_.withdraw(back->request)) slice(back->slice).cancel(back->request);
    } else if (const auto* refused = std::get_if<Refuse>(&action)) {
      refuse(*refused, outputs);
    } else if (const auto* answered = std::get_if<Answered>(&action)) {
      const bool done = answered->result.ok();
      outputs.push_back(
          done ? ended(answered->ask, request::FinishReason::kStop, {})
               : ended(answered->ask, request::FinishReason::kError, answered->result.error()));
    } else if (const auto* failed = std::get_if<LoadFailed>(&action)) {
      if (!cancelled_) spdlog::error("{}", failed->error.message);
    } else if (const auto* removed = std::get_if<ModelRemoved>(&action)) {
      note(*removed);
    } else if (const auto* kept = std::get_if<ModelKept>(&action)) {
      note(*kept);
    } else {
      if (const auto* resize = std::get_if<Resize>(&action)) {
        for (const SliceId closing : resize->closing) routed_.withdraw(slice(closing));
      }
      tasks_.push_back(std::move(action));
      tasks_changed_.notify_one();
    }
  }
  report_left();
  changed_.notify_all();
  if (core_.next_wakeup().value_or(watch_at_) < watch_at_) watch_changed_.notify_one();
}

// One that the slice refuses ends. One that had ended before its slice was lost has had its end.
void LocalFleet::State::route(const Route& route, Outputs& outputs) {
  auto body = held_.extract(route.request);
  const bool again = body.empty();
  CAUSEWAY_CHECK(!again || resumes_, "a request is routed whose body is not here");
  std::optional<request::Request> request;
  if (!again) {
    request = std::move(body.mapped().request);
    request->held = clock_.now() - body.mapped().since;
  } else {
    request = routed_.again(route.request, slice(route.slice));
  }
  if (request) {
    note_effort(request->model, route);
    const Status taken = give(route.slice, std::move(*request), again);
    if (taken.ok()) return;
    outputs.push_back(ended(route.request, request::FinishReason::kError, taken.error()));
  }
  apply(core_.on_event(RequestEnded{route.request}, clock_.now()), outputs);
}

// Once in a while: under load it is so of many requests.
void LocalFleet::State::note_effort(ModelId model, const Route& route) {
  if (route.predicted_tpot == Nanos(0)) return;
  const CatalogueEntry& entry = *entries_[index(model)];
  const Nanos now = clock_.now();
  Nanos& told = slot(model).effort_told;
  if (told > Nanos(0) && now - told < kEffortApart) return;
  told = now;
  spdlog::warn(
      "{} is served by best effort: what is asked of slice {} and its link is more than they have, "
      "so that a token is expected to take {:.0f} ms; its target is {:.0f} ms",
      entry.name, route.slice.value, to_millis(route.predicted_tpot), to_millis(entry.slo.tpot));
}

// An error: the slice has not taken it, and it has ended. If the slice is lost the core is about
// to hear, and the request goes on.
Status LocalFleet::State::give(SliceId to, request::Request request, bool again) {
  const RequestId id = request.id;
  const std::int32_t attempt = request.attempt;
  if (resumes_ && !again) {
    const bool added = routed_.add(request, slice(to));
    CAUSEWAY_CHECK(added, "a request is routed twice");
  }
  const Status taken = slice(to).submit(std::move(request));
  if (taken.ok() || !resumes_) return taken;
  if (routed_.goes_on(id, attempt)) return {};
  (void)routed_.forget(id);
  return taken;
}

// One that had ended before its slice was lost, of which the core has not heard yet, has had its
// end.
void LocalFleet::State::refuse(const Refuse& refuse, Outputs& outputs) {
  const auto held = held_.extract(refuse.request);
  if (held.empty() && resumes_ && !routed_.forget(refuse.request)) return;
  outputs.push_back(ended(refuse.request, refuse.reason, refuse.error));
  if (!held.empty()) outputs.back().held = clock_.now() - held.mapped().since;
}

// Once: how many did not fit when all that did were there.
void LocalFleet::State::report_left() {
  if (left_reported_ || stopped_ || !options_.load_ahead || core_.loads_pending()) return;
  left_reported_ = true;
  const auto left = std::count_if(entries_.begin(), entries_.end(), [this](const auto* entry) {
    const ModelSeen seen = core_.model(entry->id);
    return seen.phase == ModelPhase::kCold && seen.last_error.empty() && !seen.removed;
  });
  if (left == 0) return;
  spdlog::info(
      "{} of {} models are loaded when asked for: of {:.1f} GB of host memory for "
      "weights, {:.1f} GB are taken",
      left, slots_.size(), to_gigabytes(core_.host_budget()), to_gigabytes(core_.host_used()));
}

// From the slices' threads.
void LocalFleet::State::on_ended(const std::vector<RequestId>& requests,
                                 const std::vector<RequestId>& given_back) {
  Outputs outputs;
  {
    const std::scoped_lock lock(mutex_);
    for (const RequestId id : requests) {
      outputs = joined(std::move(outputs), tell(RequestEnded{id}));
    }
    for (const RequestId id : given_back) {
      // It may have been lost with its slice, and be on another by now.
      if (!routed_.is_given_back(id)) continue;
      outputs = joined(std::move(outputs), tell(RequestWithdrawn{id}));
    }
  }
  deliver(std::move(outputs));
}

void LocalFleet::State::deliver(Outputs outputs) {
  if (!outputs.empty()) sink_.deliver(std::move(outputs));
}

// Every invariant of the core, where asserts may cost: while no request waits for the loader, which
// has nothing to do.
void LocalFleet::State::check_at_idle() const {
  if constexpr (kDchecks) {
    if (core_.waiting() > 0 || loading_ || !tasks_.empty()) return;
    const Status whole = core_.check_integrity();
    CAUSEWAY_CHECK(whole.ok(), whole.ok() ? std::string() : whole.error().message);
  }
}

void LocalFleet::State::run_watch() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    const auto soonest = [this] { return core_.next_wakeup().value_or(clock_.now() + kWatch); };
    watch_at_ = std::min(soonest(), clock_.now() + kWatch);
    const Nanos wait = std::max(Nanos(0), watch_at_ - clock_.now());
    watch_changed_.wait_for(lock, std::chrono::nanoseconds(wait.count),
                            [&] { return stopped_ || soonest() < watch_at_; });
    if (stopped_) return;
    Outputs outputs = joined(hear(), tell(Woken{}));
    outputs = joined(std::move(outputs), look_after_loader());
    if (opener_ != nullptr) outputs = joined(std::move(outputs), look_at_demand());
    outputs = joined(std::move(outputs), look_at_links());
    check_at_idle();
    lock.unlock();
    deliver(std::move(outputs));
    lock.lock();
  }
}

// What shows no sign of life may do so for ever: nothing waits for it.
LocalFleet::State::Outputs LocalFleet::State::look_after_loader() {
  const Nanos silent = clock_.now() - Nanos(alive_.load());
  if (!loading_ || stall_told_ || silent < options_.stall_timeout) return {};
  stall_told_ = true;
  const std::string what =
      task_ + " has shown no sign of life for " + std::to_string(silent / millis(1)) + " ms";
  spdlog::error("{}; until it goes on, only models that are loaded are served", what);
  return tell(LoaderStalled{unavailable(what + ", and no other model can be loaded before it has "
                                               "ended; try again later")});
}

void LocalFleet::State::run_loader() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    tasks_changed_.wait(lock, [this] { return stopped_ || !tasks_.empty(); });
    if (stopped_) break;
    const Action task = std::move(tasks_.front());
    tasks_.pop_front();
    loading_ = true;
    load_percent_.reset();
    stall_told_ = false;
    task_ = in_words(task);
    alive_ = clock_.now().count;
    lock.unlock();
    Event event = execute(task);
    lock.lock();
    // What failed because its slice was lost has not failed: so that comes first.
    Outputs outputs = hear();
    if (auto* changed = std::get_if<SlicesChanged>(&event)) adopt(*changed);
    std::vector<ModelId> found;
    if (auto* read = std::get_if<CatalogueRead>(&event)) found = adopt(*read);
    outputs = joined(std::move(outputs), tell(event));
    outputs = joined(std::move(outputs), want_found(found));
    loading_ = false;
    load_percent_.reset();
    changed_.notify_all();
    lock.unlock();
    deliver(std::move(outputs));
    lock.lock();
  }
  loader_ended_ = true;
  changed_.notify_all();
}

std::string LocalFleet::State::in_words(const Action& task) const {
  const auto name = [this](ModelId model) { return entries_[index(model)]->name; };
  if (const auto* one = std::get_if<Measure>(&task)) return "measuring " + name(one->model);
  if (const auto* one = std::get_if<Load>(&task)) return "loading " + name(one->model);
  if (const auto* one = std::get_if<Unload>(&task)) return "unloading " + name(one->model);
  if (std::holds_alternative<Resize>(task)) return "closing slices and opening others";
  if (std::holds_alternative<Reread>(task)) return "reading the models' folder";
  return "unloading " + name(std::get<Drop>(task).model);
}

LocalFleet::State::Outputs LocalFleet::State::hear() {
  Outputs outputs;
  while (auto news = slice_news()) outputs = joined(std::move(outputs), tell(*news));
  return outputs;
}

// The event of one slice that is lost, once, or is back: others serve its models meanwhile. The
// last one is lost with the server, unless it comes back.
std::optional<Event> LocalFleet::State::slice_news() {
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    if (!resumes_ || slices_[i] == nullptr) continue;
    FleetSlice& slice = *slices_[i];
    const SliceId id(static_cast<std::int64_t>(i));
    if (lost_[i]) {
      if (!slice.returned()) continue;
      lost_[i] = false;
      spdlog::info("slice {} of {} serves again", i, slices_.size());
      return SliceReturned{id};
    }
    const std::string why = slice.observe().lost;
    if (why.empty()) continue;
    lost_[i] = true;
    for (Slot& slot : slots_) slot.attached.erase(id);
    spdlog::error(
        "slice {} of {} is lost: {}; its models and requests go on elsewhere, or when it "
        "is back",
        i, slices_.size(), why);
    return SliceLost{id, slice.suspects()};
  }
  return std::nullopt;
}

Event LocalFleet::State::execute(const Action& task) {
  if (const auto* measure = std::get_if<Measure>(&task)) {
    const CatalogueModel& model = slot(measure->model).model;
    return Measured{measure->model,
                    guarded([&] { return home_.room_for(*model.entry, model.source); })};
  }
  if (const auto* one = std::get_if<Load>(&task)) return LoadEnded{one->model, load(*one)};
  if (const auto* one = std::get_if<Unload>(&task)) return UnloadEnded{one->model, unload(*one)};
  if (const auto* resize = std::get_if<Resize>(&task)) return reopen(*resize);
  if (std::holds_alternative<Reread>(task)) return reread();
  const ModelId dropped = std::get<Drop>(task).model;
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    const Status gone = detach(dropped, SliceId(static_cast<std::int64_t>(i)));
    if (!gone.ok()) spdlog::error("a model stays on slice {}: {}", i, gone.error().message);
  }
  forget(dropped);
  return DropEnded{dropped};
}

// It may be attached already: after an unload that has not gone all the way.
Result<Bytes> LocalFleet::State::load(const Load& load) {
  Slot& slot = this->slot(load.model);
  const CatalogueModel& model = slot.model;
  bool pinned = false;
  {
    const std::scoped_lock lock(mutex_);
    pinned = core_.model(load.model).pinned;
    const auto at = slot.attached.find(load.slice);
    if (at != slot.attached.end()) return at->second.streamed;
  }
  const bool brings = !slot.home;
  if (brings) {
    const LoadWatch watch{
        .cancelled = [this] { return is_cancelled(); },
        .progress = [this, id = load.model](int percent) { note_progress(id, percent); }};
    CAUSEWAY_TRY(guarded([&] { return home_.load(*model.entry, model.source, watch); }));
    slot.home = true;
  }
  std::unique_lock lock(mutex_);
  // What is in host memory is there to stay. The slice may be back by now, which is no other slice
  // to attach(): but the core would not know that the model is there, nor have it leave.
  if (core_.load_is_undone(load.model)) return Bytes(0);
  lock.unlock();
  const auto attached =
      guarded([&] { return slice(load.slice).attach(*model.entry, model.source, pinned); });
  lock.lock();
  // The core hears of the loss first.
  const bool undone = core_.load_is_undone(load.model);
  const bool lost = undone || !slice(load.slice).observe().lost.empty();
  if (!attached.ok() && lost) return Bytes(0);
  if (!attached.ok()) {
    lock.unlock();
    if (brings) forget(load.model);
    return attached.error();
  }
  // Unless the slice was lost since then, and what was attached with it.
  if (!undone) slot.attached[load.slice] = *attached;
  return attached->streamed;
}

void LocalFleet::State::note_progress(ModelId model, int percent) {
  const std::scoped_lock lock(mutex_);
  load_percent_ = {model, std::clamp(percent, 0, 100)};
}

// A loader that asks this is alive.
bool LocalFleet::State::is_cancelled() {
  alive_ = clock_.now().count;
  return cancelled_;
}

void LocalFleet::State::forget(ModelId model) {
  slot(model).home = false;
  const Status gone = guarded([&]() -> Status {
    home_.unload(model);
    return {};
  });
  if (!gone.ok()) spdlog::error("cannot let go of a model: {}", gone.error().message);
}

Status LocalFleet::State::detach(ModelId model, SliceId from) {
  {
    const std::scoped_lock lock(mutex_);
    if (!slot(model).attached.contains(from)) return {};
  }
  Status gone = unavailable("the server is shutting down");
  for (Nanos waited; waited < options_.unload_timeout && !gone.ok() && !cancelled_;
       waited += kUnloadPoll) {
    alive_ = clock_.now().count;
    gone = guarded(
        [&] { return slice(from).detach(model, std::min(kUnloadPoll, options_.unload_timeout)); });
  }
  const std::scoped_lock lock(mutex_);
  if (gone.ok()) slot(model).attached.erase(from);
  return gone;
}

Status LocalFleet::State::unload(const Unload& unload) {
  const std::string& name = entries_[index(unload.model)]->name;
  for (const SliceId from : unload.slices) {
    const Status gone = detach(unload.model, from);
    if (gone.ok()) continue;
    if (!cancelled_) spdlog::warn("{} cannot be unloaded: {}", name, gone.error().message);
    return gone;
  }
  if (unload.drop) forget(unload.model);
  if (unload.taker.valid()) {
    spdlog::info("unloaded {} to make room for {}", name, entries_[index(unload.taker)]->name);
  } else {
    spdlog::info("unloaded {}, as was asked for{}", name,
                 unload.drop ? "" : "; it stays in host memory");
  }
  return {};
}

}  // namespace causeway::fleet
