// A step whose kernels read weights at home while copies cross the same link (C2CServe's
// HybridGEMM on a baseline that loads models): while both want the link each has half of it. Pure.
//
//   copies   ....XXXX..XX           without the read, which begins after two dots
//   read       rrRRRRRRRRrr         as fast as ever where the link is free (r), else half
//   copies   ....xxxxxxxx..xxxx     later by what the read took of the link beside them
#pragma once

#include <span>

#include "base/units.h"

namespace causeway::simulate {

// Of the link by a copy.
struct LinkUse {
  Nanos begin, end;
};

struct HomeRead {
  Nanos end;
  Nanos delays;  // how much later copies end that have not by then
};

// A read that begins `at` and would take `takes` alone. `copies`: one after the other.
HomeRead read_beside(std::span<const LinkUse> copies, Nanos at, Nanos takes);

}  // namespace causeway::simulate
