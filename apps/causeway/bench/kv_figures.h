// What `causeway bench kv` reports of its ways to move KV: rates beside the raw limit of the same
// run. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "bench/figure.h"

namespace causeway::bench {

// One way to move KV, over the runs.
struct KvWayRates {
  std::string what;
  std::string model = {};  // whose shape matters to it
  Samples gb_per_s = {};   // both directions summed
  double wanted = 0;       // of the raw limit, at least; 0: nothing is demanded

  void add(Bytes moved, Nanos took);
};

// In GB/s, in the order given; `raw` is the limit's median.
std::vector<Figure> kv_figures(const std::vector<KvWayRates>& ways, double raw);

}  // namespace causeway::bench
