// Kernels of the tests of a GPU's streams and slices.
#pragma once

#include <cuda_runtime.h>

namespace causeway::device::testing {

// All enqueue; cudaGetLastError() says whether it was launched. Lasts so many cycles of the clock.
void spin(cudaStream_t stream, long long cycles);
// Marks the SM that each of its 2,048 CTAs of so many cycles ran on. `seen` has one word an SM.
void mark_sm(cudaStream_t stream, unsigned* seen, long long cycles);
// target[i] = source[i] + 1, of `count` words.
void add_one(cudaStream_t stream, const unsigned* source, unsigned* target, int count);
void write_to(cudaStream_t stream, unsigned* address);

}  // namespace causeway::device::testing
