// A step whose kernels read weights at home while copies cross the same link (C2CServe's HybridGEMM
// on a baseline that loads models). While both use the link, each has half of it. Pure.
//
//   copies   ....XXXX..XX           alone; the read begins after two dots
//   read       rrRRRRRRRRrr         at full rate while the link is free (r), else at half (R)
//   copies   ....xxxxxxxx..xxxx     beside the read: later by what the read took of the link
#pragma once

#include <span>

#include "base/units.h"
#include "simulate/hardware_profile.h"

namespace causeway::simulate {

// The time during which a copy uses the link.
struct LinkUse {
  Nanos begin, end;
};

struct HomeRead {
  Nanos end;
  Nanos delays;  // how much later the copies end that had not ended before
};

// In bytes a second, while nothing else uses the link.
double home_rate(const HardwareProfile& profile);

// A read that begins at `at` and would take `takes` alone. `copies` follow one after the other.
HomeRead read_beside(std::span<const LinkUse> copies, Nanos at, Nanos takes);

}  // namespace causeway::simulate
