// The events of a CPU machine. Streams refer to events by number, so that an event may be destroyed
// while work that mentions it is still queued.
//
// Thread-safe: one lock for all events, because each stands for much work.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "base/result.h"
#include "base/units.h"

namespace causeway::device {

// One record of an event.
struct EventRecord {
  std::int64_t event = -1;
  std::int64_t record = 0;  // 0: never recorded
};

class EventBoard {
 public:
  std::int64_t create();
  // Wakes threads that wait for the event's record when that is done.
  void destroy(std::int64_t event);

  // A new record, not yet done. kInvalidArgument when the last one is not done.
  Result<EventRecord> begin(std::int64_t event);
  // The record is done, or the work before it has failed.
  void complete(const EventRecord& record, Nanos at, const std::optional<Error>& failure);

  EventRecord latest(std::int64_t event) const;
  Result<bool> done(const EventRecord& record) const;
  Result<Nanos> completed_at(const EventRecord& record) const;
  // Blocks; kDeadlineExceeded, or the error of the work before the record.
  Status wait(const EventRecord& record, Nanos timeout) const;
  // As wait() without a limit, but gives up with kCancelled when `stop` becomes true (then wake()).
  Status wait_unless(const EventRecord& record, const std::atomic<bool>& stop) const;
  void wake();

 private:
  struct State {
    std::int64_t begun = 0;      // records so far
    std::int64_t completed = 0;  // of them
    Nanos completed_at;
    std::optional<Error> failure;
    bool destroyed = false;
  };
  bool is_done(const EventRecord& record) const;
  Status outcome(const EventRecord& record) const;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::unordered_map<std::int64_t, State> events_;
  std::int64_t next_event_ = 0;
};

}  // namespace causeway::device
