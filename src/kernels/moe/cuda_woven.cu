// The launch of the kernel for one token.
#include "kernels/moe/cuda_woven.cuh"

namespace causeway::kernels::moe {

Status run_woven(const ParamsCuda& p, const FrontCuda& front, const Scratch& scratch,
                 CudaStream stream) {
  const auto layout = woven_layout(p.shape, p.sm_count);
  if (!layout) return unsupported("moe: the kernel for one token is not for this shape");
  const WovenArgs args = {experts_args(p, &front, scratch), *layout};
  const LaunchShape shape = {dim3(static_cast<unsigned>(p.sm_count)), dim3(kWovenThreads),
                             static_cast<int>(layout->bytes), kWovenSharedMax};
  return launch("experts of one token", stream, shape,
                is_lean(args) ? woven_kernel<true> : woven_kernel<false>, args);
}

}  // namespace causeway::kernels::moe
