// The share of its rate that a link gives, over time: all of it, except in spans in which it is
// slow or hangs. Pure.
//
//   share  1 ──────┐        ┌──────
//                  └──┐  ┌──┘            a copy continues where the link left off
//          0          └──┘
#pragma once

#include <map>

#include "base/units.h"

namespace causeway::simulate {

class LinkRates {
 public:
  // Adds a span; `share` is from 0 (the link hangs) to 1. Where spans overlap the least share
  // counts.
  void add(Nanos from, Nanos until, double share);
  // When a copy ends that begins at `begins` and takes `takes` at the whole rate.
  Nanos end_of(Nanos begins, Nanos takes) const;
  // What the link can move in a span, as time at the whole rate.
  Nanos whole_time(Nanos from, Nanos until) const;

 private:
  double share_at(Nanos at) const;

  std::map<Nanos, double> from_;  // the share from then on; 1 before the first entry
};

}  // namespace causeway::simulate
