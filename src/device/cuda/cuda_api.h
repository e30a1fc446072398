// The CUDA driver as a table of entry points (docs/decisions/0014-seams.md). device/cuda calls CUDA
// only through a CudaApi, so that the preload library can pass the original functions and never
// calls its own hooks, tests can pass theirs, and a build without CUDA headers can use a GPU.
//
// Entries bear the names of the driver's symbols, versions included, which fixes their binary
// interface: cuMemcpyBatchAsync_v2 is the function of 8 arguments that CUDA 13.0 introduced.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"
#include "device/cuda/cuda_types.h"

// X(name, (parameters)); the result is a CUresult, 0 for success.
#define CAUSEWAY_CUDA_ENTRIES(X)                                                                   \
  X(cuDriverGetVersion, (int* version))                                                            \
  X(cuInit, (unsigned flags))                                                                      \
  X(cuGetErrorString, (int error, const char** text))                                              \
  X(cuDeviceGetCount, (int* count))                                                                \
  X(cuDeviceGet, (int* device, int ordinal))                                                       \
  X(cuDeviceGetName, (char* name, int length, int device))                                         \
  X(cuDeviceGetAttribute, (int* value, int attribute, int device))                                 \
  X(cuDeviceTotalMem_v2, (std::size_t * bytes, int device))                                        \
  X(cuDeviceGetPCIBusId, (char* id, int length, int device))                                       \
  X(cuDeviceCanAccessPeer, (int* can, int device, int peer))                                       \
  X(cuDevicePrimaryCtxRetain, (CUctx_st * *context, int device))                                   \
  X(cuDevicePrimaryCtxRelease_v2, (int device))                                                    \
  X(cuCtxGetCurrent, (CUctx_st * *context))                                                        \
  X(cuCtxPushCurrent_v2, (CUctx_st * context))                                                     \
  X(cuCtxPopCurrent_v2, (CUctx_st * *context))                                                     \
  X(cuCtxGetStreamPriorityRange, (int* least, int* greatest))                                      \
  X(cuMemGetInfo_v2, (std::size_t * free, std::size_t * total))                                    \
  X(cuMemAddressReserve, (CudaDevicePointer * address, std::size_t bytes, std::size_t alignment,   \
                          CudaDevicePointer wanted, unsigned long long flags))                     \
  X(cuMemAddressFree, (CudaDevicePointer address, std::size_t bytes))                              \
  X(cuMemCreate, (CudaMemoryHandle * handle, std::size_t bytes,                                    \
                  const CudaMemoryProperties* properties, unsigned long long flags))               \
  X(cuMemRelease, (CudaMemoryHandle handle))                                                       \
  X(cuMemMap, (CudaDevicePointer address, std::size_t bytes, std::size_t offset,                   \
               CudaMemoryHandle handle, unsigned long long flags))                                 \
  X(cuMemUnmap, (CudaDevicePointer address, std::size_t bytes))                                    \
  X(cuMemSetAccess, (CudaDevicePointer address, std::size_t bytes, const CudaMemoryAccess* access, \
                     std::size_t count))                                                           \
  X(cuMemsetD8Async,                                                                               \
    (CudaDevicePointer target, unsigned char value, std::size_t bytes, CUstream_st* stream))       \
  X(cuMemHostRegister_v2, (void* address, std::size_t bytes, unsigned flags))                      \
  X(cuMemHostUnregister, (void* address))                                                          \
  X(cuMemHostGetDevicePointer_v2, (CudaDevicePointer * pointer, void* address, unsigned flags))    \
  X(cuMemcpyAsync,                                                                                 \
    (CudaDevicePointer target, CudaDevicePointer source, std::size_t bytes, CUstream_st * stream)) \
  X(cuMemcpyBatchAsync_v2,                                                                         \
    (CudaDevicePointer * targets, CudaDevicePointer * sources, std::size_t * bytes,                \
     std::size_t count, CudaCopyAttributes * attributes, std::size_t * first_of_attributes,        \
     std::size_t attribute_count, CUstream_st * stream))                                           \
  X(cuStreamCreateWithPriority, (CUstream_st * *stream, unsigned flags, int priority))             \
  X(cuStreamDestroy_v2, (CUstream_st * stream))                                                    \
  X(cuStreamQuery, (CUstream_st * stream))                                                         \
  X(cuStreamWaitEvent, (CUstream_st * stream, CUevent_st * event, unsigned flags))                 \
  X(cuStreamIsCapturing, (CUstream_st * stream, int* status))                                      \
  X(cuStreamWaitValue32_v2,                                                                        \
    (CUstream_st * stream, CudaDevicePointer address, unsigned value, unsigned flags))             \
  X(cuStreamWriteValue32_v2,                                                                       \
    (CUstream_st * stream, CudaDevicePointer address, unsigned value, unsigned flags))             \
  X(cuEventCreate, (CUevent_st * *event, unsigned flags))                                          \
  X(cuEventDestroy_v2, (CUevent_st * event))                                                       \
  X(cuEventRecord, (CUevent_st * event, CUstream_st * stream))                                     \
  X(cuEventQuery, (CUevent_st * event))                                                            \
  X(cuEventElapsedTime_v2, (float* milliseconds, CUevent_st* start, CUevent_st* end))              \
  X(cuDeviceGetDevResource, (int device, CudaResource* resource, int type))                        \
  X(cuDevSmResourceSplitByCount,                                                                   \
    (CudaResource * groups, unsigned* group_count, const CudaResource* input,                      \
     CudaResource* remaining, unsigned flags, unsigned sms_min))                                   \
  X(cuDevResourceGenerateDesc,                                                                     \
    (CUdevResourceDesc_st * *description, CudaResource * resources, unsigned count))               \
  X(cuGreenCtxCreate,                                                                              \
    (CUgreenCtx_st * *green, CUdevResourceDesc_st * description, int device, unsigned flags))      \
  X(cuGreenCtxDestroy, (CUgreenCtx_st * green))                                                    \
  X(cuCtxFromGreenCtx, (CUctx_st * *context, CUgreenCtx_st * green))                               \
  X(cuGreenCtxStreamCreate,                                                                        \
    (CUstream_st * *stream, CUgreenCtx_st * green, unsigned flags, int priority))

namespace causeway::device {

struct CudaApi {
#define CAUSEWAY_CUDA_MEMBER(name, parameters) int(*name) parameters = nullptr;
  CAUSEWAY_CUDA_ENTRIES(CAUSEWAY_CUDA_MEMBER)
#undef CAUSEWAY_CUDA_MEMBER
};

inline constexpr const char* kCudaDriverLibrary = "libcuda.so.1";
inline constexpr int kCudaVersionMin = 13'000;  // 1000 × major + 10 × minor

// Opens the driver's library and looks up every entry of the table. kUnavailable, beginning with
// "no NVIDIA driver: ", when there is none; kUnsupported, naming both versions, when it is older
// than kCudaVersionMin; kDevice when it lacks an entry point. The library stays loaded until the
// process ends, because the driver has threads of its own.
Result<CudaApi> load_cuda_api(const std::string& library = kCudaDriverLibrary);

struct CudaFacts {
  int driver_version = 0;  // 1000 × major + 10 × minor
  int devices = 0;
};

// Initialises the driver and asks it for the facts. kUnavailable when it finds no device;
// kUnsupported when it is too old; kDevice, with the driver's own words, when it fails.
Result<CudaFacts> ask_cuda(const CudaApi& api);

// "13.0"
std::string cuda_version_text(int version);

// The Error for a failed call: kResourceExhausted (out of memory), kUnavailable (no device),
// kUnsupported, otherwise kDevice; with the driver's own words.
Error cuda_error(const CudaApi& api, int result, const char* call);

// Whether a result means that the device's context is dead: no later call in this process can
// succeed.
bool cuda_context_lost(int result);

}  // namespace causeway::device
