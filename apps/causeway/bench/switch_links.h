// What the links of a slice give together, for rows of `causeway bench switch`: sets of links, each
// forced upon the slice's own engine.
#pragma once

#include "base/clock.h"
#include "bench/figure.h"
#include "slice/slice.h"
#include "transfer/transfer.h"

namespace causeway::bench {

struct BestLinks {
  int links = 1;          // of the slice
  transfer::LinkSet set;  // of them, the best
  double rate = 0;        // of that set, bytes per second
};

struct BestLinksWanted {
  device::HostAddress home;  // of memory to copy from
  Bytes bytes;               // of one transfer
  std::int64_t rounds = 5;
};

// Every set of up to four links; of more, sets grown from the own link one at a time while it pays,
// and all. kResourceExhausted without memory of the device for `bytes`.
Result<BestLinks> measure_best_links(slice::Slice& slice, const BestLinksWanted& wanted,
                                     const Clock& clock);

// `first`: the figure of first tokens of models that come from home. Its limit over several links.
Figure over_best_links(Figure first, const BestLinks& best, Bytes crossing);

}  // namespace causeway::bench
