#include "simulate/fleet_slices.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/spin.h"

namespace causeway::simulate {
namespace {

constexpr Nanos kPatience =
    millis(1);  // of a thread that waits for the other, before it looks anew

}  // namespace

void FleetSlices::Lock::lock() {
  while (!spin_until([this] { return try_lock(); }, kPatience)) {
  }
}

FleetSlices::FleetSlices(std::int64_t most, LatencyRecorder* recorder, bool helps, Make make)
    : recorder_(recorder),
      helps_(helps),
      make_(std::move(make)),
      times_(static_cast<std::size_t>(most)),
      slices_(times_.size()),
      due_(most) {
  for (std::size_t i = 0; i < slices_.size(); ++i) slices_[i].times = &times_[i];
  if (helps) helper_ = std::thread([this] { help(); });
}

FleetSlices::~FleetSlices() { stop_helping(); }

void FleetSlices::stop_helping() {
  stops_ = true;
  if (helper_.joinable()) helper_.join();
}

void FleetSlices::help() {
  while (!stops_) spin_until([this] { return stops_ || make_up_some(); }, kPatience);
}

bool FleetSlices::make_up_some() {
  bool any = false;
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    const Times& times = times_[i];
    Entry& entry = slices_[i];
    if (times.due() >= behind_.load() || !entry.lock.try_lock()) continue;
    entry.thread = kHelper;
    for (; times.due() < behind_.load(); any = true) run(entry);
    entry.thread = kCaller;
    entry.lock.unlock();
  }
  return any;
}

void FleetSlices::open(std::size_t index, const SimulationOptions& options,
                       const SimulatedSlice::Shared& shared) {
  Entry& entry = slices_[index];
  CAUSEWAY_CHECK(!entry.slice, "a slice is opened twice");
  entry.clock.set(now_);
  entry.ends_if_asked = kNever;
  entry.slice = std::make_unique<SimulatedSlice>(options, entry.clock, shared);
  entry.depends_on_itself = entry.slice->depends_on_itself();
}

void FleetSlices::close(std::size_t index) {
  Entry& entry = slices_[index];
  if (std::exchange(entry.asked, false)) {
    std::erase(asked_, index);
    entry.lock.unlock();
  }
  entry.slice.reset();
  entry.times->next = kNever;
  set_due(index);
}

void FleetSlices::pause(Nanos until) {
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    Entry& entry = slices_[i];
    entry.paused_until = std::max(entry.paused_until, until);
    if (!entry.slice) continue;
    entry.times->next = next_of(entry);
    set_due(i);
  }
}

Nanos FleetSlices::next_of(const Entry& entry) {
  return std::max(entry.slice->next_event().value_or(kNever), entry.paused_until);
}

Nanos FleetSlices::pass_until(Entry& entry, Nanos at) {
  entry.clock.set(at);
  const Nanos last = pass(entry);
  entry.times->next = next_of(entry);
  entry.knows_ends = false;
  return last;
}

Nanos FleetSlices::pass(Entry& entry) {
  const SimulatedSlice::Passed passed = entry.slice->catch_up();
  if (passed.ends.empty()) return Nanos(0);
  record(entry, passed);
  return passed.ends.back();
}

void FleetSlices::look_ahead(Entry& entry) {
  entry.slice->look_ahead();
  entry.times->next = next_of(entry);
  look_at_ends(entry);
}

// Without a second thread it is enough to know of one that runs alone: it leaves nothing to start.
void FleetSlices::look_at_ends(Entry& entry) {
  const Nanos next = entry.times->next.load();
  const bool asks = next != kNever && (helps_ || entry.slice->runs_alone());
  entry.knows_ends = asks && entry.slice->ends_next(next, entry.ending);
  if (entry.knows_ends) entry.ends_behind = entry.slice->ends_behind(next, entry.ending);
}

void FleetSlices::run(Entry& entry) {
  const bool takes = !entry.starts && entry.times->left_at.load() <= entry.times->next.load();
  takes ? take_left_alone(entry) : run_event(entry);
}

void FleetSlices::take_left_alone(Entry& entry) {
  const Nanos at = entry.times->left_at.load();
  if (at == kNever) return;
  if (begin_alone(entry)) return;
  (void)take_left(entry);
  start_later(entry, at);
}

bool FleetSlices::begin_alone(Entry& entry) {
  const Left& left = entry.left;
  if (make_up_to_now(entry, left.moment) || entry.times->next.load() != kNever) return false;
  entry.clock.set(left.moment.now);
  if (!entry.slice->begin_alone(left.request)) return false;
  entry.times->left_at = kNever;
  entry.times->next = next_of(entry);
  look_at_ends(entry);
  return true;
}

void FleetSlices::join_alone(Entry& entry) {
  const SimulatedSlice::Alone alone = entry.slice->stop_alone();
  entry.knows_ends = false;
  if (alone.submitted) {
    entry.times->next = next_of(entry);
    return;
  }
  entry.clock.set(alone.came);
  submit(entry, alone.request.request, alone.came);
  start_later(entry, alone.came);
}

void FleetSlices::submit(Entry& entry, RequestId request, Nanos at) {
  const Status taken = entry.slice->core().submit(make_(request), at);
  CAUSEWAY_CHECK(taken.ok(), "a request was left with a slice that does not take it");
}

void FleetSlices::start_later(Entry& entry, Nanos at) {
  entry.starts = true;
  entry.times->next = at;
}

bool FleetSlices::take_left(Entry& entry) {
  const Left left = entry.left;
  bool due = make_up_to_now(entry, left.moment);
  if (due && left.had_turn) {
    run_event(entry);
    due = false;
  }
  if (entry.slice->runs_alone()) join_alone(entry);
  entry.clock.set(left.moment.now);
  pass(entry);
  if (due) entry.slice->happen();
  submit(entry, left.request.request, left.moment.now);
  entry.times->left_at = kNever;
  return due;
}

void FleetSlices::run_event(Entry& entry) {
  const bool starts = std::exchange(entry.starts, false);
  const bool ends = std::exchange(entry.ends, false);
  if (ends || !starts) {
    entry.clock.set(entry.times->next.load());
    happen(entry);
  }
  entry.slice->start();
  const Nanos tells_at = entry.slice->tells_at();
  std::size_t ended = 0;
  std::vector<request::Output>& outputs = outputs_[entry.thread];
  entry.slice->core().take_outputs(outputs);
  for (const request::Output& output : outputs) {
    record(entry, output, tells_at);
    if (!output.finished) continue;
    ++ended;
    entry.slice->forget(output.request);
  }
  CAUSEWAY_CHECK(ended == (ends ? entry.ending.size() : 0),
                 "other requests have ended on a slice that was left behind than was known");
  look_ahead(entry);
}

void FleetSlices::happen(Entry& entry) {
  if (entry.slice->runs_alone()) {
    record(entry, entry.slice->passed_alone());
  } else {
    pass(entry);
  }
  entry.slice->happen();
}

void FleetSlices::record(const Entry& entry, const request::Output& output, Nanos at) {
  if (recorder_ == nullptr) return;
  recorder_->record(LatencyRecorder::Part(output, at), entry.thread);
}

void FleetSlices::record(Entry& entry, const SimulatedSlice::Passed& passed) {
  CAUSEWAY_CHECK(recorder_ != nullptr, "a slice stays behind whose answers are not recorded");
  for (const auto& [requests, at] : passed.tokens) {
    recorder_->record_tokens(requests, at, entry.thread);
  }
  entry.steps_passed += std::ssize(passed.ends);
}

std::int64_t FleetSlices::steps_passed() const {
  std::int64_t sum = 0;
  for (const Entry& entry : slices_) sum += entry.steps_passed;
  return sum;
}

bool FleetSlices::make_up(Entry& entry, const Moment& moment) {
  while (entry.starts || entry.times->next.load() < moment.now) run_event(entry);
  for (auto round = std::max(moment.seen + 1, moment.instant); round < moment.round; ++round) {
    if (entry.times->next.load() == moment.now) run_event(entry);
  }
  return entry.times->next.load() == moment.now && moment.seen < moment.round;
}

bool FleetSlices::make_up_to_now(Entry& entry, const Moment& moment) {
  while (true) {
    if (entry.slice->runs_alone() && entry.times->next.load() > moment.now) join_alone(entry);
    if (!entry.starts && entry.times->next.load() > moment.now) pass_until(entry, moment.now);
    if (!entry.starts && entry.times->next.load() >= moment.now) break;
    run_event(entry);
  }
  return make_up(entry, moment);
}

void FleetSlices::begin_round(Nanos now) {
  ++round_;
  if (now > now_) instant_ = round_;
  now_ = now;
  started_ = false;
  behind_ = now;
  // For some slices it was only known that nothing comes of them before now.
  early_.clear();
  due_.each_due(now, [&](std::int64_t i) {
    const auto index = static_cast<std::size_t>(i);
    Entry& entry = slices_[index];
    entry.lock.lock();
    take_left_alone(entry);
    const bool due = make_up(entry, moment_of(entry));
    const bool known = entry.knows_ends && entry.ends_behind > now && entry.keeps_up == 0;
    // What ends nothing can be made up for.
    if (!due || (known && entry.ending.empty())) return early_.push_back(index);
    entry.seen = round_;
    entry.asked = entry.happened = true;
    entry.clock.set(now);
    entry.ends = known;
    if (!known) happen(entry);
    asked_.push_back(index);
  });
  for (const std::size_t index : early_) {
    set_due(index);
    slices_[index].lock.unlock();
  }
}

SimulatedSlice& FleetSlices::ask(std::size_t index) {
  Entry& entry = slices_[index];
  if (std::exchange(entry.asked, true)) {
    if (std::exchange(entry.ends, false)) happen(entry);
    return *entry.slice;
  }
  entry.lock.lock();
  bool due = false;
  // It has not started since one was left.
  const Left& left = entry.left;
  const bool same_turn =
      left.moment.now == now_ && left.moment.round == round_ && left.had_turn == had_turn(index);
  if (same_turn && entry.times->left_at.load() == kNever && entry.slice->runs_alone()) {
    (void)entry.slice->stop_alone();
    entry.times->next = kNever;
    entry.times->left_at = now_;
  }
  if (same_turn && entry.times->left_at.load() == now_) {
    due = take_left(entry);
  } else {
    take_left_alone(entry);
    due = make_up_to_now(entry, moment_of(entry));
    if (due && had_turn(index)) {
      run_event(entry);
      due = false;
    }
    if (entry.slice->runs_alone()) join_alone(entry);
    entry.seen = round_;
    entry.clock.set(now_);
    pass(entry);
    if (due) entry.slice->happen();
  }
  entry.happened = due;
  if (due && starting_) {
    turns_.insert(std::upper_bound(turns_.begin(), turns_.end(), index), index);
  } else {
    asked_.push_back(index);
  }
  return *entry.slice;
}

bool FleetSlices::leave(std::size_t index, const engine::EngineCore::Alone& request,
                        Nanos ends_from) {
  Entry& entry = slices_[index];
  const bool free = entry.times->left_at.load() == kNever && !entry.asked && entry.seen < round_;
  if (!free || entry.keeps_up > 0 || entry.hung) return false;
  if (!entry.depends_on_itself) return false;
  entry.left = {.request = request, .moment = moment_of(entry), .had_turn = had_turn(index)};
  entry.seen = round_;
  entry.ends_if_asked = std::min(entry.ends_if_asked, ends_from);
  entry.times->left_at = now_;
  Nanos due = std::max(entry.ends_if_asked, now_ + Nanos(1));
  // Without a second thread it is known at once when a request ends that runs alone.
  if (!helper_.joinable() && entry.ends) run_event(entry);
  const bool idle = !helper_.joinable() && entry.times->next.load() == kNever;
  if (idle && begin_alone(entry)) due = entry.times->next.load();
  due_.set(static_cast<std::int64_t>(index), due);
  return true;
}

void FleetSlices::start(const Told& told) {
  while (!asked_.empty()) {
    turns_.clear();
    turns_.swap(asked_);
    std::sort(turns_.begin(), turns_.end());
    starting_ = !started_;
    for (std::size_t i = 0; i < turns_.size(); ++i) {  // it may grow
      turn_ = turns_[i];
      start_one(turn_, told);
    }
    starting_ = false;
    started_ = true;
  }
  started_ = true;
}

void FleetSlices::start_one(std::size_t index, const Told& told) {
  Entry& entry = slices_[index];
  entry.asked = false;
  if (entry.ends && entry.keeps_up == 0) return start_behind_ends(index, told);
  if (std::exchange(entry.ends, false)) happen(entry);
  std::vector<request::Output>& outputs = started_outputs_;
  outputs.clear();
  if (!entry.happened && entry.keeps_up == 0 && entry.depends_on_itself) {
    // Nothing of it shows before some step has ended: that can be made up for.
    start_later(entry, now_);
  } else {
    entry.slice->start();
    entry.slice->core().take_outputs(outputs);
    for (const request::Output& output : outputs) {
      const bool whole = output.reason == request::FinishReason::kLength;
      if (output.finished && whole) entry.slice->forget(output.request);
    }
    look_ahead(entry);
  }
  const Nanos at = entry.slice->tells_at();
  for (const request::Output& output : outputs) record(entry, output, at);
  set_due(index);
  entry.lock.unlock();
  for (request::Output& output : outputs) told(output, at);
}

void FleetSlices::start_behind_ends(std::size_t index, const Told& told) {
  Entry& entry = slices_[index];
  ending_.assign(entry.ending.begin(), entry.ending.end());
  entry.ends_if_asked = entry.ends_behind;
  entry.hung = false;
  start_later(entry, now_);
  due_.set(static_cast<std::int64_t>(index), entry.ends_behind);
  entry.lock.unlock();
  for (const RequestId request : ending_) {
    request::Output end;
    end.request = request;
    end.finished = true;
    end.reason = request::FinishReason::kLength;
    told(end, now_);
  }
}

void FleetSlices::set_due(std::size_t index) {
  Entry& entry = slices_[index];
  Nanos due = entry.times->next.load();
  if (entry.slice && entry.keeps_up == 0) {
    due = entry.slice->ends_from(due);
    entry.ends_if_asked = entry.slice->ends_if_asked(now_);
    entry.hung = entry.slice->core().hung();
  }
  const bool later = entry.starts || (entry.slice && entry.seen < round_);
  if (later) due = std::max(due, now_ + Nanos(1));
  due_.set(static_cast<std::int64_t>(index), due);
}

Nanos FleetSlices::finish(Nanos until) {
  stop_helping();
  const Nanos end = std::max(now_, until + Nanos(1));
  Nanos last = now_;
  for (Entry& entry : slices_) {
    if (!entry.slice) continue;
    take_left_alone(entry);
    if (make_up_to_now(entry, moment_of(entry))) run_event(entry);
    while (true) {
      if (entry.slice->runs_alone()) join_alone(entry);
      if (entry.times->next.load() >= end) last = std::max(last, pass_until(entry, end));
      if (entry.times->next.load() >= end) break;
      run_event(entry);
      last = std::max(last, entry.clock.now());
    }
  }
  return last;
}

}  // namespace causeway::simulate
