#include "commands/stop_signals.h"

#include <gtest/gtest.h>
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

}  // namespace
}  // namespace causeway::app::stop_signals_test
