// Compares the table of entry points and the types beside it with cuda.h, at compile time, where
// the toolkit is installed. Empty elsewhere.
#if __has_include(<cuda.h>)
#include <cuda.h>
#endif
#if defined(CUDA_VERSION) && CUDA_VERSION >= 13000

#include <cstddef>
#include <type_traits>

#include "device/cuda/cuda_api.h"
#include "device/cuda/cuda_physical.h"

namespace causeway::device {
namespace {

// A type of cuda.h under our name: enumerations become int, structures ours.
template <typename T>
struct Ours {
  using Type = std::conditional_t<std::is_enum_v<T>, int, T>;
};
template <>
struct Ours<CUmemAllocationProp> {
  using Type = CudaMemoryProperties;
};
template <>
struct Ours<CUmemAccessDesc> {
  using Type = CudaMemoryAccess;
};
template <>
struct Ours<CUmemcpyAttributes> {
  using Type = CudaCopyAttributes;
};
template <>
struct Ours<CUdevResource> {
  using Type = CudaResource;
};
template <typename T>
struct Ours<const T> {
  using Type = const typename Ours<T>::Type;
};
template <typename T>
struct Ours<T*> {
  using Type = typename Ours<T>::Type*;
};

template <typename Entry>
struct OurEntry;
template <typename Result, typename... Parameters>
struct OurEntry<Result(Parameters...)> {
  using Type = typename Ours<Result>::Type (*)(typename Ours<Parameters>::Type...);
};

#define CAUSEWAY_CUDA_COMPARE(name, parameters)                                            \
  static_assert(std::is_same_v<OurEntry<decltype(::name)>::Type, decltype(CudaApi::name)>, \
                #name " differs from cuda.h");
CAUSEWAY_CUDA_ENTRIES(CAUSEWAY_CUDA_COMPARE)
#undef CAUSEWAY_CUDA_COMPARE

static_assert(sizeof(CUmemLocation) == sizeof(CudaMemoryLocation));
static_assert(offsetof(CUmemLocation, id) == offsetof(CudaMemoryLocation, id));
static_assert(sizeof(CUmemAllocationProp) == sizeof(CudaMemoryProperties));
static_assert(offsetof(CUmemAllocationProp, location) == offsetof(CudaMemoryProperties, location));
static_assert(offsetof(CUmemAllocationProp, allocFlags) ==
              offsetof(CudaMemoryProperties, compression));
static_assert(sizeof(CUmemAccessDesc) == sizeof(CudaMemoryAccess));
static_assert(offsetof(CUmemAccessDesc, flags) == offsetof(CudaMemoryAccess, flags));
static_assert(sizeof(CUmemcpyAttributes) == sizeof(CudaCopyAttributes));
static_assert(offsetof(CUmemcpyAttributes, srcLocHint) ==
              offsetof(CudaCopyAttributes, source_hint));
static_assert(offsetof(CUmemcpyAttributes, flags) == offsetof(CudaCopyAttributes, flags));
static_assert(sizeof(CUdevResource) == sizeof(CudaResource));
static_assert(offsetof(CUdevResource, sm) == offsetof(CudaResource, sm_count));
static_assert(offsetof(CUdevSmResource, smCoscheduledAlignment) ==
              offsetof(CudaResource, sm_alignment) - offsetof(CudaResource, sm_count));

static_assert(CUDA_ERROR_OUT_OF_MEMORY == kCudaOutOfMemory);
static_assert(CUDA_ERROR_NO_DEVICE == kCudaNoDevice);
static_assert(CUDA_ERROR_NOT_READY == kCudaNotReady);
static_assert(CUDA_ERROR_STUB_LIBRARY == kCudaStubLibrary);
static_assert(CUDA_ERROR_DEVICE_UNAVAILABLE == kCudaDeviceUnavailable);
static_assert(CUDA_ERROR_INVALID_DEVICE == kCudaInvalidDevice);
static_assert(CUDA_ERROR_OPERATING_SYSTEM == kCudaOperatingSystem);
static_assert(CUDA_ERROR_NOT_PERMITTED == kCudaNotPermitted);
static_assert(CUDA_ERROR_SYSTEM_NOT_READY == kCudaSystemNotReady);
static_assert(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH == kCudaDriverMismatch);
static_assert(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE == kCudaCompatNotSupported);
static_assert(CUDA_ERROR_NOT_SUPPORTED == kCudaNotSupported);
static_assert(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT == kCudaAttributeSms);
static_assert(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY == kCudaAttributeMapsHostMemory);
static_assert(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE == kCudaAttributeMemoryClock);
static_assert(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH == kCudaAttributeMemoryBus);
static_assert(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ==
              kCudaAttributeVirtualMemory);
static_assert(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS ==
              kCudaAttributeStreamMemoryOperations);
static_assert(CU_STREAM_WAIT_VALUE_GEQ == kCudaWaitGreaterOrEqual);
static_assert(CU_STREAM_WRITE_VALUE_DEFAULT == kCudaWriteDefault);
static_assert(CU_MEM_ALLOCATION_TYPE_PINNED == kCudaAllocationPinned);
static_assert(CU_MEM_LOCATION_TYPE_DEVICE == kCudaLocationDevice);
static_assert(CU_MEM_ACCESS_FLAGS_PROT_READWRITE == kCudaAccessReadWrite);
static_assert(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM == kCudaSourceOrderStream);
static_assert(CU_DEV_RESOURCE_TYPE_SM == kCudaResourceSms);
static_assert(CU_GREEN_CTX_DEFAULT_STREAM == kCudaGreenDefaultStream);
static_assert(CU_STREAM_NON_BLOCKING == kCudaStreamNonBlocking);
static_assert(CU_MEMHOSTREGISTER_PORTABLE == kCudaRegisterPortable);
static_assert(CU_MEMHOSTREGISTER_DEVICEMAP == kCudaRegisterDeviceMap);
static_assert(CU_MEMHOSTREGISTER_READ_ONLY == kCudaRegisterReadOnly);
static_assert(CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED ==
              kCudaAttributeRegistersReadOnly);

}  // namespace
}  // namespace causeway::device

#endif
