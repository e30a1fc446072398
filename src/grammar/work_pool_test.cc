#include "grammar/work_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>

namespace causeway::grammar::work_pool_test {
namespace {

using std::chrono::seconds;

// A job that runs until it is told to end.
struct Blocked {
  std::promise<void> begun, end;

  std::function<void()> job() {
    return [this] {
      begun.set_value();
      end.get_future().wait();
    };
  }
  bool begins() { return begun.get_future().wait_for(seconds(20)) == std::future_status::ready; }
};

TEST(WorkPoolTest, RunsWhatIsPosted) {
  const RealClock clock;
  WorkPool pool({.threads = 2}, clock);
  std::promise<int> done;
  ASSERT_TRUE(pool.post([&] { done.set_value(7); }));
  EXPECT_EQ(done.get_future().get(), 7);
}

TEST(WorkPoolTest, AThreadThatIsLateIsReplacedUpToALimit) {
  const RealClock clock;
  Blocked first, second, third;
  {
    WorkPool pool({.threads = 1, .threads_max = 2, .late = millis(1)}, clock);
    ASSERT_TRUE(pool.post(first.job()));
    ASSERT_TRUE(first.begins());
    ASSERT_TRUE(pool.post(second.job()));
    EXPECT_TRUE(second.begins()) << "the first is late: another thread does the second";
    (void)pool.post(third.job());
    EXPECT_EQ(third.begun.get_future().wait_for(std::chrono::milliseconds(100)),
              std::future_status::timeout)
        << "there are no more than two threads";
    first.end.set_value();
    second.end.set_value();
    third.end.set_value();
  }
}

TEST(WorkPoolTest, RefusesWhatIsTooMuch) {
  const RealClock clock;
  Blocked blocked;
  int ran = 0;
  {
    WorkPool pool({.threads = 1, .threads_max = 1, .late = millis(600'000), .queued_max = 2},
                  clock);
    ASSERT_TRUE(pool.post(blocked.job()));
    ASSERT_TRUE(blocked.begins());
    EXPECT_TRUE(pool.post([&] { ++ran; }));
    EXPECT_TRUE(pool.post([&] { ++ran; }));
    EXPECT_FALSE(pool.post([&] { ++ran; }));
    blocked.end.set_value();
  }
  EXPECT_LE(ran, 2) << "what waited at the end may have been dropped";
}

TEST(WorkPoolTest, AnEndDoesNotWaitForOneThatIsStuck) {
  const RealClock clock;
  auto blocked = std::make_shared<Blocked>();
  auto ended = std::make_shared<std::promise<void>>();
  {
    WorkPool pool({.threads = 1}, clock);
    ASSERT_TRUE(pool.post([blocked, ended] {
      blocked->job()();
      ended->set_value();
    }));
    ASSERT_TRUE(blocked->begins());
  }
  blocked->end.set_value();
  EXPECT_EQ(ended->get_future().wait_for(seconds(20)), std::future_status::ready);
}

}  // namespace
}  // namespace causeway::grammar::work_pool_test
