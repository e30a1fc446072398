#include "transfer/link_shares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/dcheck.h"
#include "transfer/transfer.h"

namespace causeway::transfer {
namespace {

using device::CopyPriority;
using device::kCopyPriorities;
using device::kHostEnd;

// Share of a rate or a capacity below which it counts as nothing.
constexpr double kNothing = 1e-9;

// Routes whose rate still grows, all at the same pace.
class Filling {
 public:
  Filling(std::vector<double> left, const std::vector<const LinkRoute*>& routes)
      : left_(std::move(left)), capacity_(left_), routes_(routes), rates_(routes.size(), 0) {
    grows_.assign(routes.size(), true);
    for (std::size_t i = 0; i < routes.size(); ++i) freeze_if_full(i);
  }

  bool grow() {
    const double step = most();
    if (step == std::numeric_limits<double>::infinity()) return false;
    for (std::size_t i = 0; i < routes_.size(); ++i) {
      if (!grows_[i]) continue;
      CAUSEWAY_DCHECK(step >= 0 && std::isfinite(step), "rates that fall");
      rates_[i] += step;
      for (const ResourceShare& share : routes_[i]->per_byte) {
        double& left = left_[at(share.resource)];
        left = std::max(0.0, left - step * share.bytes_per_second);
      }
    }
    for (std::size_t i = 0; i < routes_.size(); ++i) freeze_if_full(i);
    return true;
  }
  const std::vector<double>& rates() const { return rates_; }

 private:
  double most() const {
    double step = std::numeric_limits<double>::infinity();
    std::vector<double> taken(left_.size(), 0);  // by a byte of each route that grows
    for (std::size_t i = 0; i < routes_.size(); ++i) {
      if (!grows_[i]) continue;
      step = std::min(step, routes_[i]->rate_max - rates_[i]);
      for (const ResourceShare& share : routes_[i]->per_byte) {
        taken[at(share.resource)] += share.bytes_per_second;
      }
    }
    for (std::size_t r = 0; r < left_.size(); ++r) {
      if (taken[r] > 0) step = std::min(step, left_[r] / taken[r]);
    }
    CAUSEWAY_DCHECK(step >= 0, "rates that fall");
    return step;
  }

  void freeze_if_full(std::size_t i) {
    bool full = routes_[i]->rate_max - rates_[i] <= kNothing * routes_[i]->rate_max;
    for (const ResourceShare& share : routes_[i]->per_byte) {
      const std::size_t r = at(share.resource);
      full = full || (share.bytes_per_second > 0 && left_[r] <= kNothing * capacity_[r]);
    }
    if (full) grows_[i] = false;
  }

  std::vector<double> left_;
  const std::vector<double> capacity_;
  const std::vector<const LinkRoute*>& routes_;
  std::vector<double> rates_;
  std::vector<bool> grows_;
};

}  // namespace

// Every step freezes at least one route.
std::vector<double> fair_rates(std::vector<double> left,
                               const std::vector<const LinkRoute*>& routes) {
  CAUSEWAY_DCHECK(std::all_of(left.begin(), left.end(), [](double rate) { return rate >= 0; }),
                  "a resource has less than nothing left");
  Filling filling(std::move(left), routes);
  for (std::size_t i = 0; i < routes.size() && filling.grow(); ++i) {
  }
  return filling.rates();
}

LinkShares::LinkShares(device::LinkProfile profile) : budget_(std::move(profile)) {}

LinkShares::~LinkShares() { CAUSEWAY_CHECK(claims_.empty(), "claims outlive their links"); }

Result<std::vector<LinkRoute>> LinkShares::routes(Direction direction,
                                                  const RoutesWanted& wanted) const {
  const std::lock_guard lock(mutex_);
  std::vector<LinkRoute> routes;
  double sum = 0;
  for (int link = 0; link < kLinksMax; ++link) {
    if (!wanted.links.has(link)) continue;
    std::vector<LinkBudget::Hop> hops = {{kHostEnd, link}};
    if (link != wanted.target) hops.push_back({link, wanted.target});
    if (direction == Direction::kOut) {
      for (LinkBudget::Hop& hop : hops) std::swap(hop.source, hop.target);
    }
    LinkRoute route{.per_byte = {}, .rate_max = std::numeric_limits<double>::infinity()};
    CAUSEWAY_ASSIGN(route.per_byte, budget_.shares(hops, 1));
    // What the link gives alone, by the path's resources and not by what others leave.
    for (const ResourceShare& share : route.per_byte) {
      const double capacity = budget_.resources()[at(share.resource)].bytes_per_second;
      route.rate_max = std::min(route.rate_max, capacity / share.bytes_per_second);
    }
    sum += route.rate_max;
    routes.push_back(std::move(route));
  }
  if (wanted.rate_max > 0 && wanted.rate_max < sum) {
    for (LinkRoute& route : routes) route.rate_max *= wanted.rate_max / sum;
  }
  return routes;
}

std::unique_ptr<LinkClaim> LinkShares::claim(CopyPriority purpose, std::vector<LinkRoute> routes) {
  auto made = std::make_unique<LinkClaim>(*this, purpose, std::move(routes));
  const std::lock_guard lock(mutex_);
  claims_.push_back(made.get());
  divide();
  return made;
}

void LinkShares::set_begun(LinkClaim& claim, bool begun) {
  const std::lock_guard lock(mutex_);
  if (claim.begun_ == begun) return;
  claim.begun_ = begun;
  divide();
}

void LinkShares::remove(LinkClaim& claim) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find(claims_.begin(), claims_.end(), &claim);
  CAUSEWAY_CHECK(found != claims_.end(), "a claim goes twice");
  if (claim.reservation_.valid()) budget_.release(claim.reservation_);
  claims_.erase(found);
  divide();
}

// Claims that have not begun are tried one by one, as if they had. The last division is the one
// that holds.
void LinkShares::divide() {
  std::vector<LinkClaim*> begun;
  for (LinkClaim* claim : claims_) {
    if (claim->begun_) begun.push_back(claim);
  }
  for (LinkClaim* claim : claims_) {
    if (claim->begun_) continue;
    begun.push_back(claim);
    grant(begun);
    begun.pop_back();
    claim->rate_.store(claim->granted_, std::memory_order_relaxed);
  }
  grant(begun);
  for (LinkClaim* claim : begun) {
    claim->rate_.store(claim->granted_, std::memory_order_relaxed);
  }
}

void LinkShares::grant(const std::vector<LinkClaim*>& begun) {
  for (LinkClaim* claim : claims_) {
    if (claim->reservation_.valid()) budget_.release(claim->reservation_);
    claim->reservation_ = ReservationId();
  }
  for (int p = 0; p < kCopyPriorities; ++p) {
    const auto purpose = static_cast<CopyPriority>(p);
    std::vector<LinkClaim*> owners;  // beside their routes
    std::vector<const LinkRoute*> routes;
    for (LinkClaim* claim : begun) {
      if (claim->purpose_ != purpose) continue;
      claim->granted_ = 0;
      claim->taken_.clear();
      for (const LinkRoute& route : claim->routes_) {
        owners.push_back(claim);
        routes.push_back(&route);
      }
    }
    std::vector<double> left;
    for (int r = 0; r < std::ssize(budget_.resources()); ++r) {
      left.push_back(budget_.available(r));
    }
    const std::vector<double> rates = fair_rates(std::move(left), routes);
    CAUSEWAY_DCHECK(rates.size() == routes.size() && owners.size() == routes.size(),
                    "another number of rates than routes");
    for (std::size_t i = 0; i < routes.size(); ++i) {
      owners[i]->granted_ += rates[i];
      for (const ResourceShare& share : routes[i]->per_byte) {
        owners[i]->taken_.push_back({share.resource, share.bytes_per_second * rates[i]});
      }
    }
    reserve(begun, purpose);
  }
}

void LinkShares::reserve(const std::vector<LinkClaim*>& begun, CopyPriority purpose) {
  for (LinkClaim* claim : begun) {
    if (claim->purpose_ != purpose) continue;
    const auto reserved = budget_.reserve(claim->taken_);
    CAUSEWAY_CHECK(reserved.ok(), "more is granted than the links have");
    claim->reservation_ = *reserved;
  }
}

RatesByPurpose LinkShares::wanted(int resource) const {
  const std::lock_guard lock(mutex_);
  CAUSEWAY_CHECK(resource >= 0 && resource < std::ssize(budget_.resources()), "no such resource");
  RatesByPurpose wanted = {};
  for (const LinkClaim* claim : claims_) {
    if (!claim->begun_) continue;
    double& sum = wanted[static_cast<std::size_t>(claim->purpose_)];
    for (const LinkRoute& route : claim->routes_) {
      for (const ResourceShare& share : route.per_byte) {
        if (share.resource == resource) sum += share.bytes_per_second * route.rate_max;
      }
    }
  }
  return wanted;
}

// Every claim is granted anew, so that what was reserved fits again.
void LinkShares::set_capacity(int resource, double bytes_per_second) {
  const std::lock_guard lock(mutex_);
  budget_.set_capacity(resource, bytes_per_second);
  divide();
}

double LinkShares::reserved(int resource) const {
  const std::lock_guard lock(mutex_);
  return budget_.reserved(resource);
}

std::vector<device::LinkResource> LinkShares::resources() const {
  const std::lock_guard lock(mutex_);
  return budget_.resources();
}

void LinkShares::check_integrity() const {
  const std::lock_guard lock(mutex_);
  budget_.check_integrity();
  std::vector<double> sums(budget_.resources().size(), 0);
  for (const LinkClaim* claim : claims_) {
    CAUSEWAY_CHECK(claim->begun_ == claim->reservation_.valid(),
                   "a claim that copies has reserved");
    if (!claim->begun_) continue;
    for (const ResourceShare& share : claim->taken_) {
      sums[at(share.resource)] += share.bytes_per_second;
    }
  }
  for (std::size_t r = 0; r < sums.size(); ++r) {
    const double capacity = budget_.resources()[r].bytes_per_second;
    CAUSEWAY_CHECK(std::abs(sums[r] - budget_.reserved(static_cast<int>(r))) <= 1e-6 * capacity,
                   "what is reserved is not what was granted");
  }
}

}  // namespace causeway::transfer
