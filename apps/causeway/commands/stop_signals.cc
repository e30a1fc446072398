#include "commands/stop_signals.h"

#include <pthread.h>
#include <unistd.h>

#include <system_error>

#include "base/log.h"

namespace causeway::app {

namespace {

// As the process was started: a signal that is ignored must not be blocked, or it would arrive.
bool is_ignored(int signal) {
  struct sigaction now = {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

StopSignals::StopSignals() {
  sigemptyset(&urgent_);
  sigaddset(&urgent_, SIGTERM);
  sigaddset(&urgent_, SIGINT);
  signals_ = urgent_;
  if (!is_ignored(SIGHUP)) sigaddset(&signals_, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
}

bool StopSignals::wait(const std::function<bool()>& give_up) const {
  const timespec poll{.tv_sec = 0, .tv_nsec = 200'000'000};
  while (!give_up()) {
    const int signal = sigtimedwait(&signals_, nullptr, &poll);
    if (signal > 0) {
      spdlog::info("signal {}: draining; a second SIGTERM or SIGINT exits at once", signal);
      return true;
    }
  }
  return false;
}

void StopSignals::drain(const std::function<bool()>& drain) const {
  std::atomic<bool> done = false;
  const auto work = [&] {
    if (!drain()) spdlog::warn("some requests did not end within the grace time");
    done = true;
  };
  std::thread drainer;
  try {
    drainer = std::thread(work);
  } catch (const std::system_error&) {
    // No thread is to be had: here, and a second signal ends the process by itself.
    pthread_sigmask(SIG_UNBLOCK, &urgent_, nullptr);
    work();
    return;
  }
  const timespec poll{.tv_sec = 0, .tv_nsec = 50'000'000};
  while (!done) {
    if (sigtimedwait(&urgent_, nullptr, &poll) > 0) _exit(130);
  }
  drainer.join();
}

EndsAtSignal::EndsAtSignal(const StopSignals& signals) {
  try {
    watcher_ = std::thread([this, &signals] {
      const timespec poll{.tv_sec = 0, .tv_nsec = 50'000'000};
      while (!done_) {
        const int signal = sigtimedwait(&signals.signals_, nullptr, &poll);
        if (signal <= 0) continue;
        spdlog::info("signal {} during the start: ended", signal);
        _exit(130);
      }
    });
  } catch (const std::system_error&) {
    return;
  }
}

EndsAtSignal::~EndsAtSignal() {
  done_ = true;
  if (watcher_.joinable()) watcher_.join();
}

}  // namespace causeway::app
