// A process's one book of bandwidth: a LinkBudget that divides what the links have among those that
// move bytes over them at the same time. Each client holds a claim, begins it when copies are under
// way and ends it after; whenever one does, the links are divided anew and the budget's
// reservations follow.
//
//   claims that have begun ──▶ by purpose, the most urgent first ──▶ every link of a claim gets as
//   much as any other's, until a resource that it crosses is used up or it has the most it can use
//
// The book says what to expect, and does not slow anything down: a claim that was granted nothing
// may still copy.
//
// Thread-safe; its lock is a leaf. Claims must go before it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "transfer/link_budget.h"
#include "transfer/link_lease.h"
#include "transfer/transfer.h"

namespace causeway::transfer {

// One direction of a client's bytes over one link: what a byte takes of each resource, and how many
// bytes a second it can use.
struct LinkRoute {
  std::vector<ResourceShare> per_byte;
  double rate_max = 0;
};

class LinkClaim;

class LinkShares {
 public:
  // A profile that passed check().
  explicit LinkShares(device::LinkProfile profile);
  ~LinkShares();
  LinkShares(const LinkShares&) = delete;
  LinkShares& operator=(const LinkShares&) = delete;

  // Between host memory and a GPU over the links of several GPUs, numbered as in the profile, with
  // one route for each link. `rate_max` bounds all of them together; 0: what each gives alone.
  // kUnsupported when a link has no path to or from the target.
  struct RoutesWanted {
    int target = 0;  // the GPU, whichever way the bytes go
    LinkSet links;
    double rate_max = 0;
  };
  Result<std::vector<LinkRoute>> routes_in(const RoutesWanted& wanted) const {
    return routes(Direction::kIn, wanted);
  }
  Result<std::vector<LinkRoute>> routes_out(const RoutesWanted& wanted) const {
    return routes(Direction::kOut, wanted);
  }

  std::unique_ptr<LinkClaim> claim(device::CopyPriority purpose, std::vector<LinkRoute> routes);

  // What the claims that have begun could use of a resource, if nothing else limited them.
  RatesByPurpose wanted(int resource) const;
  // How much of a resource there is to divide from now on: what the profile says at most. What a
  // route can use stays as it was.
  void set_capacity(int resource, double bytes_per_second);

  double reserved(int resource) const;
  std::vector<device::LinkResource> resources() const;
  // Checks the budget, and that its reservations are what claims were granted; a CHECK fails
  // otherwise.
  void check_integrity() const;

 private:
  friend class LinkClaim;
  Result<std::vector<LinkRoute>> routes(Direction direction, const RoutesWanted& wanted) const;
  void set_begun(LinkClaim& claim, bool begun);
  void remove(LinkClaim& claim);
  // With mutex_ held.
  void divide();
  void grant(const std::vector<LinkClaim*>& begun);
  void reserve(const std::vector<LinkClaim*>& begun, device::CopyPriority purpose);

  mutable std::mutex mutex_;  // guards what follows, and what claims keep for it
  LinkBudget budget_;
  std::vector<LinkClaim*> claims_;
};

class LinkClaim {
 public:
  // By LinkShares::claim().
  LinkClaim(LinkShares& shares, device::CopyPriority purpose, std::vector<LinkRoute> routes)
      : shares_(shares), purpose_(purpose), routes_(std::move(routes)) {}
  ~LinkClaim() { shares_.remove(*this); }
  LinkClaim(const LinkClaim&) = delete;
  LinkClaim& operator=(const LinkClaim&) = delete;

  // begin(): copies are under way; end(): they are not. Neither has an effect the second time.
  void begin() { shares_.set_begun(*this, true); }
  void end() { shares_.set_begun(*this, false); }
  // The bytes per second that are granted now, or would be if the claim began now; 0: nothing is
  // left. Takes no lock.
  double rate() const { return rate_.load(std::memory_order_relaxed); }

 private:
  friend class LinkShares;
  LinkShares& shares_;
  const device::CopyPriority purpose_;
  const std::vector<LinkRoute> routes_;
  std::atomic<double> rate_{0};
  // Set by LinkShares, under its lock.
  bool begun_ = false;
  // The rate in the last division that the claim took part in.
  double granted_ = 0;
  std::vector<ResourceShare> taken_;
  ReservationId reservation_;
};

// What each route gets of resources with `left` bytes per second. Max-min fair.
std::vector<double> fair_rates(std::vector<double> left,
                               const std::vector<const LinkRoute*>& routes);

}  // namespace causeway::transfer
