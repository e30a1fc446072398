#include "device/host/event_board.h"

#include <algorithm>
#include <chrono>
#include <string>

namespace causeway::device {
namespace {

// Longer waits would overflow the library's deadline; a year stands for ever.
constexpr Nanos kWaitMax = seconds(365 * 24 * 3600);

}  // namespace

std::int64_t EventBoard::create() {
  const std::lock_guard lock(mutex_);
  events_.emplace(next_event_, State());
  return next_event_++;
}

void EventBoard::destroy(std::int64_t event) {
  const std::lock_guard lock(mutex_);
  const auto found = events_.find(event);
  CAUSEWAY_CHECK(found != events_.end(), "the event was destroyed already");
  found->second.destroyed = true;
  if (found->second.begun == found->second.completed) events_.erase(found);
}

Result<EventRecord> EventBoard::begin(std::int64_t event) {
  const std::lock_guard lock(mutex_);
  State& state = events_.at(event);
  if (state.begun != state.completed) {
    return invalid_argument("an event is recorded again before its last record is done");
  }
  return EventRecord{event, ++state.begun};
}

void EventBoard::complete(const EventRecord& record, Nanos at,
                          const std::optional<Error>& failure) {
  const std::lock_guard lock(mutex_);
  const auto found = events_.find(record.event);
  CAUSEWAY_CHECK(found != events_.end() && found->second.begun == record.record,
                 "an event's record is done twice");
  State& state = found->second;
  state.completed = record.record;
  state.completed_at = at;
  state.failure = failure;
  if (state.destroyed) events_.erase(found);
  changed_.notify_all();
}

EventRecord EventBoard::latest(std::int64_t event) const {
  const std::lock_guard lock(mutex_);
  return {event, events_.at(event).begun};
}

// An event that was destroyed was done before.
bool EventBoard::is_done(const EventRecord& record) const {
  const auto found = events_.find(record.event);
  return found == events_.end() || found->second.completed >= record.record;
}

Status EventBoard::outcome(const EventRecord& record) const {
  const auto found = events_.find(record.event);
  if (found == events_.end() || record.record == 0) return {};
  const State& state = found->second;
  if (state.completed == record.record && state.failure) return *state.failure;
  return {};
}

Result<bool> EventBoard::done(const EventRecord& record) const {
  const std::lock_guard lock(mutex_);
  if (!is_done(record)) return false;
  CAUSEWAY_TRY(outcome(record));
  return true;
}

Result<Nanos> EventBoard::completed_at(const EventRecord& record) const {
  const std::lock_guard lock(mutex_);
  if (!is_done(record) || record.record == 0) return unavailable("the event has not occurred");
  CAUSEWAY_TRY(outcome(record));
  return events_.at(record.event).completed_at;
}

Status EventBoard::wait(const EventRecord& record, Nanos timeout) const {
  const Nanos limit = std::clamp(timeout, Nanos(0), kWaitMax);
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, std::chrono::nanoseconds(limit.count),
                         [&] { return is_done(record); })) {
    return Error{ErrorCode::kDeadlineExceeded,
                 "an event did not occur within " +
                     std::to_string(static_cast<std::int64_t>(to_millis(limit))) + " ms"};
  }
  return outcome(record);
}

Status EventBoard::wait_unless(const EventRecord& record, const std::atomic<bool>& stop) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_done(record) || stop.load(); });
  if (!is_done(record)) {
    return Error{ErrorCode::kCancelled, "the wait was cancelled with its stream"};
  }
  return outcome(record);
}

void EventBoard::wake() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

}  // namespace causeway::device
