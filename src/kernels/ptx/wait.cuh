// The end of the waits in a kernel's own code, in release builds too.
//
// What never comes is a bug of the protocol, or a CTA that got no SM. Then the kernel traps, and
// the GPU is reported lost (device/device.h) instead of hanging for ever. Hardware's own barriers
// (of a CTA, a warpgroup, a cluster; griddepcontrol.wait) know no such end: a thread that comes to
// them late is in a wait of this kind.
#pragma once

#include <cstdint>

#include "kernels/ptx/device.cuh"

// For a build whose kernels a tool makes slower than this: -DCAUSEWAY_WAIT_SECONDS=600.
#ifndef CAUSEWAY_WAIT_SECONDS
#define CAUSEWAY_WAIT_SECONDS 20
#endif

namespace causeway::kernels::ptx {

// The GPU's clock, in ticks of 2^32 ns (4.3 s): one register.
CAUSEWAY_DEVICE uint32_t wait_ticks() {
  uint32_t ticks;
  asm volatile("mov.u32 %0, %%globaltimer_hi;" : "=r"(ticks));
  return ticks;
}

// A wait gets its seconds, and up to two ticks more.
constexpr uint32_t kWaitTicks =
    static_cast<uint32_t>((uint64_t{CAUSEWAY_WAIT_SECONDS} * 1'000'000'000 >> 32) + 1);

// The bound of one wait, whose loop calls check() whenever a try has failed.
template <uint32_t kTicks = kWaitTicks>
struct WaitBound {
  uint32_t begin = wait_ticks();

  // In one piece: with __trap() behind a branch of C++ there is more code, and more registers.
  CAUSEWAY_DEVICE void check() const {
    asm volatile(
        "{\n.reg .pred late;\n.reg .u32 ticks;\n"
        "mov.u32 ticks, %%globaltimer_hi;\n"
        "sub.u32 ticks, ticks, %0;\n"
        "setp.gt.u32 late, ticks, %1;\n"
        "@late trap;\n}" ::"r"(begin),
        "n"(kTicks)
        : "memory");
  }
};

// Returns once `done()` is true. A first try that succeeds reads no clock.
template <uint32_t kTicks = kWaitTicks, typename Done>
CAUSEWAY_DEVICE void wait_until(const Done& done) {
  if (done()) return;
  const WaitBound<kTicks> bound;
  do {
    bound.check();
  } while (!done());
}

}  // namespace causeway::kernels::ptx
