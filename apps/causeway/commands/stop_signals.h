// SIGTERM, SIGINT and SIGHUP (the terminal is closed) as an orderly end: the first drains, a second
// SIGTERM or SIGINT exits at once. A second SIGHUP does not: the shell sends one, and the kernel
// another when the shell ends. Where SIGHUP is ignored from the start (nohup) it stays so.
#pragma once

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

namespace causeway::app {

// Blocks the signals in the calling thread and those it starts; make it before any other thread.
class StopSignals {
 public:
  StopSignals();

  // Waits for the first signal (true), or until `give_up` says so (false); it is asked five times a
  // second.
  bool wait(const std::function<bool()>& give_up) const;

  // Runs `drain` on a thread of its own and returns when that is done; SIGTERM or SIGINT meanwhile
  // ends the process with status 130 (where no thread is to be had, by itself).
  void drain(const std::function<bool()>& drain) const;

 private:
  friend class EndsAtSignal;
  sigset_t signals_;
  sigset_t urgent_;  // of these, those that end a drain
};

// While it lives the first signal ends the process with status 130: for a start, which may take
// long and has nothing to drain. Where no thread is to be had for it, signals wait as without it.
class EndsAtSignal {
 public:
  explicit EndsAtSignal(const StopSignals& signals);  // which outlive it
  ~EndsAtSignal();
  EndsAtSignal(const EndsAtSignal&) = delete;
  EndsAtSignal& operator=(const EndsAtSignal&) = delete;

 private:
  std::atomic<bool> done_ = false;
  std::thread watcher_;
};

}  // namespace causeway::app
