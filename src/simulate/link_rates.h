// How much of its rate a link gives, over time: all of it, but in spans in which it is slow or
// hangs. Pure.
//
//   share  1 ──────┐        ┌──────
//                  └──┐  ┌──┘            a copy goes on where the link left it
//          0          └──┘
#pragma once

#include <map>

#include "base/units.h"

namespace causeway::simulate {

class LinkRates {
 public:
  // Where spans overlap the least share counts: from 0, it hangs, to 1.
  void add(Nanos from, Nanos until, double share);
  // When a copy ends that begins then and takes so long at the whole rate.
  Nanos end_of(Nanos begins, Nanos takes) const;
  // What the link can do in a span, as time at the whole rate.
  Nanos whole_time(Nanos from, Nanos until) const;

 private:
  double share_at(Nanos at) const;

  std::map<Nanos, double> from_;  // the share from then on; before the first it is 1
};

}  // namespace causeway::simulate
