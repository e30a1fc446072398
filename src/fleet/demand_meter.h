// Measures the demand for a model while it is served: requests per second and their lengths, over
// about the last half minute, with older requests weighing less. The slice opener divides GPUs by
// these values. Pure; not thread-safe.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace causeway::fleet {

struct ModelDemand {
  double rate = 0;    // requests a second
  double prompt = 0;  // mean length, in tokens
  double output = 0;  // mean length of answers that have ended, in tokens
};

class DemandMeter {
 public:
  void arrived(Tokens prompt, Nanos now);
  void ended(Tokens output, Nanos now);
  ModelDemand at(Nanos now) const;

 private:
  void decay(Nanos now);

  // Decayed sums, as of last_.
  double arrivals_ = 0, prompts_ = 0, ends_ = 0, outputs_ = 0;
  Nanos last_;
};

}  // namespace causeway::fleet
