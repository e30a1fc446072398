#include "transfer/link_budget.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/dcheck.h"
#include "transfer/transfer.h"

namespace causeway::transfer {
namespace {

// The sum of many reservations differs from its parts by rounding; this is the part of the
// capacity.
constexpr double kRounding = 1e-9;

// One entry a resource.
std::map<int, double> by_resource(const std::vector<ResourceShare>& shares) {
  std::map<int, double> sums;
  for (const ResourceShare& share : shares) sums[share.resource] += share.bytes_per_second;
  return sums;
}

}  // namespace

LinkBudget::LinkBudget(device::LinkProfile profile)
    : profile_(std::move(profile)), reserved_(profile_.resources.size(), 0.0) {
  for (const device::LinkResource& each : profile_.resources) {
    capacity_.push_back(each.bytes_per_second);
  }
}

Result<std::vector<ResourceShare>> LinkBudget::shares(const std::vector<Hop>& hops,
                                                      double bytes_per_second) const {
  std::vector<ResourceShare> shares;
  for (const Hop& hop : hops) {
    const device::LinkPath* path = profile_.find(hop.source, hop.target);
    if (path == nullptr) {
      return unsupported("no path from end " + std::to_string(hop.source) + " to end " +
                         std::to_string(hop.target) + " (-1 is the host)");
    }
    CAUSEWAY_DCHECK(path->costs.empty() || path->costs.size() == path->route.size(),
                    "another number of costs than resources");
    for (std::size_t i = 0; i < path->route.size(); ++i) {
      const double cost = path->costs.empty() ? 1 : path->costs[i];
      shares.push_back({path->route[i], bytes_per_second * cost});
    }
  }
  return shares;
}

Result<ReservationId> LinkBudget::reserve(const std::vector<ResourceShare>& shares) {
  std::vector<ResourceShare> reservation;
  for (const auto& [resource, rate] : by_resource(shares)) {
    CAUSEWAY_CHECK(resource >= 0 && resource < std::ssize(profile_.resources), "no such resource");
    CAUSEWAY_CHECK(std::isfinite(rate) && rate >= 0, "what is reserved is no rate");
    const auto& link = profile_.resources[at(resource)];
    if (rate > available(resource) + kRounding * link.bytes_per_second) {
      return exhausted("link resource '" + link.name + "' has " +
                       std::to_string(available(resource) * 1e-9) + " GB/s left for this, not " +
                       std::to_string(rate * 1e-9));
    }
    reservation.push_back({resource, rate});
  }
  for (const ResourceShare& share : reservation) {
    reserved_[at(share.resource)] += share.bytes_per_second;
  }
  const ReservationId id(next_++);
  reservations_.emplace(id, std::move(reservation));
  return id;
}

void LinkBudget::release(ReservationId id) {
  const auto found = reservations_.find(id);
  CAUSEWAY_CHECK(found != reservations_.end(), "a reservation is released twice");
  for (const ResourceShare& share : found->second) {
    double& sum = reserved_[at(share.resource)];
    sum = std::max(0.0, sum - share.bytes_per_second);
  }
  reservations_.erase(found);
}

void LinkBudget::set_capacity(int resource, double bytes_per_second) {
  CAUSEWAY_CHECK(bytes_per_second >= 0, "a link gives less than nothing");
  const double most = profile_.resources.at(at(resource)).bytes_per_second;
  capacity_[at(resource)] = std::min(most, bytes_per_second);
}

double LinkBudget::available(int resource) const {
  CAUSEWAY_DCHECK(capacity_.at(at(resource)) >= 0, "a link gives less than nothing");
  return std::max(0.0, capacity_.at(at(resource)) - reserved(resource));
}

double LinkBudget::reserved(int resource) const { return reserved_.at(at(resource)); }

void LinkBudget::check_integrity() const {
  std::vector<double> sums(profile_.resources.size(), 0.0);
  for (const auto& [id, reservation] : reservations_) {
    for (const ResourceShare& share : reservation) {
      sums[at(share.resource)] += share.bytes_per_second;
    }
  }
  for (std::size_t r = 0; r < sums.size(); ++r) {
    const double slack = 1e-6 * profile_.resources[r].bytes_per_second;
    CAUSEWAY_CHECK(std::abs(sums[r] - reserved_[r]) <= slack, "reservations miscounted");
    CAUSEWAY_CHECK(reserved_[r] <= capacity_[r] + slack, "more reserved than there is");
  }
}

}  // namespace causeway::transfer
