// A CUDA driver for tests without a GPU: some GPUs whose memory is the host's, streams that are
// threads, and the driver's entry points under their own names. Built twice: as libcuda.so.1 for
// unmodified programs, and into unit tests, which look functions up with fake_symbol().
//
// As the real driver may, it holds a lock during calls. It keeps the lock while cuMemFree waits for
// all streams, and while a copy of pageable memory or within the host waits for its own stream.
// Programs choose its faults by fake_fault(), found by dlsym.
#pragma once

namespace causeway::preload {

// A function of the driver by its symbol; nullptr when the fake has none of that name.
void* fake_symbol(const char* name);

enum class FakeFault : int {
  kNone,
  kCopiesFail,   // copies of streams with the GPU's context, on `gpu`
  kNoMemory,     // on `gpu`
  kNoPeers,      // no GPU reaches another
  kNoStandIns,   // cuStreamBatchMemOp is refused
  kContextDies,  // of `gpu`: nothing of it ever starts again
};

}  // namespace causeway::preload

extern "C" {
// Sets a FakeFault from now on. GPUs have the driver's ordinals.
void fake_fault(int fault, int gpu);
// Called before cuInit(); there are 4 otherwise.
void fake_gpus(int count);
}
