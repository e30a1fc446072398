// Heads of 256, in a file of their own to compile beside the others. One instance for prompts and
// decode, with windows and soft caps and without.
#include "kernels/attention/cuda_flashinfer.cuh"

namespace causeway::kernels::attention::parts {

Status run_flashinfer_256(const ParamsCuda& params, const PrefillTiles& tiles, CudaStream stream) {
  return run_flashinfer_sized<256, true>(params, tiles, stream);
}

}  // namespace causeway::kernels::attention::parts
