#include "fleet/testing/fleet_history.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/random.h"
#include "fleet/testing/placement_scan.h"

namespace causeway::fleet::testing {
namespace {

// Whether it takes the model out of memory.
bool gives_up(const Action& task) {
  return std::holds_alternative<Unload>(task) || std::holds_alternative<Drop>(task);
}

class History {
 public:
  explicit History(std::uint64_t seed) : random_(seed) { start(); }

  FleetHistoryReport run() {
    const std::int64_t events = random_.between(20, 300);
    for (std::int64_t i = 0; i < events && failure_.empty(); ++i) happen();
    settle();
    report_.failure = failure_;
    report_.counters = core_->counters();
    return report_;
  }

 private:
  struct Asked {
    ModelId model;
    SliceId slice;  // none: held
    std::int64_t routed = 0;
    bool cancelled = false;      // while it ran
    Nanos lost_at = Nanos(-1);   // its slice; negative: it runs, or never did
    bool given_back = false;     // its slice was told to
    std::int64_t withdrawn = 0;  // from slices that were closed, or gave it back
    std::int64_t struck = 0;     // in a step of slices that were lost
    std::int64_t waited = 0;     // in those that were lost
    bool loads = false;          // asks for the model alone
    bool poison = false;         // brings down every slice that computes it
  };

  void start();
  void happen();
  void settle();
  void tell(const Event& event);
  std::string state() const;
  void arrive();
  void cancel();
  void ask();
  void tell_ask(RequestId id, const Event& event);
  void ask_to_load(RequestId id, ModelId model);
  void ask_to_unload(RequestId id, ModelId model);
  void ask_to_sleep(RequestId id);
  void ask_to_reload(RequestId id);
  CatalogueRead read_catalogue();
  ModelSpec new_model(std::int64_t number);
  void end_one();
  void answer_one();
  void lose_or_return();
  void lose(SliceId slice, RequestId by = {});
  void strike(RequestId poison);
  void stall();
  void resize();
  void open_others();
  void give_back();
  void end_late(const std::vector<RequestId>& routed);
  void pass_time();
  Event answer_to(const Action& task);
  Event load_ended(ModelId model, SliceId slice);
  Event unload_ended(const Unload& unload);

  void apply(const Route& route);
  void apply(const CancelOn& cancel);
  void apply(const Withdraw& withdraw);
  void apply(const Refuse& refuse);
  void apply(const Answered& answered);
  void apply(const LoadFailed& failed) {
    if (failed.error.message.empty()) fail("a load fails without a reason");
  }
  void apply(const Measure& measure) { take(measure.model, measure); }
  void apply(const Load& load);
  void apply(const Unload& unload);
  void apply(const Drop& drop);
  void apply(const Resize& resize);
  void apply(const ModelRemoved& removed);
  void apply(const ModelKept& kept);
  void apply(const Reread&) {
    if (std::exchange(rereads_, true)) fail("the catalogue is read twice at once");
  }
  void take(ModelId model, const Action& task);

  void fail(const std::string& what) {
    if (failure_.empty()) failure_ = what;
  }
  bool uses(ModelId model) const;
  bool rests(ModelId model) const;
  bool is_left(ModelId model, bool keeps_home) const;
  Bytes bytes(ModelId model) const { return bytes_[static_cast<std::size_t>(model.value)]; }
  const ModelSpec& spec(ModelId model) const {
    return spec_.models[static_cast<std::size_t>(model.value)];
  }
  Bytes host_used() const;
  std::set<ModelId>& on(SliceId slice) { return slices_[static_cast<std::size_t>(slice.value)]; }
  bool is_up(SliceId slice) const { return up_[static_cast<std::size_t>(slice.value)]; }
  template <typename Map>
  auto any_of(Map& map) {
    return std::next(map.begin(), random_.below(std::ssize(map)));
  }

  Random random_;
  FleetSpec spec_;
  FleetOptions options_;
  std::unique_ptr<FleetCore> core_;
  Nanos now_;
  std::vector<Bytes> bytes_;  // of models in host memory
  Bytes budget_;
  std::vector<std::set<ModelId>> slices_;  // what is on them
  std::vector<bool> up_, open_;
  std::set<SliceId> closing_;                        // these are to be
  bool closed_ = false;                              // they are, and others are to come
  Nanos drained_at_;                                 // when they have to be
  std::vector<std::int64_t> lost_;                   // how often each was lost, or closed
  std::set<std::pair<ModelId, SliceId>> forgotten_;  // attached after an unload that failed
  std::set<ModelId> home_;
  std::map<ModelId, Action> tasks_;                // that wait for their answers
  std::map<ModelId, std::int64_t> loading_since_;  // losses of the slice when the load began
  std::map<RequestId, Asked> requests_;
  std::set<RequestId> ended_;
  std::map<RequestId, Event> asks_;  // but those for loads, which are held as requests are
  std::set<RequestId> asks_refused_;
  std::int64_t next_request_ = 0;
  std::int64_t wanted_ = 0;
  std::int64_t arriving_ = -1;  // the request that is being told of
  bool stalled_ = false;        // the loader, as the core knows
  bool resizes_ = false;
  bool rereads_ = false;                  // the loader, the catalogue
  RequestId reloader_;                    // who asked for that last
  std::map<ModelId, RequestId> removed_;  // as the core has said, and for whom
  std::set<ModelId> gone_;                // whose folders are, as the event being told says
  std::vector<RequestId> withdrawn_;      // by the event that is being told
  std::string failure_;
  FleetHistoryReport report_;
};

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
  pass_time();
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
  const SleepAsked event{id, random_.chance(0.5)};
  tell_ask(id, event);
  if (asks_refused_.contains(id)) return;
  for (std::int64_t i = 0; i < core_->models(); ++i) {
    const bool idle = core_->model(ModelId(i)).phase == ModelPhase::kReady && rests(ModelId(i));
    if (idle) fail("a model without requests does not sleep");
  }
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
  report_.slept += std::holds_alternative<SleepAsked>(asked);
  if (!std::holds_alternative<ReloadAsked>(asked)) return;
  for (const auto& [model, ask] : removed_) {
    if (ask == answered.ask && !is_left(model, false))
      fail("the catalogue is said to be read, and models have not left");
  }
}

// Of those that run.
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
    ++(suspect ? asked.struck : asked.waited);
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
  if (asked.struck > options_.resumes_max) fail("a request may bring down slices for ever");
  if (++at->second.routed > 1 + asked.struck + asked.waited + asked.withdrawn)
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
    fail("a request is cancelled where it is not");
  }
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
  if (as_suspect && at->second.struck <= options_.resumes_max) {
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

}  // namespace

FleetHistoryReport run_fleet_history(std::uint64_t seed) { return History(seed).run(); }

}  // namespace causeway::fleet::testing
