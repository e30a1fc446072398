// Compares the table of entry points and the types beside it with cuda.h, at compile time, where
// the toolkit is installed. Empty elsewhere.
#if __has_include(<cuda.h>)
#include <cuda.h>
// cuda.h has macros that replace these names by those of their successors.
#undef cuGetProcAddress
#undef cuDevicePrimaryCtxReset
#undef cuStreamGetCtx
#undef cuMemcpyBatchAsync
#endif
#if defined(CUDA_VERSION) && CUDA_VERSION >= 13000

#include <cstddef>
#include <type_traits>

#include "preload/native.h"

namespace causeway::preload {
namespace {

static_assert(sizeof(CUstreamBatchMemOpParams) == sizeof(CudaMemoryOperation));
static_assert(offsetof(CUstreamBatchMemOpParams, waitValue.address) ==
              offsetof(CudaMemoryOperation, address));
static_assert(offsetof(CUstreamBatchMemOpParams, waitValue.value) ==
              offsetof(CudaMemoryOperation, value));
static_assert(offsetof(CUstreamBatchMemOpParams, waitValue.flags) ==
              offsetof(CudaMemoryOperation, flags));
static_assert(CU_STREAM_MEM_OP_WAIT_VALUE_32 == kCudaWaitValue32);
static_assert(CU_STREAM_MEM_OP_WRITE_VALUE_32 == kCudaWriteValue32);
static_assert(CU_STREAM_WAIT_VALUE_GEQ == kCudaWaitAtLeast);
static_assert(CU_POINTER_ATTRIBUTE_CONTEXT == kCudaPointerContext);
static_assert(CU_POINTER_ATTRIBUTE_MEMORY_TYPE == kCudaPointerMemoryType);
static_assert(CU_POINTER_ATTRIBUTE_DEVICE_POINTER == kCudaPointerDeviceAddress);
static_assert(CU_POINTER_ATTRIBUTE_IS_MANAGED == kCudaPointerManaged);
static_assert(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL == kCudaPointerDevice);
static_assert(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR == kCudaPointerRangeStart);
static_assert(CU_POINTER_ATTRIBUTE_RANGE_SIZE == kCudaPointerRangeBytes);
static_assert(CU_MEMORYTYPE_HOST == kCudaMemoryHost);
static_assert(CU_MEMORYTYPE_DEVICE == kCudaMemoryDevice);
static_assert(CU_STREAM_CAPTURE_MODE_RELAXED == kCudaCaptureRelaxed);
static_assert(CU_MEMHOSTALLOC_PORTABLE == kCudaHostPortable);
static_assert(CU_MEMHOSTALLOC_DEVICEMAP == kCudaHostDeviceMap);
static_assert(CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM == 2);
static_assert(CU_MEMCPY_SRC_ACCESS_ORDER_ANY == 3);

// Checks that there are as many parameters, of the same sizes, in the same order.
template <typename Ours, typename Theirs>
struct SameShape : std::false_type {};
template <typename... Ours, typename... Theirs>
struct SameShape<int (*)(Ours...), CUresult (*)(Theirs...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(Ours) != sizeof...(Theirs)) {
      return false;
    } else {
      return ((sizeof(Ours) == sizeof(Theirs) &&
               std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>) &&
              ...);
    }
  }();
};
#define CAUSEWAY_PRELOAD_COMPARE(name) \
  static_assert(SameShape<decltype(Native::name), decltype(&::name)>::value, #name);
#define CAUSEWAY_PRELOAD_COMPARE_ENTRY(name, ...) CAUSEWAY_PRELOAD_COMPARE(name)
CAUSEWAY_PRELOAD_NEEDED(CAUSEWAY_PRELOAD_COMPARE_ENTRY)
CAUSEWAY_PRELOAD_COMPARE(cuMemAlloc_v2)
CAUSEWAY_PRELOAD_COMPARE(cuModuleLoadData)
CAUSEWAY_PRELOAD_COMPARE(cuModuleLoadDataEx)
CAUSEWAY_PRELOAD_COMPARE(cuModuleGetFunction)
CAUSEWAY_PRELOAD_COMPARE(cuStreamGetCtx)
CAUSEWAY_PRELOAD_COMPARE(cuModuleLoadFatBinary)
CAUSEWAY_PRELOAD_COMPARE(cuModuleGetGlobal_v2)
CAUSEWAY_PRELOAD_COMPARE(cuLibraryGetModule)
CAUSEWAY_PRELOAD_COMPARE(cuLibraryGetGlobal)
CAUSEWAY_PRELOAD_COMPARE(cuLibraryGetManaged)
CAUSEWAY_PRELOAD_COMPARE(cuModuleLoad)
CAUSEWAY_PRELOAD_COMPARE(cuLibraryLoadFromFile)
CAUSEWAY_PRELOAD_COMPARE(cuGraphUpload)
CAUSEWAY_PRELOAD_COMPARE(cuGraphInstantiateWithFlags)
CAUSEWAY_PRELOAD_COMPARE(cuGraphInstantiateWithParams)
CAUSEWAY_PRELOAD_COMPARE(cuLaunchKernelEx)
CAUSEWAY_PRELOAD_COMPARE(cuLaunchCooperativeKernel)
CAUSEWAY_PRELOAD_COMPARE(cuGraphLaunch)
CAUSEWAY_PRELOAD_COMPARE(cuMemcpy)
CAUSEWAY_PRELOAD_COMPARE(cuMemcpyHtoD_v2)
CAUSEWAY_PRELOAD_COMPARE(cuMemcpyDtoH_v2)
CAUSEWAY_PRELOAD_COMPARE(cuMemcpyHtoDAsync_v2)
CAUSEWAY_PRELOAD_COMPARE(cuMemcpyDtoHAsync_v2)
CAUSEWAY_PRELOAD_COMPARE(cuMemFree_v2)
CAUSEWAY_PRELOAD_COMPARE(cuMemFreeHost)
CAUSEWAY_PRELOAD_COMPARE(cuModuleUnload)
CAUSEWAY_PRELOAD_COMPARE(cuLibraryUnload)
CAUSEWAY_PRELOAD_COMPARE(cuCtxDestroy_v2)
CAUSEWAY_PRELOAD_COMPARE(cuDevicePrimaryCtxReset_v2)
CAUSEWAY_PRELOAD_COMPARE(cuMemGetAccess)
CAUSEWAY_PRELOAD_COMPARE(cuGetProcAddress_v2)

}  // namespace
}  // namespace causeway::preload

#endif
