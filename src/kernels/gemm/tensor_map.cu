#include "kernels/gemm/tensor_map.cuh"

#include <cuda_runtime.h>

#include <string>

#include "kernels/cuda_status.cuh"

namespace causeway::kernels::gemm {

Result<EncodeTiled> find_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  CAUSEWAY_TRY(cuda_status(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                            12000, cudaEnableDefault, &found),
                           "GEMM: driver entry point"));
  if (found != cudaDriverEntryPointSuccess) {
    return unsupported("GEMM: the driver has no cuTensorMapEncodeTiled");
  }
  return reinterpret_cast<EncodeTiled>(function);
}

Result<CUtensorMap> encode(EncodeTiled encoder, const void* data, const TensorShape& shape) {
  CUtensorMap map;
  const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  const auto type = shape.f32 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const bool wide = shape.box[0] * (shape.f32 ? 4 : 2) > 64;
  const CUresult code = encoder(&map, type, shape.rank, const_cast<void*>(data), shape.sizes,
                                shape.strides, shape.box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                wide ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
                                shape.l2, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code == CUDA_SUCCESS) return map;
  return Error{ErrorCode::kDevice, "GEMM: tensor map: CUresult " + std::to_string(code)};
}

}  // namespace causeway::kernels::gemm
