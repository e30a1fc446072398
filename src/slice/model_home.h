// The parts of a process of which there is one: host memory, and in it the pool that is the home of
// all loaded models. Slices borrow both.
#pragma once

#include "base/clock.h"
#include "device/host_memory.h"
#include "weights/model_pool.h"

namespace causeway::slice {

struct ModelHome {
  // `clock` outlives the home; `budget`: of host memory for weights.
  ModelHome(const Clock& clock, Bytes budget) : pool(memory, clock, budget) {}

  device::HostMemory memory;
  weights::ModelPool pool;  // ends first
};

}  // namespace causeway::slice
