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

FleetSlices::FleetSlices(std::int64_t most, LatencyRecorder& recorder, bool helps)
    : recorder_(recorder), slices_(static_cast<std::size_t>(most)), due_(most) {
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
  for (Entry& entry : slices_) {
    if (entry.next.load() >= behind_.load() || !entry.lock.try_lock()) continue;
    for (; entry.next.load() < behind_.load(); any = true) run(entry);
    entry.lock.unlock();
  }
  return any;
}

void FleetSlices::open(std::size_t index, const SimulationOptions& options,
                       const SimulatedSlice::Shared& shared) {
  Entry& entry = slices_[index];
  CAUSEWAY_CHECK(!entry.slice, "a slice is opened twice");
  entry.clock.set(now_);
  entry.slice = std::make_unique<SimulatedSlice>(options, entry.clock, shared);
}

void FleetSlices::close(std::size_t index) {
  Entry& entry = slices_[index];
  entry.slice.reset();
  entry.next = kNever;
  set_due(index);
}

Nanos FleetSlices::pass(Entry& entry) {
  SimulatedSlice::Passed passed = entry.slice->catch_up();
  if (passed.ends.empty()) return Nanos(0);
  const Nanos last = passed.ends.back();
  entry.notes.emplace_back(std::move(passed));
  return last;
}

void FleetSlices::look_ahead(Entry& entry) {
  entry.slice->look_ahead();
  entry.next = entry.slice->next_event().value_or(kNever);
}

void FleetSlices::run(Entry& entry) {
  if (!std::exchange(entry.starts, false)) {
    entry.clock.set(entry.next.load());
    pass(entry);
    entry.slice->happen();
  }
  entry.slice->start();
  const Nanos tells_at = entry.slice->tells_at();
  for (request::Output& output : entry.slice->core().take_outputs()) {
    CAUSEWAY_CHECK(!output.finished, "a request has ended on a slice that was left behind");
    entry.notes.emplace_back(std::pair(std::move(output), tells_at));
  }
  look_ahead(entry);
}

void FleetSlices::tell(Entry& entry) {
  for (const Note& note : entry.notes) {
    if (const auto* put_out = std::get_if<0>(&note)) {
      recorder_.record(put_out->first, put_out->second);
      continue;
    }
    const auto& passed = std::get<SimulatedSlice::Passed>(note);
    recorder_.record_tokens(passed.requests, passed.ends);
    steps_passed_ += std::ssize(passed.ends);
  }
  entry.notes.clear();
}

bool FleetSlices::make_up(Entry& entry) {
  while (entry.starts || entry.next.load() < now_) run(entry);
  for (auto round = std::max(entry.seen + 1, instant_); round < round_; ++round) {
    if (entry.next.load() == now_) run(entry);
  }
  return entry.next.load() == now_ && entry.seen < round_;
}

bool FleetSlices::make_up_to_now(Entry& entry) {
  while (entry.starts || entry.next.load() < now_) run(entry);
  if (entry.next.load() > now_) {
    entry.clock.set(now_);
    pass(entry);
    entry.next = entry.slice->next_event().value_or(kNever);
  }
  return make_up(entry);
}

void FleetSlices::begin_round(Nanos now) {
  ++round_;
  if (now > now_) instant_ = round_;
  now_ = now;
  started_ = false;
  behind_ = now;
  // Of some it was only known that nothing comes of them before now.
  std::vector<std::size_t> early;
  due_.each_due(now, [&](std::int64_t i) {
    const auto index = static_cast<std::size_t>(i);
    Entry& entry = slices_[index];
    entry.lock.lock();
    const bool due = make_up(entry);
    if (due) {
      entry.seen = round_;
      entry.asked = entry.happened = true;
      entry.clock.set(now);
      pass(entry);
      entry.slice->happen();
    }
    tell(entry);
    (due ? asked_ : early).push_back(index);
  });
  for (const std::size_t index : early) {
    set_due(index);
    slices_[index].lock.unlock();
  }
}

SimulatedSlice& FleetSlices::ask(std::size_t index) {
  Entry& entry = slices_[index];
  if (std::exchange(entry.asked, true)) return *entry.slice;
  entry.lock.lock();
  bool due = make_up_to_now(entry);
  if (due && had_turn(index)) {
    run(entry);
    due = false;
  }
  entry.seen = round_;
  entry.clock.set(now_);
  pass(entry);
  tell(entry);
  entry.happened = due;
  if (due) entry.slice->happen();
  if (due && starting_) {
    turns_.insert(std::upper_bound(turns_.begin(), turns_.end(), index), index);
  } else {
    asked_.push_back(index);
  }
  return *entry.slice;
}

void FleetSlices::start(const Told& told) {
  while (!asked_.empty()) {
    turns_ = std::exchange(asked_, {});
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
  std::vector<request::Output> outputs;
  if (!entry.happened && entry.keeps_up == 0 && entry.slice->depends_on_itself()) {
    // Nothing of it shows before some step has ended: that can be made up for.
    entry.starts = true;
    entry.next = now_;
  } else {
    entry.slice->start();
    outputs = entry.slice->core().take_outputs();
    for (const request::Output& output : outputs) {
      const bool whole = output.reason == request::FinishReason::kLength;
      if (output.finished && whole) entry.slice->forget(output.request);
    }
    look_ahead(entry);
  }
  const Nanos at = entry.slice->tells_at();
  set_due(index);
  entry.lock.unlock();
  for (request::Output& output : outputs) told(output, at);
}

void FleetSlices::set_due(std::size_t index) {
  const Entry& entry = slices_[index];
  Nanos due = entry.next.load();
  if (entry.slice && entry.keeps_up == 0) due = entry.slice->ends_from(due);
  if (entry.starts) due = std::max(due, now_ + Nanos(1));
  due_.set(static_cast<std::int64_t>(index), due);
}

Nanos FleetSlices::finish(Nanos until) {
  stop_helping();
  Nanos last = now_;
  for (Entry& entry : slices_) {
    if (!entry.slice) continue;
    if (make_up_to_now(entry)) run(entry);
    for (; entry.next.load() <= until; last = std::max(last, entry.clock.now())) run(entry);
    entry.clock.set(std::max(now_, until + Nanos(1)));
    last = std::max(last, pass(entry));
    tell(entry);
  }
  return last;
}

}  // namespace causeway::simulate
