// Chooses which models give up their place in host memory, so that another can be loaded. Pure.
#pragma once

#include <set>
#include <vector>

#include "base/units.h"

namespace causeway::fleet {

// Measures how often something happens: a count that decays, so that only the last minutes matter.
class DecayedCount {
 public:
  void add(Nanos now);
  double at(Nanos now) const;
  // The logarithm of the count at `now`, less a term that is the same for all counts. All counts
  // decay alike, so an order by this value stays valid as time passes. -infinity: the count is
  // zero.
  double log_rate() const;
  Nanos last() const { return last_; }  // when it was last increased; 0: never

 private:
  double count_ = 0;  // at last_
  Nanos last_;
};

// A loaded model that has no requests and may be unloaded.
struct UnloadCandidate {
  ModelId model;
  Bytes bytes;      // to load when it is needed again
  double cost = 0;  // log_cost() of that
  Nanos last_used;

  // The model that is cheaper to bring back comes first; among equals the one that is unused for
  // longer.
  bool operator<(const UnloadCandidate& other) const;
};

// The cost of bringing `bytes` back at a request rate of which log_rate() gives the logarithm:
// log(bytes × rate).
double log_cost(Bytes bytes, double log_rate);

struct UnloadChoice {
  std::vector<ModelId> models;  // in the order in which they leave
  Bytes freed;                  // by all of them; less than `wanted`: there are no more candidates
};

// Chooses models until `wanted` bytes are free, the cheapest to bring back first. A model without
// which the others suffice is left out. When all together do not suffice, none is chosen.
UnloadChoice choose_unloads(std::vector<UnloadCandidate> candidates, Bytes wanted);
// The same for candidates that are sorted already; looks at no more of them than needed.
UnloadChoice choose_unloads_in_order(const std::set<UnloadCandidate>& candidates, Bytes wanted);

}  // namespace causeway::fleet
