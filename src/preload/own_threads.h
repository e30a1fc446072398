// Threads of ours in a stranger's process, which inherit how their maker is woken and disturbed.
#pragma once

#include <pthread.h>
#include <sys/prctl.h>

#include <csignal>

namespace causeway::preload {

// While one lives, threads that this one starts leave the program's signals to the program's
// threads, and are woken exactly: the engine's looks at flags and events every few microseconds
// while something is pending.
class OwnThreads {
 public:
  OwnThreads() : slack_(::prctl(PR_GET_TIMERSLACK)) {
    ::prctl(PR_SET_TIMERSLACK, 1UL);
    sigset_t blocked;
    ::sigfillset(&blocked);
    // What a thread does to itself: blocked, it would end the process past the program's handler.
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
