// Sums of what memory holds, made by the GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace causeway::slice::testing {

// Enqueues: parts of the sum of `data`'s words of 8 bytes, each times its place, a CTA a part. The
// GPU reads and writes both; cudaGetLastError() says whether it was launched.
void sum_words(cudaStream_t stream, std::span<const std::byte> data,
               std::span<std::uint64_t> parts);

}  // namespace causeway::slice::testing
