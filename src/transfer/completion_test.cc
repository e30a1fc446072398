#include "transfer/completion.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/clock.h"

namespace causeway::transfer::completion_test {
namespace {

constexpr Nanos kPatience = seconds(60);
constexpr Nanos kAsleep = millis(12);  // a waiter has stopped polling by then

// A waiter for a ticket, on a thread of its own.
class Waiter {
 public:
  explicit Waiter(const CompletionBoard& board, CompletionBoard::Ticket ticket)
      : thread_([this, &board, ticket] {
          outcome_ = board.wait(ticket, kPatience);
          returned_.store(true);
        }) {}
  ~Waiter() {
    if (thread_.joinable()) thread_.join();
  }
  Status outcome() {
    thread_.join();
    return outcome_;
  }
  bool returned() const { return returned_.load(); }
  // Processor time that the waiter has used so far.
  Nanos worked() {
    clockid_t clock;
    timespec time{};
    if (pthread_getcpuclockid(thread_.native_handle(), &clock) != 0) return Nanos(0);
    clock_gettime(clock, &time);
    return seconds(time.tv_sec) + Nanos(time.tv_nsec);
  }

 private:
  Status outcome_;
  std::atomic<bool> returned_{false};
  std::thread thread_;
};

void pass(Nanos time) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, std::chrono::nanoseconds(time.count), [] { return false; });
}

TEST(CompletionBoard, WhoWaitsHearsOfTheEnd) {
  CompletionBoard board;
  for (const bool soon : {false, true}) {
    for (const Nanos before : {Nanos(0), kAsleep}) {
      const auto ticket = board.open();
      Waiter waiter(board, ticket);
      pass(before);
      if (soon) board.ends_soon(ticket);
      pass(before);  // longer than it polls
      EXPECT_FALSE(waiter.returned());
      board.complete(ticket, {});
      EXPECT_TRUE(waiter.outcome().ok());
      board.release(ticket);
    }
  }
  EXPECT_EQ(board.size(), 0);
}

// More processor time than waking up and falling asleep again take.
constexpr Nanos kPolled = micros(60);

// Whether a waiter that had polled and then slept polled again near the end. A busy machine may
// hide that, because polling yields.
bool polls_again(CompletionBoard& board) {
  const auto ticket = board.open();
  Nanos before, after;
  {
    Waiter waiter(board, ticket);
    pass(kAsleep);
    before = waiter.worked();
    pass(kAsleep);
    const bool sleeps = before > kPolled && waiter.worked() == before;
    board.ends_soon(ticket);
    pass(kAsleep);
    after = sleeps ? waiter.worked() : before;
    board.complete(ticket, {});
    EXPECT_TRUE(waiter.outcome().ok());
  }
  board.release(ticket);
  return after - before > kPolled;
}

TEST(CompletionBoard, WhoSleepsPollsAgainWhenTheEndIsNear) {
  CompletionBoard board;
  const RealClock clock;
  const Nanos begin = clock.now();
  bool again = false;
  while (!again && clock.now() - begin < kPatience) again = polls_again(board);
  EXPECT_TRUE(again);
}

TEST(CompletionBoard, WaitingEndsInTime) {
  CompletionBoard board;
  const RealClock clock;
  const auto ticket = board.open();
  for (const bool soon : {false, true}) {
    if (soon) board.ends_soon(ticket);
    for (const Nanos limit : {Nanos(0), millis(1), millis(20)}) {
      const Nanos begin = clock.now();
      const Status status = board.wait(ticket, limit);
      EXPECT_EQ(status.error().code, ErrorCode::kDeadlineExceeded);
      EXPECT_GE(clock.now() - begin, limit);
    }
  }
  // It is not counted once for each poll or sleep.
  const Nanos begin = clock.now();
  EXPECT_FALSE(board.wait(ticket, seconds(1)).ok());
  EXPECT_LT(clock.now() - begin, millis(1900));
  board.complete(ticket, Error{ErrorCode::kDevice, "broken"});
  EXPECT_EQ(board.wait(ticket, Nanos(0)).error().message, "broken");
  board.release(ticket);
}

}  // namespace
}  // namespace causeway::transfer::completion_test
