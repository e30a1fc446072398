// Programmatic dependent launch, as a kernel sees it, and the ids of a thread.
#pragma once

#include <cstdint>

#include "kernels/ptx/device.cuh"

namespace causeway::kernels::ptx {

// Everything that the kernels in front wrote is visible from here on, and what they read may be
// overwritten.
CAUSEWAY_DEVICE void dependency_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// The next kernel may be placed on the SMs once every CTA of this one has said so (or ended).
CAUSEWAY_DEVICE void dependents_launch() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// True in one lane of the warp, all of which call this. Chosen so, the compiler knows that it is
// one, and issues its copies without a loop over lanes.
CAUSEWAY_DEVICE bool elect_one() {
  uint32_t chosen;
  asm volatile(
      "{\n.reg .pred p;\n"
      "elect.sync _|p, 0xFFFFFFFF;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(chosen));
  return chosen != 0;
}

template <int kRegisters>
CAUSEWAY_DEVICE void registers_give() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
CAUSEWAY_DEVICE void registers_take() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace causeway::kernels::ptx
