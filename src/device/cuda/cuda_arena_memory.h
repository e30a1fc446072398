// Memory of a CUDA slice's arena: a reserved range of the GPU's addresses; each extent handed out
// has a physical allocation of its own, which this GPU and all peers that reach it can access.
// Private to device/cuda.
#pragma once

#include <memory>

#include "device/arena.h"
#include "device/cuda/cuda_context.h"

namespace causeway::device {

// `bytes` is a multiple of `extent`. The context must outlive the memory. `peers` are the GPUs, by
// ordinal, that may access it beside its own. kResourceExhausted when the addresses cannot be
// reserved.
Result<std::unique_ptr<ArenaMemory>> reserve_cuda_arena(CudaContext& context, std::string name,
                                                        Bytes bytes, Bytes extent,
                                                        std::vector<int> peers);

}  // namespace causeway::device
