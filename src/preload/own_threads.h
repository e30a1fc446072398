// Threads of ours in another program's process, which inherit signal masks and timer slack from the
// thread that starts them.
#pragma once

#include <pthread.h>
#include <sys/prctl.h>

#include <csignal>

namespace causeway::preload {

// During the life of one of these, threads that this thread starts leave the program's signals to
// the program's threads, and have exact timers: the engine polls flags and events every few
// microseconds while something is pending.
class OwnThreads {
 public:
  OwnThreads() : slack_(::prctl(PR_GET_TIMERSLACK)) {
    ::prctl(PR_SET_TIMERSLACK, 1UL);
    sigset_t blocked;
    ::sigfillset(&blocked);
    // Signals that a thread raises by its own fault: if they were blocked, the process would end
    // without running the program's handler.
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) ::sigdelset(&blocked, own);
    ::pthread_sigmask(SIG_BLOCK, &blocked, &signals_);
  }
  ~OwnThreads() {
    ::pthread_sigmask(SIG_SETMASK, &signals_, nullptr);
    if (slack_ > 0) ::prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack_));
  }
  OwnThreads(const OwnThreads&) = delete;
  OwnThreads& operator=(const OwnThreads&) = delete;

 private:
  const int slack_;
  sigset_t signals_{};
};

}  // namespace causeway::preload
