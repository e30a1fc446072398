#include "device/cuda/cuda_api.h"

#include <dlfcn.h>

namespace causeway::device {
namespace {

constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE

std::string loader_error() {
  const char* text = ::dlerror();
  return text == nullptr ? "unknown error" : text;
}

template <typename Function>
Status look_up(void* library, const char* name, Function& entry) {
  entry = reinterpret_cast<Function>(::dlsym(library, name));
  if (entry != nullptr) return {};
  return Error{ErrorCode::kDevice, std::string("the NVIDIA driver lacks ") + name +
                                       "; a newer driver is needed: " + loader_error()};
}

Status check(const CudaApi& api, int result, const char* call) {
  if (result == 0) return {};
  const char* text = nullptr;
  if (api.cuGetErrorString(result, &text) != 0 || text == nullptr) text = "no description";
  const std::string message =
      std::string(call) + " failed with " + std::to_string(result) + ": " + text;
  if (result == kNoDevice) return unavailable("no NVIDIA GPU: " + message);
  return Error{ErrorCode::kDevice, message};
}

}  // namespace

Result<CudaApi> load_cuda_api(const std::string& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return unavailable("no NVIDIA driver: " + loader_error());
  CudaApi api;
  CAUSEWAY_TRY(look_up(handle, "cuInit", api.cuInit));
  CAUSEWAY_TRY(look_up(handle, "cuDriverGetVersion", api.cuDriverGetVersion));
  CAUSEWAY_TRY(look_up(handle, "cuDeviceGetCount", api.cuDeviceGetCount));
  CAUSEWAY_TRY(look_up(handle, "cuGetErrorString", api.cuGetErrorString));
  return api;
}

Result<CudaFacts> ask_cuda(const CudaApi& api) {
  CudaFacts facts;
  CAUSEWAY_TRY(check(api, api.cuInit(0), "cuInit"));
  CAUSEWAY_TRY(check(api, api.cuDriverGetVersion(&facts.driver_version), "cuDriverGetVersion"));
  CAUSEWAY_TRY(check(api, api.cuDeviceGetCount(&facts.devices), "cuDeviceGetCount"));
  if (facts.devices <= 0) return unavailable("no NVIDIA GPU: the driver lists none");
  return facts;
}

}  // namespace causeway::device
