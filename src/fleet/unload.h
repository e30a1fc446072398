// Which models give up their place in host memory, so that another can be loaded. Pure.
#pragma once

#include <span>
#include <vector>

#include "base/units.h"

namespace causeway::fleet {

// How often something happens: a count that decays, so that only the last minutes matter.
class DecayedCount {
 public:
  void add(Nanos now);
  double at(Nanos now) const;
  Nanos last() const { return last_; }  // when it was last added to; 0: never

 private:
  double count_ = 0;  // as of last_
  Nanos last_;
};

// A loaded model without requests that may go.
struct UnloadCandidate {
  ModelId model;
  Bytes bytes;      // that loading it again would bring
  double rate = 0;  // of its requests, all candidates' on one scale
  Nanos last_used;
};

struct UnloadChoice {
  std::vector<ModelId> models;  // in the order in which they are to go
  Bytes freed;                  // by all of them; less than what is wanted: there is no more
};

// The cheapest to bring back go first (bytes × rate, then the longest unused), until `wanted` bytes
// are free. None is among them that the others can do without. Not enough in all: none.
UnloadChoice choose_unloads(std::vector<UnloadCandidate> candidates, Bytes wanted);

}  // namespace causeway::fleet
