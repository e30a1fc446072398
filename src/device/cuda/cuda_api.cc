#include "device/cuda/cuda_api.h"

#include <dlfcn.h>

#include <algorithm>
#include <iterator>

namespace causeway::device {
namespace {

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

Status check_version(const CudaApi& api, int& version) {
  if (const int result = api.cuDriverGetVersion(&version); result != kCudaSuccess) {
    return cuda_error(api, result, "cuDriverGetVersion");
  }
  if (version >= kCudaVersionMin) return {};
  return unsupported("the NVIDIA driver is too old: it supports CUDA " +
                     cuda_version_text(version) + ", and Causeway needs CUDA " +
                     cuda_version_text(kCudaVersionMin) + " or newer; update the driver");
}

// Advice for a driver that does not start; "" when there is none.
std::string advice(int result) {
  switch (result) {
    case kCudaStubLibrary:
      return "libcuda.so.1 is the toolkit's stub: install the driver, or take the folder of stubs "
             "out of the linker's search path";
    case kCudaDeviceUnavailable:
      return "another process has the GPU for itself: end it, or set the GPU's compute mode to "
             "default";
    case kCudaNoDevice:
    case kCudaInvalidDevice:
      return "the driver shows this process no such GPU: `nvidia-smi -L` lists the machine's; a "
             "GPU in MIG mode needs an instance, and this process access to it in "
             "/dev/nvidia-caps";
    case kCudaOperatingSystem:
      return "this process cannot open /dev/nvidia*: give it (its container, its user) the devices";
    case kCudaNotPermitted:
      return "this process may not use the GPU: with MIG it needs the instance's devices in "
             "/dev/nvidia-caps";
    case kCudaSystemNotReady:
      return "the system is not ready: GPUs behind NVSwitch need nvidia-fabricmanager running";
    case kCudaDriverMismatch:
      return "the driver's library and kernel module are of different versions: reload the module "
             "or reboot";
    case kCudaCompatNotSupported:
      return "the compatibility library in use does not serve this GPU: update the driver itself";
    default: return "";
  }
}

// The error of a call that starts the driver.
Error start_error(const CudaApi& api, int result, const char* call) {
  Error error = cuda_error(api, result, call);
  if (const std::string what = advice(result); !what.empty()) error.message += "; " + what;
  return error;
}

}  // namespace

std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Error cuda_error(const CudaApi& api, int result, const char* call) {
  const char* text = nullptr;
  if (api.cuGetErrorString == nullptr || api.cuGetErrorString(result, &text) != kCudaSuccess ||
      text == nullptr) {
    text = "no description";
  }
  const std::string message =
      std::string(call) + " failed with " + std::to_string(result) + ": " + text;
  if (result == kCudaNoDevice) return unavailable("no NVIDIA GPU: " + message);
  if (result == kCudaOutOfMemory) return exhausted(message);
  if (result == kCudaNotSupported) return unsupported(message);
  return {ErrorCode::kDevice, message};
}

bool cuda_context_lost(int result) {
  // Deinitialised, device unavailable, ECC, NVLink, contained error; illegal address, time-out,
  // destroyed context, assert; stack, instruction, alignment, address space, program counter,
  // launch failure; tensor memory leak; unknown.
  constexpr int kLost[] = {4,   46,  214, 220, 226, 700, 702, 709, 710,
                           714, 715, 716, 717, 718, 719, 721, 999};
  return std::find(std::begin(kLost), std::end(kLost), result) != std::end(kLost);
}

Result<CudaApi> load_cuda_api(const std::string& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return unavailable("no NVIDIA driver: " + loader_error() + "; install one for CUDA " +
                       cuda_version_text(kCudaVersionMin) +
                       " or newer, or make its library visible to this process");
  }
  CudaApi api;
  // The version is checked first, so that an old driver is reported as such, and not by the first
  // symbol that it lacks.
  CAUSEWAY_TRY(look_up(handle, "cuDriverGetVersion", api.cuDriverGetVersion));
  int version = 0;
  CAUSEWAY_TRY(check_version(api, version));
#define CAUSEWAY_CUDA_LOOK_UP(name, parameters) CAUSEWAY_TRY(look_up(handle, #name, api.name));
  CAUSEWAY_CUDA_ENTRIES(CAUSEWAY_CUDA_LOOK_UP)
#undef CAUSEWAY_CUDA_LOOK_UP
  return api;
}

Result<CudaFacts> ask_cuda(const CudaApi& api) {
  CudaFacts facts;
  CAUSEWAY_TRY(check_version(api, facts.driver_version));
  if (const int result = api.cuInit(0); result != kCudaSuccess) {
    return start_error(api, result, "cuInit");
  }
  if (const int result = api.cuDeviceGetCount(&facts.devices); result != kCudaSuccess) {
    return start_error(api, result, "cuDeviceGetCount");
  }
  if (facts.devices <= 0) {
    return unavailable("no NVIDIA GPU: the driver lists none; " + advice(kCudaNoDevice));
  }
  return facts;
}

}  // namespace causeway::device
