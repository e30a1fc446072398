// Measures what is asked of a model while it is served: requests a second and their lengths, over
// the last half a minute or so; older requests count ever less. The slice opener divides GPUs by
// it. Pure; not thread-safe.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace causeway::fleet {

struct ModelDemand {
  double rate = 0;    // requests a second
  double prompt = 0;  // tokens of one, mean
  double output = 0;  // likewise, of those that have ended
};

class DemandMeter {
 public:
  void arrived(Tokens prompt, Nanos now);
  void ended(Tokens output, Nanos now);
  ModelDemand at(Nanos now) const;

 private:
  void decay(Nanos now);

  // Sums as they were at last_.
  double arrivals_ = 0, prompts_ = 0, ends_ = 0, outputs_ = 0;
  Nanos last_;
};

}  // namespace causeway::fleet
