// The state that the whole process shares: the driver's functions, the settings, the one session.
// The only place of the library that has any; everything else is handed what it needs.
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

  // As Session::copy; what the program's call is to return, nullopt: the native call follows. The
  // first large copy that may be ours has the session opened.
  std::optional<int> copy(std::span<const CopyCall> copies, CUstream_st* stream, bool synchronous);
  // Whether the settings allow that streams are held up.
  bool holds() const { return settings_.async == Async::kHold; }
  // The open session, or nullptr.
  Session* session() const { return session_.load(std::memory_order_acquire); }

  // When the library is loaded, and in a process that was forked.
  void set_up();
  void after_fork();
  // Before the process ends.
  void close();
  // Before contexts go whose streams and memory the session uses: from now on copies are native.
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
