// Kernels that a GPU fails at.
#pragma once

#include <cuda_runtime.h>

namespace causeway::engine::testing {

// Both enqueue. Keeps every SM busy until `released`, which the GPU reads, is not 0.
void spin(cudaStream_t stream, const volatile int* released);
// Writes where no memory is.
void write_nowhere(cudaStream_t stream);

}  // namespace causeway::engine::testing
