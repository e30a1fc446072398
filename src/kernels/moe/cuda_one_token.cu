// The launch of the kernel for one token.
#include "kernels/moe/cuda_one_token.cuh"

namespace causeway::kernels::moe {

Status run_one_token(const ParamsCuda& p, const FrontCuda& front, const Scratch& scratch,
                     CudaStream stream) {
  const auto layout = one_token_layout(p.shape, p.sm_count);
  if (!layout) return unsupported("moe: the kernel for one token is not for this shape");
  const OneTokenArgs args = {experts_args(p, &front, scratch), *layout};
  const LaunchShape shape = {dim3(static_cast<unsigned>(p.sm_count)), dim3(kOneTokenThreads),
                             static_cast<int>(layout->bytes), kOneTokenSharedMax};
  return launch("experts of one token", stream, shape,
                is_lean(args) ? one_token_kernel<true> : one_token_kernel<false>, args);
}

}  // namespace causeway::kernels::moe
