// Heads of 128, in a file of their own to compile beside the other.
#include "kernels/attention/cuda_flashinfer.cuh"

namespace causeway::kernels::attention::parts {

Status run_flashinfer_128(const ParamsCuda& params, const PrefillTiles& tiles, CudaStream stream) {
  return run_flashinfer_sized<128, false>(params, tiles, stream);
}

}  // namespace causeway::kernels::attention::parts
