// The state that the whole process shares: the driver's functions, the settings, the one session.
// No other part of the library has shared state; all get what they need as arguments.
//
// Never destroyed: other threads may copy until the very end of the process.
#pragma once

#include <atomic>
#include <optional>
#include <span>

#include "base/clock.h"
#include "preload/session.h"

namespace causeway::preload {

class Process {
 public:
  static Process& get();

  // Whether a copy is too small to be taken over. A hook asks this first, so that small copies cost
  // nothing. Before the library is set up, and after it has been closed, every copy is small.
  static bool is_small(std::size_t bytes) {
    return bytes < threshold_.load(std::memory_order_relaxed);
  }

  // The driver's functions; nullptr before the program has loaded its library.
  const Native* native();

  // As Session::copy. Returns the result of the program's call, or nullopt when the native call is
  // to follow. The first large copy that may be taken over starts the opening of the session.
  std::optional<int> copy(std::span<const CopyCall> copies, CUstream_st* stream, bool synchronous);
  // Whether the settings allow holding streams.
  bool holds() const { return settings_.async == Async::kHold; }
  // The open session, or nullptr.
  Session* session() const { return session_.load(std::memory_order_acquire); }

  // Called when the library is loaded, and in the child after a fork.
  void set_up();
  void after_fork();
  // Called before the process ends.
  void close();
  // Called before contexts end whose streams and memory the session uses: all later copies are
  // native.
  void retire();

 private:
  enum class Phase { kClosed, kOpening, kOpen, kOff };

  void open();
  void begin_opening();
  void switch_off(const std::string& why);
  void write_statistics();

  static std::atomic<std::size_t> threshold_;

  RealClock clock_;
  Settings settings_;
  Statistics statistics_;
  std::atomic<const Native*> native_{nullptr};
  std::atomic<Session*> session_{nullptr};
  std::atomic<Phase> phase_{Phase::kClosed};
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::string why_off_;
};

}  // namespace causeway::preload
