#include "commands/stop_signals.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <optional>

namespace causeway::app::stop_signals_test {
namespace {

// The signal waits until what is called next looks for it.
void start_that_is_told_to_end() {
  const StopSignals signals;
  const EndsAtSignal starting(signals);
  ::kill(::getpid(), SIGTERM);
  ::alarm(20);  // else this process would wait for ever
  while (true) ::pause();
}

TEST(StopSignals, ASignalDuringTheStartEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(start_that_is_told_to_end(), ::testing::ExitedWithCode(130), "");
}

void signal_after_the_start() {
  const StopSignals signals;
  std::optional<EndsAtSignal> starting(std::in_place, signals);
  starting.reset();
  ::kill(::getpid(), SIGTERM);
  ::_exit(signals.wait([] { return false; }) ? 3 : 4);
}

TEST(StopSignals, ASignalAfterTheStartIsLeftToTheDrain) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(signal_after_the_start(), ::testing::ExitedWithCode(3), "");
}

// Ends with 3 where SIGHUP is told, with 4 where three looks find none.
void hangup() {
  const StopSignals signals;
  ::kill(::getpid(), SIGHUP);
  int looks = 0;
  ::_exit(signals.wait([&] { return ++looks > 3; }) ? 3 : 4);
}

TEST(StopSignals, ATerminalThatIsClosedIsASignal) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(hangup(), ::testing::ExitedWithCode(3), "");
}

TEST(StopSignals, NohupKeepsItIgnored) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        ::signal(SIGHUP, SIG_IGN);
        hangup();
      },
      ::testing::ExitedWithCode(4), "");
}

// The shell's, and the kernel's when the shell has ended.
void hangups_during_the_drain() {
  const StopSignals signals;
  int looks = 0;
  signals.drain([&] {
    for (; looks < 5; ++looks) {
      ::kill(::getpid(), SIGHUP);
      ::poll(nullptr, 0, 60);
    }
    return true;
  });
  ::_exit(looks);
}

TEST(StopSignals, ASecondHangupLeavesTheDrainAlone) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(hangups_during_the_drain(), ::testing::ExitedWithCode(5), "");
}

}  // namespace
}  // namespace causeway::app::stop_signals_test
