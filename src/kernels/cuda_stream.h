// The stream type of GPU entry points (a cudaStream_t), without CUDA's headers.
#pragma once

struct CUstream_st;

namespace causeway::kernels {

using CudaStream = CUstream_st*;

}  // namespace causeway::kernels
