#include "transfer/express_lane.h"

#include <gtest/gtest.h>

#include <thread>

#include "transfer/testing/bench_machine.h"

namespace causeway::transfer::express_lane_test {
namespace {

using testing::BenchMachine;
using testing::FaultPlan;
using testing::kPatience;

constexpr Bytes kBytes = kib(1);
constexpr int kPieces = 64;

// A lane into the memory of one device.
struct Express {
  Express() {
    Random random(1);
    testing::fill(machine.host_bytes(Bytes(0), kBytes * kPieces), random);
  }
  ExpressTicket copy(int piece = 0) {
    const Bytes at = kBytes * (piece % kPieces);
    const device::Copy one{machine.data(0, at), machine.host(at), kBytes};
    return lane->copy({&one, 1}, device::CopyPriority::kStep);
  }
  bool arrived(int piece) {
    const Bytes at = kBytes * (piece % kPieces);
    const auto from = machine.host_bytes(at, kBytes), to = machine.device_bytes(0, at, kBytes);
    return std::equal(from.begin(), from.end(), to.begin());
  }
  // `count` copies, one after the other; whether each arrived.
  bool copy_and_wait(int count) {
    for (int i = 0; i < count; ++i) {
      const ExpressTicket ticket = copy(i);
      if (!ticket || !ticket.wait(kPatience).ok() || !arrived(i)) return false;
    }
    return true;
  }

  BenchMachine machine{{.devices = 1}};
  std::unique_ptr<ExpressLane> lane = ExpressLane::create(machine.device(0), "express").value();
};

TEST(ExpressLane, OneCopyAfterTheOtherTakesTwoMarksInTurns) {
  Express express;
  ASSERT_TRUE(express.copy_and_wait(200));
  EXPECT_EQ(express.lane->marks(), 2);
  EXPECT_EQ(express.lane->moved(device::CopyPriority::kStep), kBytes * 200);
  EXPECT_TRUE(express.lane->idle());
}

TEST(ExpressLane, ItsStreamRaisesTheSignal) {
  Express express;
  const auto arrived = express.machine.device(0).make_semaphore().value();
  const device::Copy one{express.machine.data(0, Bytes(0)), express.machine.host(Bytes(0)), kBytes};
  express.machine.faults(0).next(FaultPlan::Kind::kHang, 1);
  const ExpressTicket ticket =
      express.lane->copy({&one, 1}, device::CopyPriority::kStep, {arrived.get(), 3});
  ASSERT_TRUE(ticket);
  EXPECT_EQ(arrived->wait(3, millis(5)).error().code, ErrorCode::kDeadlineExceeded);
  express.machine.faults(0).release();
  ASSERT_TRUE(arrived->wait(3, kPatience).ok());
  EXPECT_TRUE(express.arrived(0));
  ASSERT_TRUE(ticket.wait(kPatience).ok());

  express.machine.faults(0).next(FaultPlan::Kind::kFail, 1);
  const ExpressTicket failing =
      express.lane->copy({&one, 1}, device::CopyPriority::kStep, {arrived.get(), 4});
  ASSERT_TRUE(failing);
  EXPECT_FALSE(failing.wait(kPatience).ok());
  EXPECT_EQ(arrived->value(), 3u) << "left to the submitter";
}

TEST(ExpressLane, TicketsThatStayMakeFewMarksMore) {
  Express express;
  std::vector<ExpressTicket> stay;
  for (int i = 0; i < 20; ++i) {
    stay.push_back(express.copy(i));
    ASSERT_TRUE(stay.back().wait(kPatience).ok());
  }
  EXPECT_FALSE(express.lane->idle());
  ASSERT_TRUE(express.copy_and_wait(2'000));
  EXPECT_GE(express.lane->marks(), 21);
  EXPECT_LE(express.lane->marks(), 30);
  stay.clear();
  EXPECT_TRUE(express.lane->idle());
}

TEST(ExpressLane, AMarkThatIsUnderWayIsNotUsedAgainThoughItsTicketIsGone) {
  Express express;
  express.machine.faults(0).next(FaultPlan::Kind::kHang, 1);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(express.copy(i)) << i;
  EXPECT_TRUE(express.lane->idle()) << "no ticket is left";
  EXPECT_GE(express.lane->marks(), 20);
  EXPECT_FALSE(express.arrived(19));
  express.machine.faults(0).release();
  ASSERT_TRUE(express.copy_and_wait(2'000));
  EXPECT_TRUE(express.arrived(19));
  EXPECT_LE(express.lane->marks(), 30);
}

TEST(ExpressLane, AnotherStreamFollowsOneThatFailed) {
  for (const FaultPlan::Kind kind : {FaultPlan::Kind::kFail, FaultPlan::Kind::kRefuse}) {
    Express express;
    express.machine.faults(0).next(kind, 1);
    {
      const ExpressTicket ticket = express.copy();
      EXPECT_EQ(static_cast<bool>(ticket), kind == FaultPlan::Kind::kFail);
      if (ticket) {
        EXPECT_FALSE(ticket.wait(kPatience).ok());
      }
    }
    EXPECT_TRUE(express.copy_and_wait(10));
    EXPECT_LE(express.lane->marks(), 3);
  }
}

TEST(ExpressLane, ManyThreadsLendAndGiveBack) {
  Express express;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<ExpressTicket> own;
      for (int i = 0; i < 300; ++i) {
        own.push_back(express.copy(t * 16 + i % 16));
        if (!own.back() || (i % 3 == 0 && !own.back().wait(kPatience).ok())) ++wrong;
        if (i % 7 == 0) own.clear();
      }
      for (const ExpressTicket& ticket : own) {
        if (!ticket || !ticket.wait(kPatience).ok()) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  for (int piece = 0; piece < kPieces; ++piece) EXPECT_TRUE(express.arrived(piece)) << piece;
  EXPECT_EQ(express.lane->moved(device::CopyPriority::kStep), kBytes * 1'200);
  EXPECT_TRUE(express.lane->idle());
}

}  // namespace
}  // namespace causeway::transfer::express_lane_test
