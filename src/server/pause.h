// Whether requests that generate are held back: from a `/sleep` that pauses them to `/wake_up`.
//
//   admin ── begin() ──▶ Pause ◀── kind(), enter(), leave() ── generations
//            wait until none is in the fleet
//
// A generation that is in the fleet looks here whenever its connection wakes; connections wake on
// every change. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

namespace causeway::server {

class Pause {
 public:
  enum class Kind : std::uint8_t {
    kNone,
    kNew,     // requests that have not begun wait
    kAll,     // those that run leave the fleet, too, and go on behind their output
    kEnding,  // requests that have not begun wait; those that run are cancelled
  };

  Kind kind() const { return kind_; }
  // What there was before.
  Kind begin(Kind kind) { return change(kind); }
  void end() { change(Kind::kNone); }
  // Changes with every begin() and end().
  std::uint32_t changes() const { return changes_; }

  // A generation is about to have requests in the fleet. Either it sees a pause that has begun, or
  // is_idle() is false after that begin(). Each enter() is followed by a leave().
  void enter() { ++in_fleet_; }
  void leave() { --in_fleet_; }
  bool is_idle() const { return in_fleet_ == 0; }

 private:
  Kind change(Kind kind) {
    const Kind before = kind_.exchange(kind);
    ++changes_;
    return before;
  }

  std::atomic<Kind> kind_{Kind::kNone};
  std::atomic<std::uint32_t> changes_{0};
  std::atomic<std::int64_t> in_fleet_{0};
};

}  // namespace causeway::server
