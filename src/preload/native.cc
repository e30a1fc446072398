#include "preload/native.h"

#include <string>
#include <type_traits>

namespace causeway::preload {
namespace {

template <typename Function>
void look_up_into(Function& entry, LookUp look_up, const char* name) {
  static_assert(std::is_pointer_v<Function>, "an entry is a function's address");
  entry = reinterpret_cast<Function>(look_up(name));
}

Error lacks(const char* name) {
  return unsupported(std::string("the NVIDIA driver lacks ") + name + ": it is older than CUDA " +
                     device::cuda_version_text(device::kCudaVersionMin));
}

}  // namespace

Native load_native(LookUp look_up) {
  Native native;
#define CAUSEWAY_PRELOAD_LOOK_UP(name, ...) look_up_into(native.name, look_up, #name);
#define CAUSEWAY_PRELOAD_LOOK_UP_API(name, ...) look_up_into(native.api.name, look_up, #name);
  CAUSEWAY_CUDA_ENTRIES(CAUSEWAY_PRELOAD_LOOK_UP_API)
  CAUSEWAY_PRELOAD_NEEDED(CAUSEWAY_PRELOAD_LOOK_UP)
  CAUSEWAY_PRELOAD_COPIES(CAUSEWAY_PRELOAD_LOOK_UP)
  CAUSEWAY_PRELOAD_BATCHES(CAUSEWAY_PRELOAD_LOOK_UP)
  CAUSEWAY_PRELOAD_SETTLING(CAUSEWAY_PRELOAD_LOOK_UP)
  CAUSEWAY_PRELOAD_UNLOADING(CAUSEWAY_PRELOAD_LOOK_UP)
  CAUSEWAY_PRELOAD_LOADING(CAUSEWAY_PRELOAD_LOOK_UP)
  CAUSEWAY_PRELOAD_GRAPHS(CAUSEWAY_PRELOAD_LOOK_UP)
  CAUSEWAY_PRELOAD_LAUNCHES(CAUSEWAY_PRELOAD_LOOK_UP)
#undef CAUSEWAY_PRELOAD_LOOK_UP
#undef CAUSEWAY_PRELOAD_LOOK_UP_API
  look_up_into(native.cuDevicePrimaryCtxReset, look_up, "cuDevicePrimaryCtxReset");
  look_up_into(native.cuStreamGetCtx, look_up, "cuStreamGetCtx");
  look_up_into(native.cuDevicePrimaryCtxReset_v2, look_up, "cuDevicePrimaryCtxReset_v2");
  look_up_into(native.cuMemGetAccess, look_up, "cuMemGetAccess");
  look_up_into(native.cuCtxGetId, look_up, "cuCtxGetId");
  look_up_into(native.cuGetProcAddress, look_up, "cuGetProcAddress");
  look_up_into(native.cuGetProcAddress_v2, look_up, "cuGetProcAddress_v2");
  return native;
}

bool is_capturing(const Native& native, CUstream_st* stream) {
  int capturing = 0;
  return native.api.cuStreamIsCapturing != nullptr &&
         native.api.cuStreamIsCapturing(stream, &capturing) == device::kCudaSuccess &&
         capturing != 0;
}

Status check_complete(const Native& native) {
#define CAUSEWAY_PRELOAD_CHECK(name, ...) \
  if (native.name == nullptr) return lacks(#name);
#define CAUSEWAY_PRELOAD_CHECK_API(name, ...) \
  if (native.api.name == nullptr) return lacks(#name);
  CAUSEWAY_CUDA_ENTRIES(CAUSEWAY_PRELOAD_CHECK_API)
  CAUSEWAY_PRELOAD_NEEDED(CAUSEWAY_PRELOAD_CHECK)
#undef CAUSEWAY_PRELOAD_CHECK
#undef CAUSEWAY_PRELOAD_CHECK_API
  return {};
}

}  // namespace causeway::preload
