// The CUDA driver's types as far as device/cuda uses them, so that it compiles without CUDA
// headers. Handles are pointers to the structures that cuda.h names; enumerations are int, with the
// values used here as constants; structures have the driver's layout under our names. Where the
// toolkit is installed, cuda_api_check.cc compares all of them with cuda.h.
#pragma once

#include <cstdint>

struct CUctx_st;
struct CUevent_st;
struct CUgreenCtx_st;
struct CUstream_st;
struct CUdevResourceDesc_st;

namespace causeway::device {

using CudaDevicePointer = unsigned long long;  // CUdeviceptr
using CudaMemoryHandle = unsigned long long;   // CUmemGenericAllocationHandle

struct CudaMemoryLocation {
  int type = 0;
  int id = 0;
};

struct CudaMemoryProperties {
  int type = 0;
  int handle_types = 0;
  CudaMemoryLocation location;
  void* win32_meta_data = nullptr;
  unsigned char compression = 0;
  unsigned char rdma_capable = 0;
  unsigned short usage = 0;
  unsigned char reserved[4] = {};
};

struct CudaMemoryAccess {
  CudaMemoryLocation location;
  int flags = 0;
};

struct CudaCopyAttributes {
  int source_order = 0;
  CudaMemoryLocation source_hint;
  CudaMemoryLocation target_hint;
  unsigned flags = 0;
};

// CUdevResource: a set of SMs; opaque but for its size and what can be asked of it.
struct CudaResource {
  int type = 0;
  unsigned char padding[92] = {};
  unsigned sm_count = 0;
  unsigned sm_partition_min = 0;
  unsigned sm_alignment = 0;
  unsigned char rest[36] = {};
};

// Results (CUresult).
inline constexpr int kCudaSuccess = 0;
inline constexpr int kCudaOutOfMemory = 2;
inline constexpr int kCudaStubLibrary = 34;
inline constexpr int kCudaDeviceUnavailable = 46;
inline constexpr int kCudaNoDevice = 100;
inline constexpr int kCudaInvalidDevice = 101;
inline constexpr int kCudaOperatingSystem = 304;
inline constexpr int kCudaNotReady = 600;
inline constexpr int kCudaNotPermitted = 800;
inline constexpr int kCudaNotSupported = 801;
inline constexpr int kCudaSystemNotReady = 802;
inline constexpr int kCudaDriverMismatch = 803;
inline constexpr int kCudaCompatNotSupported = 804;

inline constexpr int kCudaAttributeSms = 16;
inline constexpr int kCudaAttributeMapsHostMemory = 19;
inline constexpr int kCudaAttributeVirtualMemory = 102;
inline constexpr int kCudaAttributeRegistersReadOnly = 113;
inline constexpr int kCudaAttributeStreamMemoryOperations = 122;  // of 64 bits, so of 32, too
inline constexpr int kCudaAllocationPinned = 1;
inline constexpr int kCudaLocationDevice = 1;
inline constexpr int kCudaAccessReadWrite = 3;
inline constexpr int kCudaSourceOrderStream = 1;
inline constexpr int kCudaResourceSms = 1;
inline constexpr unsigned kCudaGreenDefaultStream = 1;
inline constexpr unsigned kCudaStreamNonBlocking = 1;
inline constexpr unsigned kCudaEventDisableTiming = 2;
inline constexpr unsigned kCudaWaitGreaterOrEqual = 0;
inline constexpr unsigned kCudaWriteDefault = 0;
inline constexpr unsigned kCudaRegisterPortable = 1;
inline constexpr unsigned kCudaRegisterDeviceMap = 2;
inline constexpr unsigned kCudaRegisterReadOnly = 8;

}  // namespace causeway::device
