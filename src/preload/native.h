// The driver's own functions, as the preload library calls them: those that device/cuda needs
// (CudaApi), those that the session needs beside it, and the originals of all hooked functions.
// None of them leads back into a hook.
//
// A table is filled once and only read afterwards.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "device/cuda/cuda_api.h"

struct CUfunc_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUkern_st;
struct CUlib_st;
struct CUmod_st;

namespace causeway::preload {

using device::CudaCopyAttributes;
using device::CudaDevicePointer;

// CUstreamBatchMemOpParams: an operation on 32 bits of memory that a stream performs.
struct CudaMemoryOperation {
  int operation = 0;
  CudaDevicePointer address = 0;
  std::uint64_t value = 0;
  unsigned flags = 0;
  CudaDevicePointer alias = 0;
  std::uint64_t rest = 0;
};
inline constexpr int kCudaWaitValue32 = 1;
inline constexpr int kCudaWriteValue32 = 2;
inline constexpr unsigned kCudaWaitAtLeast = 0;  // CU_STREAM_WAIT_VALUE_GEQ

inline constexpr int kCudaPointerContext = 1;
inline constexpr int kCudaPointerMemoryType = 2;
inline constexpr int kCudaPointerDeviceAddress = 3;
inline constexpr int kCudaPointerManaged = 8;
inline constexpr int kCudaPointerDevice = 9;
inline constexpr int kCudaPointerRangeStart = 11;
inline constexpr int kCudaPointerRangeBytes = 12;
inline constexpr int kCudaPointerPool = 17;
inline constexpr unsigned kCudaMemoryHost = 1;
inline constexpr unsigned kCudaMemoryDevice = 2;

inline constexpr int kCudaCaptureRelaxed = 2;
inline constexpr unsigned kCudaHostPortable = 1;
inline constexpr unsigned kCudaHostDeviceMap = 2;

// The default streams by name, so that one function serves both kinds of programs.
inline CUstream_st* const kLegacyStream = reinterpret_cast<CUstream_st*>(1);
inline CUstream_st* const kThreadStream = reinterpret_cast<CUstream_st*>(2);

}  // namespace causeway::preload

// Functions without which there is no session. X(name, (parameters)).
#define CAUSEWAY_PRELOAD_NEEDED(X)                                                                \
  X(cuPointerGetAttributes,                                                                       \
    (unsigned count, int* attributes, void** values, CudaDevicePointer pointer))                  \
  X(cuStreamBatchMemOp_v2,                                                                        \
    (CUstream_st * stream, unsigned count, CudaMemoryOperation* operations, unsigned flags))      \
  X(cuMemHostAlloc, (void** address, std::size_t bytes, unsigned flags))                          \
  X(cuThreadExchangeStreamCaptureMode, (int* mode))                                               \
  X(cuLaunchHostFunc, (CUstream_st * stream, void (*function)(void*), void* argument))            \
  X(cuLibraryLoadData,                                                                            \
    (CUlib_st * *library, const void* code, int* jit_options, void** jit_values,                  \
     unsigned jit_count, int* options, void** values, unsigned count))                            \
  X(cuLibraryGetKernel, (CUkern_st * *kernel, CUlib_st * library, const char* name))              \
  X(cuKernelGetFunction, (CUfunc_st * *function, CUkern_st * kernel))                             \
  X(cuFuncLoad, (CUfunc_st * function))                                                           \
  X(cuLaunchKernel, (CUfunc_st * function, unsigned grid_x, unsigned grid_y, unsigned grid_z,     \
                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, \
                     CUstream_st* stream, void** parameters, void** extra))

// Copies; those that the driver has are hooked. X(name, (parameters), (arguments)).
#define CAUSEWAY_PRELOAD_COPIES(X)                                                                 \
  X(cuMemcpy, (CudaDevicePointer target, CudaDevicePointer source, std::size_t bytes),             \
    (target, source, bytes))                                                                       \
  X(cuMemcpy_ptds, (CudaDevicePointer target, CudaDevicePointer source, std::size_t bytes),        \
    (target, source, bytes))                                                                       \
  X(cuMemcpyHtoD_v2, (CudaDevicePointer target, const void* source, std::size_t bytes),            \
    (target, source, bytes))                                                                       \
  X(cuMemcpyHtoD_v2_ptds, (CudaDevicePointer target, const void* source, std::size_t bytes),       \
    (target, source, bytes))                                                                       \
  X(cuMemcpyDtoH_v2, (void* target, CudaDevicePointer source, std::size_t bytes),                  \
    (target, source, bytes))                                                                       \
  X(cuMemcpyDtoH_v2_ptds, (void* target, CudaDevicePointer source, std::size_t bytes),             \
    (target, source, bytes))                                                                       \
  X(cuMemcpyAsync_ptsz,                                                                            \
    (CudaDevicePointer target, CudaDevicePointer source, std::size_t bytes, CUstream_st * stream), \
    (target, source, bytes, stream))                                                               \
  X(cuMemcpyHtoDAsync_v2,                                                                          \
    (CudaDevicePointer target, const void* source, std::size_t bytes, CUstream_st* stream),        \
    (target, source, bytes, stream))                                                               \
  X(cuMemcpyHtoDAsync_v2_ptsz,                                                                     \
    (CudaDevicePointer target, const void* source, std::size_t bytes, CUstream_st* stream),        \
    (target, source, bytes, stream))                                                               \
  X(cuMemcpyDtoHAsync_v2,                                                                          \
    (void* target, CudaDevicePointer source, std::size_t bytes, CUstream_st* stream),              \
    (target, source, bytes, stream))                                                               \
  X(cuMemcpyDtoHAsync_v2_ptsz,                                                                     \
    (void* target, CudaDevicePointer source, std::size_t bytes, CUstream_st* stream),              \
    (target, source, bytes, stream))

// Batches of CUDA 12.8, which return the index of a failing copy; their successor is in CudaApi.
// X(name, (parameters), (arguments)).
#define CAUSEWAY_PRELOAD_BATCHES(X)                                                            \
  X(cuMemcpyBatchAsync,                                                                        \
    (CudaDevicePointer * targets, CudaDevicePointer * sources, std::size_t * bytes,            \
     std::size_t count, CudaCopyAttributes * attributes, std::size_t * first_of_attributes,    \
     std::size_t attribute_count, std::size_t * failed, CUstream_st * stream),                 \
    (targets, sources, bytes, count, attributes, first_of_attributes, attribute_count, failed, \
     stream))                                                                                  \
  X(cuMemcpyBatchAsync_ptsz,                                                                   \
    (CudaDevicePointer * targets, CudaDevicePointer * sources, std::size_t * bytes,            \
     std::size_t count, CudaCopyAttributes * attributes, std::size_t * first_of_attributes,    \
     std::size_t attribute_count, std::size_t * failed, CUstream_st * stream),                 \
    (targets, sources, bytes, count, attributes, first_of_attributes, attribute_count, failed, \
     stream))                                                                                  \
  X(cuMemcpyBatchAsync_v2_ptsz,                                                                \
    (CudaDevicePointer * targets, CudaDevicePointer * sources, std::size_t * bytes,            \
     std::size_t count, CudaCopyAttributes * attributes, std::size_t * first_of_attributes,    \
     std::size_t attribute_count, CUstream_st * stream),                                       \
    (targets, sources, bytes, count, attributes, first_of_attributes, attribute_count, stream))

// Calls that wait for all work of a device, or may hold a lock of the driver meanwhile. While a
// stand-in is pending they are delayed until it is done (Session::Settled).
#define CAUSEWAY_PRELOAD_SETTLING(X)                      \
  X(cuMemFree_v2, (CudaDevicePointer address), (address)) \
  X(cuMemFreeHost, (void* address), (address))

// Calls of that kind that unload kernels.
#define CAUSEWAY_PRELOAD_UNLOADING(X)                 \
  X(cuModuleUnload, (CUmod_st * module), (module))    \
  X(cuLibraryUnload, (CUlib_st * library), (library)) \
  X(cuCtxDestroy_v2, (CUctx_st * context), (context))

// Calls that may load code or map memory. For these the driver makes later work of the context wait
// for earlier work (seen on the GPU: docs/decisions/0005-stand-in.md), so they are delayed
// likewise. Those that the driver has are hooked.
#define CAUSEWAY_PRELOAD_LOADING(X)                                                           \
  X(cuMemAlloc_v2, (CudaDevicePointer * address, std::size_t bytes), (address, bytes))        \
  X(cuModuleLoadData, (CUmod_st * *module, const void* image), (module, image))               \
  X(cuModuleLoadDataEx,                                                                       \
    (CUmod_st * *module, const void* image, unsigned count, int* options, void** values),     \
    (module, image, count, options, values))                                                  \
  X(cuModuleGetFunction, (CUfunc_st * *function, CUmod_st * module, const char* name),        \
    (function, module, name))                                                                 \
  X(cuModuleLoad, (CUmod_st * *module, const char* file), (module, file))                     \
  X(cuModuleLoadFatBinary, (CUmod_st * *module, const void* image), (module, image))          \
  X(cuModuleGetGlobal_v2,                                                                     \
    (CudaDevicePointer * address, std::size_t * bytes, CUmod_st * module, const char* name),  \
    (address, bytes, module, name))                                                           \
  X(cuLibraryGetModule, (CUmod_st * *module, CUlib_st * library), (module, library))          \
  X(cuLibraryGetGlobal,                                                                       \
    (CudaDevicePointer * address, std::size_t * bytes, CUlib_st * library, const char* name), \
    (address, bytes, library, name))                                                          \
  X(cuLibraryGetManaged,                                                                      \
    (CudaDevicePointer * address, std::size_t * bytes, CUlib_st * library, const char* name), \
    (address, bytes, library, name))                                                          \
  X(cuLibraryLoadFromFile,                                                                    \
    (CUlib_st * *library, const char* file, int* jit_options, void** jit_values,              \
     unsigned jit_count, int* options, void** values, unsigned count),                        \
    (library, file, jit_options, jit_values, jit_count, options, values, count))              \
  X(cuGraphUpload, (CUgraphExec_st * graph, CUstream_st * stream), (graph, stream))           \
  X(cuGraphUpload_ptsz, (CUgraphExec_st * graph, CUstream_st * stream), (graph, stream))

// Calls that make executable graphs, whose addresses may be those of earlier graphs. X(name,
// (parameters), (arguments)).
#define CAUSEWAY_PRELOAD_GRAPHS(X)                                                                \
  X(cuGraphInstantiateWithFlags,                                                                  \
    (CUgraphExec_st * *made, CUgraph_st * graph, unsigned long long flags), (made, graph, flags)) \
  X(cuGraphInstantiateWithParams, (CUgraphExec_st * *made, CUgraph_st * graph, void* settings),   \
    (made, graph, settings))                                                                      \
  X(cuGraphInstantiateWithParams_ptsz,                                                            \
    (CUgraphExec_st * *made, CUgraph_st * graph, void* settings), (made, graph, settings))

// Launches; the first launch of a kernel or a graph may load code.
#define CAUSEWAY_PRELOAD_LAUNCHES(X)                                                            \
  X(cuLaunchKernel_ptsz,                                                                        \
    (CUfunc_st * function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream_st* stream,            \
     void** parameters, void** extra))                                                          \
  X(cuLaunchKernelEx,                                                                           \
    (const void* settings, CUfunc_st* function, void** parameters, void** extra))               \
  X(cuLaunchKernelEx_ptsz,                                                                      \
    (const void* settings, CUfunc_st* function, void** parameters, void** extra))               \
  X(cuLaunchCooperativeKernel,                                                                  \
    (CUfunc_st * function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream_st* stream,            \
     void** parameters))                                                                        \
  X(cuLaunchCooperativeKernel_ptsz,                                                             \
    (CUfunc_st * function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream_st* stream,            \
     void** parameters))                                                                        \
  X(cuGraphLaunch, (CUgraphExec_st * graph, CUstream_st * stream))                              \
  X(cuGraphLaunch_ptsz, (CUgraphExec_st * graph, CUstream_st * stream))

namespace causeway::preload {

struct Native {
  device::CudaApi api;
#define CAUSEWAY_PRELOAD_MEMBER(name, parameters, ...) int(*name) parameters = nullptr;
  CAUSEWAY_PRELOAD_NEEDED(CAUSEWAY_PRELOAD_MEMBER)
  CAUSEWAY_PRELOAD_COPIES(CAUSEWAY_PRELOAD_MEMBER)
  CAUSEWAY_PRELOAD_BATCHES(CAUSEWAY_PRELOAD_MEMBER)
  CAUSEWAY_PRELOAD_SETTLING(CAUSEWAY_PRELOAD_MEMBER)
  CAUSEWAY_PRELOAD_UNLOADING(CAUSEWAY_PRELOAD_MEMBER)
  CAUSEWAY_PRELOAD_LOADING(CAUSEWAY_PRELOAD_MEMBER)
  CAUSEWAY_PRELOAD_GRAPHS(CAUSEWAY_PRELOAD_MEMBER)
  CAUSEWAY_PRELOAD_LAUNCHES(CAUSEWAY_PRELOAD_MEMBER)
#undef CAUSEWAY_PRELOAD_MEMBER
  int (*cuDevicePrimaryCtxReset)(int device) = nullptr;
  int (*cuDevicePrimaryCtxReset_v2)(int device) = nullptr;
  int (*cuStreamGetCtx)(CUstream_st* stream, CUctx_st** context) = nullptr;
  int (*cuMemGetAccess)(unsigned long long* flags, const device::CudaMemoryLocation* location,
                        CudaDevicePointer pointer) = nullptr;
  // A function of CUDA 12; nullptr with older drivers.
  int (*cuCtxGetId)(CUctx_st* context, unsigned long long* id) = nullptr;
  int (*cuGetProcAddress)(const char* name, void** found, int version,
                          std::uint64_t flags) = nullptr;
  int (*cuGetProcAddress_v2)(const char* name, void** found, int version, std::uint64_t flags,
                             int* status) = nullptr;
};

// Looks up a function of the driver's library; nullptr when there is none of that name.
using LookUp = void* (*)(const char* name);

// Loads all functions that exist. None is required, so that any driver serves.
Native load_native(LookUp look_up);

// Whether work that is put into `stream` becomes part of a graph; false when that cannot be told.
bool is_capturing(const Native& native, CUstream_st* stream);

// kUnsupported, with the function's name, when the driver lacks one that a session needs.
Status check_complete(const Native& native);

}  // namespace causeway::preload
