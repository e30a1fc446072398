#include "transfer/lease_book.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <utility>

#include "base/random.h"
#include "base/testing/rounds.h"
#include "transfer/testing/machines.h"

namespace causeway::transfer::lease_book_test {
namespace {

using device::CopyPriority;

constexpr double kOneLink = 50e9;

// Two instances of one GPU: a link of 50 GB/s each way, 90 both ways.
std::unique_ptr<LeaseBook> two_on_one_link() {
  const LinkShares links(device::make_link_tree({.link = kOneLink, .link_duplex = 90e9}));
  return LeaseBook::create(links, {0, 0}).value();
}

LinkAsk ask_at(Nanos at, double weights, std::int64_t applied = 0) {
  LinkAsk ask{.at = at, .applied = applied, .wants = {}};
  ask.wants.in[static_cast<std::size_t>(CopyPriority::kWeightsAhead)] = weights;
  return ask;
}

TEST(LeaseBook, KnowsWhetherAnythingIsShared) {
  EXPECT_TRUE(two_on_one_link()->shared());
  const LinkShares apart(device::make_link_tree({.devices = 2}));
  EXPECT_FALSE(LeaseBook::create(apart, {0, 1}).value()->shared());
  EXPECT_FALSE(LeaseBook::create(apart, {0}).value()->shared());
  const LinkShares socket(
      device::make_link_tree({.devices = 2, .devices_per_switch = 2, .switch_link = 60e9}));
  EXPECT_TRUE(LeaseBook::create(socket, {0, 1}).value()->shared());
  EXPECT_EQ(LeaseBook::create(apart, {0, 5}).error().code, ErrorCode::kUnsupported);
}

TEST(LeaseBook, TheLeastOfAllIsATenth) {
  const auto book = two_on_one_link();
  for (int member = 0; member < 2; ++member) {
    EXPECT_NEAR(book->least(member).in, 0.05 * 45e9, 1);  // a quarter of both ways
    EXPECT_NEAR(book->least(member).out, 0.05 * 45e9, 1);
    EXPECT_EQ(book->held(member, Nanos(0)).in, book->least(member).in);
  }
  book->check_integrity(Nanos(0));
}

TEST(LeaseBook, OneThatCopiesAloneGetsAllButTheLeastOfOthers) {
  const auto book = two_on_one_link();
  EXPECT_FALSE(book->take(0, Nanos(0)));  // it has not asked
  ASSERT_TRUE(book->ask(0, ask_at(seconds(7), kOneLink), millis(1)).ok());
  const auto lease = book->take(0, millis(1));
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->number, 1);
  EXPECT_EQ(lease->asked, seconds(7));
  EXPECT_NEAR(lease->share.in, kOneLink - book->least(1).in, 1);
  EXPECT_EQ(lease->share.out, book->least(0).out);
  EXPECT_FALSE(book->take(0, millis(2)));  // nothing is new
  book->check_integrity(millis(2));
}

// One that has nothing under way is offered what it would get; that is leased to none.
TEST(LeaseBook, AnOfferIsWhatOneWouldGet) {
  const auto book = two_on_one_link();
  ASSERT_TRUE(book->ask(0, ask_at(millis(1), 0), millis(1)).ok());
  const auto alone = book->take(0, millis(1));
  EXPECT_NEAR(alone->offer.in, kOneLink - book->least(1).in, 1);
  EXPECT_EQ(alone->share.in, book->least(0).in);
  ASSERT_TRUE(book->ask(1, ask_at(millis(2), kOneLink), millis(2)).ok());
  ASSERT_TRUE(book->take(1, millis(2)));
  ASSERT_TRUE(book->ask(0, ask_at(millis(3), 0), millis(3)).ok());
  const auto beside = book->take(0, millis(3));
  ASSERT_TRUE(beside);
  EXPECT_NEAR(beside->offer.in, kOneLink / 2, 1);
  EXPECT_EQ(beside->share.in, book->least(0).in);
}

TEST(LeaseBook, AShareGrowsWhenTheOthersHasShrunk) {
  const auto book = two_on_one_link();
  ASSERT_TRUE(book->ask(0, ask_at(millis(1), kOneLink), millis(1)).ok());
  ASSERT_TRUE(book->take(0, millis(1)));
  ASSERT_TRUE(book->ask(1, ask_at(millis(2), kOneLink), millis(2)).ok());
  EXPECT_NEAR(book->take(1, millis(2))->share.in, book->least(1).in, 1);
  const auto shrunk = book->take(0, millis(3));
  ASSERT_TRUE(shrunk);
  EXPECT_NEAR(shrunk->share.in, kOneLink / 2, 1);
  EXPECT_FALSE(book->take(1, millis(4)));  // it may not have arrived
  ASSERT_TRUE(book->ask(0, ask_at(millis(5), kOneLink, shrunk->number), millis(5)).ok());
  EXPECT_NEAR(book->take(1, millis(6))->share.in, kOneLink / 2, 1);
  book->check_integrity(millis(6));
}

TEST(LeaseBook, WhatAProcessThatIsGoneHadIsFreeWhenItEnds) {
  const auto book = two_on_one_link();
  ASSERT_TRUE(book->ask(0, ask_at(millis(1), kOneLink), millis(1)).ok());
  ASSERT_TRUE(book->take(0, millis(1)));
  book->forget(0);
  EXPECT_FALSE(book->take(0, millis(2)));
  ASSERT_TRUE(book->ask(1, ask_at(millis(2), kOneLink), millis(2)).ok());
  EXPECT_NEAR(book->take(1, millis(2))->share.in, book->least(1).in, 1);
  const Nanos later = millis(1) + kLeaseLength;
  ASSERT_TRUE(book->ask(1, ask_at(later, kOneLink), later).ok());
  // Its clock may be slower.
  EXPECT_NEAR(book->take(1, later)->share.in, book->least(1).in, 1);
  const Nanos ended = later + kLeaseLength / 8;
  EXPECT_NEAR(book->take(1, ended)->share.in, kOneLink - book->least(0).in, 1);
}

TEST(LeaseBook, TheMostUrgentPurposeComesFirst) {
  const auto book = two_on_one_link();
  LinkAsk kv{.at = millis(1), .applied = 0, .wants = {}};
  kv.wants.in[static_cast<std::size_t>(CopyPriority::kKvIn)] = 30e9;
  ASSERT_TRUE(book->ask(0, kv, millis(1)).ok());
  ASSERT_TRUE(book->ask(1, ask_at(millis(1), kOneLink), millis(1)).ok());
  EXPECT_NEAR(book->take(0, millis(1))->share.in, 30e9, 1);
  EXPECT_NEAR(book->take(1, millis(1))->share.in, kOneLink - 30e9, 1);
}

TEST(LeaseBook, WhatMakesNoSenseIsRefused) {
  const auto book = two_on_one_link();
  const auto code = [&](const LinkAsk& bad) { return book->ask(0, bad, Nanos(0)).error().code; };
  EXPECT_EQ(code(ask_at(Nanos(0), -1)), ErrorCode::kCorrupt);
  EXPECT_EQ(code(ask_at(Nanos(0), std::nan(""))), ErrorCode::kCorrupt);
  EXPECT_EQ(code(ask_at(Nanos(0), std::numeric_limits<double>::infinity())), ErrorCode::kCorrupt);
  EXPECT_EQ(code(ask_at(Nanos(0), 0, 1)), ErrorCode::kCorrupt);  // never sent
  EXPECT_EQ(code(ask_at(Nanos(0), 0, -1)), ErrorCode::kCorrupt);
  EXPECT_FALSE(book->take(0, Nanos(0)));
  ASSERT_TRUE(book->ask(0, ask_at(Nanos(0), 1e300), Nanos(0)).ok());
  EXPECT_LT(book->take(0, Nanos(0))->share.in, kOneLink);
}

// A worker whose clock is shifted and runs up to 5 % too fast or too slow, and the way of messages
// to it and from it, which may take long.
struct Lessee {
  std::optional<HeldLease> lease;  // none: it is dead
  LinkWants wants;
  double speed = 1;
  Nanos shift;
  Nanos hangs_until;
  std::deque<std::pair<Nanos, LinkAsk>> asks;
  std::deque<std::pair<Nanos, LinkLease>> leases;

  Nanos clock(Nanos now) const { return shift + nanos_from_seconds(to_seconds(now) * speed); }
};

class History {
 public:
  History(std::uint64_t seed, int members)
      : random_(seed), links_(testing::eight_h200()), lessees_(static_cast<std::size_t>(members)) {
    // Two on one link at least, and all behind the same socket or another.
    for (int i = 0; i < members; ++i) {
      const int gpu = i == 1 ? gpus_[0] : static_cast<int>(random_.below(8));
      const LinkShares::RoutesWanted own{.target = gpu, .links = LinkSet::of(gpu)};
      gpus_.push_back(gpu);
      ways_.push_back({links_.routes_in(own)->front(), links_.routes_out(own)->front()});
    }
    for (const auto& resource : links_.resources())
      capacities_.push_back(resource.bytes_per_second);
    book_ = LeaseBook::create(links_, gpus_).value();
    for (int i = 0; i < members; ++i) start(i);
  }

  void step(bool calm) {
    now_ += micros(random_.between(1, 20'000));
    for (int i = 0; i < std::ssize(lessees_); ++i) {
      if (!calm) disturb(i);
      deliver(i, calm);
      check();
    }
  }
  // Everything is alive, and wants all that it can use.
  void settle() {
    for (int i = 0; i < std::ssize(lessees_); ++i) {
      if (!lessee(i).lease) start(i);
      lessee(i).hangs_until = Nanos(0);
      want(i, 1);
    }
    for (const Nanos until = now_ + seconds(3); now_ < until;) step(true);
  }
  LinkRates share(int i) const { return lessee(i).lease->share(lessee(i).clock(now_)); }
  // What of the busiest resource all leases take.
  double busiest() const {
    const std::vector<double> used = this->used();
    double most = 0;
    for (std::size_t r = 0; r < used.size(); ++r) most = std::max(most, used[r] / capacities_[r]);
    return most;
  }
  std::int64_t over_least() const { return over_least_; }

 private:
  Lessee& lessee(int i) { return lessees_[at(i)]; }
  const Lessee& lessee(int i) const { return lessees_[at(i)]; }
  // How late a message comes.
  Nanos lateness(bool calm) {
    if (calm) return micros(200);
    return random_.chance(0.1) ? millis(random_.between(0, 900))
                               : micros(random_.between(50, 3000));
  }

  void start(int i) {
    Lessee& one = lessee(i);
    one = {};
    one.speed = 0.95 + 0.1 * random_.uniform();
    one.shift = seconds(random_.between(1, 1000));
    one.lease.emplace(book_->least(i), one.clock(now_));
  }
  void want(int i, double part) {
    const auto purpose = static_cast<std::size_t>(random_.below(device::kCopyPriorities));
    Lessee& one = lessee(i);
    if (random_.chance(0.5)) one.wants.in[purpose] = part * 60e9;
    if (random_.chance(0.5)) one.wants.out[purpose] = part * 60e9;
    if (part == 1) one.wants.in[0] = one.wants.out[0] = 60e9;
  }
  void disturb(int i) {
    Lessee& one = lessee(i);
    if (!one.lease) {
      if (random_.chance(0.02)) start(i);
      return;
    }
    if (random_.chance(0.05)) want(i, random_.chance(0.5) ? 0 : random_.uniform());
    if (random_.chance(0.01)) one.hangs_until = now_ + millis(random_.between(1, 1500));
    if (random_.chance(0.01)) {
      one = {};
      book_->forget(i);
    }
  }
  void deliver(int i, bool calm) {
    Lessee& one = lessee(i);
    while (!one.asks.empty() && one.asks.front().first <= now_) {
      EXPECT_TRUE(book_->ask(i, one.asks.front().second, now_).ok());
      one.asks.pop_front();
    }
    if (const auto lease = book_->take(i, now_)) send(one.leases, *lease, lateness(calm));
    if (!one.lease || one.hangs_until > now_) return;
    const Nanos clock = one.clock(now_);
    while (!one.leases.empty() && one.leases.front().first <= now_) {
      EXPECT_TRUE(one.lease->take(one.leases.front().second, clock).ok());
      one.leases.pop_front();
    }
    if (const auto ask = one.lease->ask(one.wants, clock)) send(one.asks, *ask, lateness(calm));
  }
  template <typename What>
  void send(std::deque<std::pair<Nanos, What>>& way, const What& what, Nanos takes) {
    const Nanos arrives = now_ + takes;
    way.emplace_back(way.empty() ? arrives : std::max(arrives, way.back().first), what);
  }
  // What processes that are there count on, of every resource.
  std::vector<double> used() const {
    std::vector<double> used(capacities_.size(), 0);
    for (int i = 0; i < std::ssize(lessees_); ++i) {
      if (!lessee(i).lease) continue;
      const auto count = [&used](const LinkRoute& route, double rate) {
        for (const ResourceShare& share : route.per_byte) {
          used[at(share.resource)] += share.bytes_per_second * rate;
        }
      };
      count(ways_[at(i)].in, share(i).in);
      count(ways_[at(i)].out, share(i).out);
    }
    return used;
  }
  void check() {
    book_->check_integrity(now_);
    const std::vector<double> used = this->used();
    for (std::size_t r = 0; r < used.size(); ++r) ASSERT_LE(used[r], capacities_[r] * (1 + 1e-6));
    for (int i = 0; i < std::ssize(lessees_); ++i) {
      if (!lessee(i).lease) continue;
      ASSERT_GE(share(i).in, book_->least(i).in);
      ASSERT_GE(share(i).out, book_->least(i).out);
      if (share(i).in > 2 * book_->least(i).in) ++over_least_;
    }
  }

  Random random_;
  LinkShares links_;
  std::vector<Lessee> lessees_;
  std::vector<int> gpus_;
  std::vector<LeaseBook::Ways> ways_;
  std::vector<double> capacities_;
  std::unique_ptr<LeaseBook> book_;
  Nanos now_ = seconds(1);
  std::int64_t over_least_ = 0;
};

// Whatever dies, hangs, comes back or is late, what processes count on is never more than there is;
// and once nothing disturbs them, all of it is in use.
TEST(LeaseBook, RandomHistoriesNeverLeaseMoreThanThereIs) {
  std::int64_t over_least = 0;
  for (int seed = 0; seed < rounds(200); ++seed) {
    SCOPED_TRACE(seed);
    History history(static_cast<std::uint64_t>(seed), 2 + seed % 7);
    for (int step = 0; step < 400 && !::testing::Test::HasFatalFailure(); ++step) {
      history.step(false);
    }
    over_least += history.over_least();
    history.settle();
    EXPECT_GT(history.busiest(), 0.95);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(over_least, 1000);
}

}  // namespace
}  // namespace causeway::transfer::lease_book_test
