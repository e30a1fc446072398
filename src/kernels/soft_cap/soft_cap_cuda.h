// soft_cap.h on a GPU.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kernels/cuda_stream.h"

namespace causeway::kernels::soft_cap {

struct ParamsCuda {
  float* x = nullptr;  // device memory, [count], in place
  std::int64_t count = 0;
  float cap = 0;
};

// kInvalidArgument for a cap that is not above 0.
Status run(const ParamsCuda& params, CudaStream stream);

}  // namespace causeway::kernels::soft_cap
