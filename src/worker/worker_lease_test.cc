// Workers that share links, as the book of their leases sees them.
#include <gtest/gtest.h>
#include <signal.h>

#include <utility>

#include "transfer/lease_book.h"
#include "worker/testing/worker_fixture.h"

namespace causeway::worker::worker_lease_test {
namespace {

using testing::send;

// Slow, so that a model of some 150 KB is on its way for most of a second.
constexpr double kLink = 200e3;          // bytes per second, of each worker
constexpr double kSocket = 1.2 * kLink;  // of both together

class WorkerLeaseTest : public testing::WorkerFixture {
 protected:
  void SetUp() override {
    const transfer::LinkShares links(device::make_link_tree({.devices = 2,
                                                             .link = kLink,
                                                             .link_duplex = 2 * kLink,
                                                             .devices_per_switch = 2,
                                                             .switch_link = kSocket}));
    book_ = transfer::LeaseBook::create(links, {0, 1}).value();
    for (int i = 0; i < 2; ++i) {
      WorkerOptions options = this->options(1, {"--link", std::to_string(kLink)});
      options.plan.slices[0].weights = mib(8);
      options.plan.link_least = book_->least(i);
      options.leases = book_.get();
      options.lessee = i;
      workers_.push_back(Worker::start(options, home_, clock_, sink_).value());
    }
    for (std::int64_t id = 0; id < kModels; ++id) ASSERT_TRUE(load(ModelId(id)).ok());
  }
  WorkerSlice& slice(int worker) {
    return *workers_[static_cast<std::size_t>(worker)]->slices()[0];
  }
  // Has a model come to the worker's device, for a request.
  void bring(int worker, std::int64_t model) {
    const auto attached = slice(worker).attach(entry(ModelId(model)), source(), false);
    ASSERT_TRUE(attached.ok()) << attached.error().message;
    asked_.push_back(next_++);
    ASSERT_TRUE(slice(worker).submit(request(asked_.back(), 2, ModelId(model))).ok());
  }
  void bring_all(int worker) {
    for (std::int64_t model = 0; model < kModels; ++model) bring(worker, model);
  }
  // Whether all requests since the last time were.
  bool answered() {
    bool all = true;
    for (const std::int64_t id : std::exchange(asked_, {})) {
      all = all && wait_until([&] { return sink_.of(RequestId(id)).ends > 0; }) &&
            sink_.of(RequestId(id)).end->error.empty();
    }
    return all;
  }
  bool holds(int worker, double from, double to) const {
    const double in = book_->held(worker, clock_.now()).in;
    book_->check_integrity(clock_.now());
    return in >= from && in <= to;
  }
  double least(int worker) const { return book_->least(worker).in; }
  bool rests(int worker) const { return holds(worker, 0, 1.001 * least(worker)); }
  // All but the least of the other.
  bool has_its_link(int worker) const { return holds(worker, 0.95 * kLink, 1.001 * kLink); }

  static constexpr std::int64_t kModels = 4;
  std::unique_ptr<transfer::LeaseBook> book_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::int64_t> asked_;
  std::int64_t next_ = 1;
};

TEST_F(WorkerLeaseTest, SharesFollowWhatIsUnderWay) {
  EXPECT_TRUE(rests(0) && rests(1));
  bring_all(0);
  EXPECT_TRUE(wait_until([&] { return has_its_link(0); }));
  bring_all(1);
  EXPECT_TRUE(wait_until([&] {
    return holds(0, 0.49 * kSocket, 0.52 * kSocket) && holds(1, 0.49 * kSocket, 0.52 * kSocket);
  }));
  EXPECT_TRUE(answered());
  EXPECT_TRUE(wait_until([&] { return rests(0) && rests(1); }));
}

TEST_F(WorkerLeaseTest, WhatAKilledOrHangingWorkerHadIsAnothersWhenItEnds) {
  bring_all(1);
  EXPECT_TRUE(wait_until([&] { return has_its_link(1); }));
  ASSERT_TRUE(send(*workers_[1], SIGKILL));
  EXPECT_TRUE(wait_until([&] { return slice(1).returned(); }));
  asked_.clear();  // lost with it
  bring_all(0);
  EXPECT_TRUE(wait_until([&] { return has_its_link(0) && rests(1); }));
  // The next process leases as the one before it.
  bring(1, 0);
  EXPECT_TRUE(wait_until([&] { return holds(1, 0.49 * kSocket, kLink); }));
  EXPECT_TRUE(answered());
  EXPECT_TRUE(wait_until([&] { return rests(0) && rests(1); }));
  // A worker that says nothing has no lease for long, and the other one all.
  bring(1, 1);
  EXPECT_TRUE(wait_until([&] { return has_its_link(1); }));
  ASSERT_TRUE(send(*workers_[1], SIGSTOP));
  EXPECT_TRUE(wait_until([&] { return rests(1); }));
  ASSERT_TRUE(send(*workers_[1], SIGCONT));
  EXPECT_TRUE(answered());
}

}  // namespace
}  // namespace causeway::worker::worker_lease_test
