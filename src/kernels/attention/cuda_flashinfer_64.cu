// Heads of 64, in a file of their own to compile beside the other.
#include "kernels/attention/cuda_flashinfer.cuh"

namespace causeway::kernels::attention::parts {

Status run_flashinfer_64(const ParamsCuda& params, const PrefillTiles& tiles, CudaStream stream) {
  return run_flashinfer_sized<64, false>(params, tiles, stream);
}

}  // namespace causeway::kernels::attention::parts
