// How much of the links each claim may use (docs/decisions/0012-link-budgets.md): reservations are
// vectors of bytes per second over the resources that machines share between links (each link each
// way, its duplex sum, a socket, peer ports). Weight streaming, rotation, relays and promotion
// reserve here; no module keeps a bandwidth number of its own.
//
// Pure bookkeeping: it slows nothing down by itself. Not thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "device/link_profile.h"

namespace causeway::transfer {

using ReservationId = Id<struct ReservationTag>;

struct ResourceShare {
  int resource = 0;             // index in the profile
  double bytes_per_second = 0;  // ≥ 0, counted by the path's cost
};

class LinkBudget {
 public:
  // A profile that passed check().
  explicit LinkBudget(device::LinkProfile profile);

  // The resources that moving `bytes_per_second` from one end to the other takes, over relays too:
  // the sum of the paths. kUnsupported when there is no such path.
  struct Hop {
    int source = device::kHostEnd;
    int target = device::kHostEnd;
  };
  Result<std::vector<ResourceShare>> shares(const std::vector<Hop>& hops,
                                            double bytes_per_second) const;

  // Reserves all or nothing. kResourceExhausted names the resource that has too little left.
  Result<ReservationId> reserve(const std::vector<ResourceShare>& shares);
  void release(ReservationId reservation);

  // How much of a resource there is from now on: what the profile says at most. Reservations that
  // exist stay.
  void set_capacity(int resource, double bytes_per_second);

  // What could still be reserved.
  double available(int resource) const;
  double reserved(int resource) const;

  const std::vector<device::LinkResource>& resources() const { return profile_.resources; }
  // Σ reservations ≤ capacity on every resource, and the sums agree; a CHECK fails otherwise.
  void check_integrity() const;

 private:
  const device::LinkProfile profile_;
  std::vector<double> capacity_;                                      // by resource
  std::vector<double> reserved_;                                      // by resource
  std::map<ReservationId, std::vector<ResourceShare>> reservations_;  // each resource once
  std::int64_t next_ = 0;
};

}  // namespace causeway::transfer
