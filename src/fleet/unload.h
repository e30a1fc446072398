// Chooses which models give up their place in host memory, so that another can be loaded. Pure.
#pragma once

#include <set>
#include <vector>

#include "base/units.h"

namespace causeway::fleet {

// How often something happens: a count that decays, so that only the last minutes matter.
class DecayedCount {
 public:
  void add(Nanos now);
  double at(Nanos now) const;
  // The logarithm of at(now), but for a term that is the same for all counts: all decay alike, so
  // that an order by it holds as time passes. -infinity: never.
  double log_rate() const;
  Nanos last() const { return last_; }  // when it was last added to; 0: never

 private:
  double count_ = 0;  // as of last_
  Nanos last_;
};

// A loaded model without requests that may go.
struct UnloadCandidate {
  ModelId model;
  Bytes bytes;      // that loading it again would bring
  double cost = 0;  // of that, log_cost()
  Nanos last_used;

  // Cheaper to bring back, or as cheap and longer unused.
  bool operator<(const UnloadCandidate& other) const;
};

// The cost of bringing `bytes` back as often as log_rate() says: the logarithm of bytes × rate.
double log_cost(Bytes bytes, double log_rate);

struct UnloadChoice {
  std::vector<ModelId> models;  // in the order in which they are to go
  Bytes freed;                  // by all of them; less than what is wanted: there is no more
};

// The cheapest to bring back go first, until `wanted` bytes are free. None is among them that the
// others can do without. Not enough in all: none.
UnloadChoice choose_unloads(std::vector<UnloadCandidate> candidates, Bytes wanted);
// The same for candidates that are in order already: it looks at no more of them than it needs.
UnloadChoice choose_unloads_in_order(const std::set<UnloadCandidate>& candidates, Bytes wanted);

}  // namespace causeway::fleet
