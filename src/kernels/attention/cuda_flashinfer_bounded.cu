// Heads of 64 and 128 within a sliding window or with a soft cap of scores, in a file of their own
// to compile beside the others.
#include "kernels/attention/cuda_flashinfer.cuh"

namespace causeway::kernels::attention::parts {

Status run_flashinfer_bounded(const ParamsCuda& params, const PrefillTiles& tiles,
                              CudaStream stream) {
  return params.heads.size == 64 ? run_flashinfer_sized<64, true>(params, tiles, stream)
                                 : run_flashinfer_sized<128, true>(params, tiles, stream);
}

}  // namespace causeway::kernels::attention::parts
