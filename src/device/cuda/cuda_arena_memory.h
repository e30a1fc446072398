// Memory of a CUDA slice's arena: a reserved range of the GPU's addresses; each extent handed out
// has a physical allocation of its own, which this GPU and all peers that reach it can access.
// Private to device/cuda.
//
//   cuMemCreate ──▶ mapped behind an extent ◀──▶ spare ──▶ cuMemRelease
//
// An allocation whose extent is unmapped becomes a spare, and the next extents take spares first.
// Memory that moves from one model to the next is therefore only mapped again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/arena.h"
#include "device/cuda/cuda_context.h"

namespace causeway::device {

struct CudaArenaSpec {
  std::string name;        // of the slice
  Bytes bytes;             // a multiple of `extent`
  Bytes extent;            // a multiple of 2 MiB
  std::vector<int> peers;  // the GPUs, by ordinal, that may access it beside its own
  Bytes spares_max = {};   // unmapped memory beyond it goes back to the driver
};

// The context must outlive the memory. kResourceExhausted when the addresses cannot be reserved.
Result<std::unique_ptr<ArenaMemory>> reserve_cuda_arena(CudaContext& context, CudaArenaSpec spec);

}  // namespace causeway::device
