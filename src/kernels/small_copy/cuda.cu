#include <algorithm>
#include <cstdint>

#include "kernels/cuda_launch.cuh"
#include "kernels/small_copy/small_copy.h"

namespace causeway::kernels::small_copy {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kBlocksMax = 32;  // enough for the link; the rest of the GPU is a step's

template <typename Word>
__global__ void __launch_bounds__(kThreads)
    copy_kernel(Word* target, const Word* source, int64_t count) {
  wait_for_predecessor();
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += stride) {
    target[i] = source[i];
  }
}

template <typename Word>
Status copy(const ParamsCuda& p, CudaStream stream) {
  const int64_t count = p.bytes.count / static_cast<int64_t>(sizeof(Word));
  const int64_t blocks = std::min((count + kThreads - 1) / kThreads, kBlocksMax);
  return launch("small_copy", stream, {dim3(static_cast<unsigned>(blocks)), dim3(kThreads)},
                copy_kernel<Word>, static_cast<Word*>(p.target), static_cast<const Word*>(p.source),
                count);
}

}  // namespace

Status run(const ParamsCuda& p, CudaStream stream) {
  const auto bits = reinterpret_cast<std::uintptr_t>(p.target) |
                    reinterpret_cast<std::uintptr_t>(p.source) |
                    static_cast<std::uintptr_t>(p.bytes.count);
  if (p.bytes.count < 0 || bits % 4 != 0) {
    return invalid_argument("a small copy is of words of 4 bytes");
  }
  if (p.bytes.count == 0) return {};
  return bits % 16 == 0 ? copy<uint4>(p, stream) : copy<std::uint32_t>(p, stream);
}

}  // namespace causeway::kernels::small_copy
