// SIGTERM and SIGINT as an orderly end: the first drains, the second exits at once.
#pragma once

#include <csignal>
#include <functional>

namespace causeway::app {

// Blocks both signals in the calling thread and those it starts; make it before any other thread.
class StopSignals {
 public:
  StopSignals();

  // Waits for the first signal (true), or until `give_up` says so (false); it is asked five times a
  // second.
  bool wait(const std::function<bool()>& give_up) const;

  // Runs `drain` on a thread of its own and returns when that is done; a second signal meanwhile
  // ends the process with status 130 (where no thread is to be had, by itself).
  void drain(const std::function<bool()>& drain) const;

 private:
  sigset_t signals_;
};

}  // namespace causeway::app
