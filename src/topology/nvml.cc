#include "topology/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>

namespace causeway::topology {
namespace {

constexpr int kSuccess = 0;
constexpr int kNotSupported = 3;
constexpr int kNoPermission = 4;
constexpr int kDriverNotLoaded = 9;
constexpr int kFunctionNotFound = 13;
constexpr int kVersionMismatch = 18;
constexpr unsigned kGpusMax = 256;
constexpr unsigned kNvLinksMax = 36;
constexpr unsigned kMigInstancesMax = 64;
constexpr int kRemoteIsSwitch = 2;
constexpr int kP2pByNvLink = 2;

// Calls an entry that the library may lack.
template <typename... Parameters, typename... Arguments>
int call(int (*entry)(Parameters...), Arguments... arguments) {
  return entry == nullptr ? kFunctionNotFound : entry(arguments...);
}

std::string reason(int result) {
  switch (result) {
    case kNotSupported: return "the device does not support it";
    case kNoPermission: return "no permission";
    case kDriverNotLoaded: return "the driver is not loaded";
    case kFunctionNotFound: return "the driver's library lacks the call";
    case kVersionMismatch: return "the library and the loaded driver are of different versions";
    case 15: return "the GPU has fallen off the bus";
    case 16: return "the operating system blocks it";
    default: return "error " + std::to_string(result);
  }
}

template <std::size_t kSize>
std::string text(const std::array<char, kSize>& buffer) {
  return std::string(buffer.data(), std::find(buffer.begin(), buffer.end(), '\0'));
}

// The library counts versions and their minor ones: 1.0, 2.0, 2.2, 3.0, 3.1, 4.0, 5.0 are 1 to 7.
int nvlink_version(unsigned counted) {
  constexpr std::array<int, 8> kVersions = {0, 1, 2, 2, 3, 3, 4, 5};
  return counted < kVersions.size() ? kVersions[counted] : 0;
}

int cores_per_sm(int compute) {
  // 64 on the data-centre chips up to Ampere, 128 since.
  return compute >= 70 && compute <= 80 ? 64 : 128;
}

class GpuReader {
 public:
  GpuReader(const NvmlApi& api, Machine& machine, std::vector<NvmlDevice> devices)
      : api_(api), machine_(machine), devices_(std::move(devices)) {}

  std::size_t size() const { return devices_.size(); }
  Gpu read(std::size_t index) {
    const NvmlDevice device = devices_[index];
    Gpu gpu;
    where_ = "GPU " + std::to_string(index);
    read_identity(device, gpu);
    read_pcie(device, gpu);
    read_nvlinks(device, gpu);
    read_mig(device, gpu);
    for (std::size_t peer = 0; peer < devices_.size(); ++peer) {
      int status = -1;
      if (peer != index &&
          call(api_.nvmlDeviceGetP2PStatus, device, devices_[peer], kP2pByNvLink, &status) ==
              kSuccess &&
          status == 0) {
        gpu.peers.push_back(static_cast<int>(peer));
      }
    }
    return gpu;
  }

 private:
  bool ok(int result, const char* what) {
    if (result == kSuccess) return true;
    machine_.notes.push_back(where_ + ": " + what + " is unknown: " + reason(result));
    return false;
  }

  void read_identity(NvmlDevice device, Gpu& gpu) {
    std::array<char, 96> name{};
    if (ok(call(api_.nvmlDeviceGetName, device, name.data(), 95u), "its name")) {
      gpu.name = text(name);
    }
    NvmlPciInfo pci;
    if (ok(call(api_.nvmlDeviceGetPciInfo_v3, device, &pci), "its place on the bus")) {
      pci.bus_id[31] = '\0';
      gpu.pci_id = normal_pci_id(pci.bus_id);
    }
    NvmlMemory memory;
    if (ok(call(api_.nvmlDeviceGetMemoryInfo, device, &memory), "its memory")) {
      gpu.memory = Bytes(static_cast<std::int64_t>(std::min(memory.total, 1ull << 50)));
    }
    int major = 0;
    int minor = 0;
    unsigned cores = 0;
    if (ok(call(api_.nvmlDeviceGetCudaComputeCapability, device, &major, &minor),
           "its compute capability")) {
      gpu.compute = 10 * major + minor;
      if (call(api_.nvmlDeviceGetNumGpuCores, device, &cores) == kSuccess) {
        gpu.sms = static_cast<int>(cores) / cores_per_sm(gpu.compute);
      }
    }
  }

  void read_pcie(NvmlDevice device, Gpu& gpu) {
    const auto number = [&](auto entry) {
      unsigned value = 0;
      return call(entry, device, &value) == kSuccess ? static_cast<int>(std::min(value, 64u)) : 0;
    };
    gpu.pcie_now = {number(api_.nvmlDeviceGetCurrPcieLinkGeneration),
                    number(api_.nvmlDeviceGetCurrPcieLinkWidth)};
    gpu.pcie_max = {number(api_.nvmlDeviceGetMaxPcieLinkGeneration),
                    number(api_.nvmlDeviceGetMaxPcieLinkWidth)};
    if (gpu.pcie_max.generation == 0 || gpu.pcie_max.lanes == 0) {
      machine_.notes.push_back(where_ + ": its PCIe link is unknown");
    }
  }

  void read_nvlinks(NvmlDevice device, Gpu& gpu) {
    for (unsigned link = 0; link < kNvLinksMax; ++link) {
      unsigned active = 0;
      if (call(api_.nvmlDeviceGetNvLinkState, device, link, &active) != kSuccess || active == 0) {
        continue;
      }
      ++gpu.nvlinks.active;
      unsigned version = 0;
      if (call(api_.nvmlDeviceGetNvLinkVersion, device, link, &version) == kSuccess) {
        gpu.nvlinks.version = nvlink_version(version);
      }
      int remote = -1;
      if (call(api_.nvmlDeviceGetNvLinkRemoteDeviceType, device, link, &remote) == kSuccess &&
          remote == kRemoteIsSwitch) {
        ++gpu.nvlinks.to_switch;
      }
    }
  }

  void read_mig(NvmlDevice device, Gpu& gpu) {
    unsigned now = 0;
    unsigned pending = 0;
    const int result = call(api_.nvmlDeviceGetMigMode, device, &now, &pending);
    if (result == kNotSupported) {
      gpu.mig = MigState::kUnsupported;
    } else if (result == kNoPermission) {
      gpu.mig = MigState::kNoPermission;
      machine_.notes.push_back(where_ + ": no permission to ask for its MIG state; slices by MIG " +
                               "need access to /dev/nvidia-caps, slices by SMs (green contexts) " +
                               "do not");
    } else if (ok(result, "its MIG state")) {
      gpu.mig = now != 0 ? MigState::kEnabled : MigState::kDisabled;
      if (now != pending) {
        machine_.notes.push_back(where_ + ": its MIG state changes with the next reset");
      }
    }
    if (gpu.mig == MigState::kEnabled) read_mig_instances(device, gpu);
  }

  void read_mig_instances(NvmlDevice device, Gpu& gpu) {
    unsigned count = 0;
    if (!ok(call(api_.nvmlDeviceGetMaxMigDeviceCount, device, &count),
            "the number of its MIG instances")) {
      return;
    }
    for (unsigned i = 0; i < std::min(count, kMigInstancesMax); ++i) {
      NvmlDevice instance = nullptr;
      const int found = call(api_.nvmlDeviceGetMigDeviceHandleByIndex, device, i, &instance);
      if (found == kNoPermission) {
        gpu.mig = MigState::kNoPermission;
        machine_.notes.push_back(where_ + ": MIG is on, but there is no permission to list its " +
                                 "instances: this user needs access to /dev/nvidia-caps");
        return;
      }
      if (found != kSuccess) continue;  // a slot without an instance
      unsigned gpu_instance = 0;
      unsigned compute_instance = 0;
      NvmlAttributes attributes;
      if (call(api_.nvmlDeviceGetGpuInstanceId, instance, &gpu_instance) != kSuccess ||
          call(api_.nvmlDeviceGetComputeInstanceId, instance, &compute_instance) != kSuccess ||
          call(api_.nvmlDeviceGetAttributes_v2, instance, &attributes) != kSuccess) {
        machine_.notes.push_back(where_ + ": a MIG instance could not be read");
        continue;
      }
      const auto mib_of = std::min(attributes.memory_mib, 1ull << 30);
      gpu.mig_instances.push_back(
          {static_cast<int>(gpu_instance), static_cast<int>(compute_instance),
           static_cast<int>(attributes.sms), mib(static_cast<std::int64_t>(mib_of))});
    }
  }

  const NvmlApi& api_;
  Machine& machine_;
  const std::vector<NvmlDevice> devices_;
  std::string where_;
};

std::string cuda_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void read_driver(const NvmlApi& api, Machine& machine) {
  std::array<char, 96> version{};
  if (call(api.nvmlSystemGetDriverVersion, version.data(), 95u) == kSuccess) {
    machine.driver = text(version);
  }
  if (call(api.nvmlSystemGetCudaDriverVersion_v2, &machine.cuda) != kSuccess) machine.cuda = 0;
  if (machine.cuda >= kCudaNeeded) return;
  machine.notes.push_back("the NVIDIA driver " + machine.driver + " is too old: it supports CUDA " +
                          cuda_text(machine.cuda) + ", and Causeway needs CUDA " +
                          cuda_text(kCudaNeeded) + " or newer (driver 580 or newer)");
}

// Ends the library's session.
class Session {
 public:
  explicit Session(const NvmlApi& api) : api_(api) {}
  ~Session() { (void)call(api_.nvmlShutdown); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  const NvmlApi& api_;
};

}  // namespace

Result<NvmlApi> load_nvml(const std::string& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return unavailable("no NVIDIA management library: " + std::string(why == nullptr ? "?" : why));
  }
  NvmlApi api;
#define CAUSEWAY_NVML_LOOK_UP(name, parameters) \
  api.name = reinterpret_cast<decltype(api.name)>(::dlsym(handle, #name));
  CAUSEWAY_NVML_ENTRIES(CAUSEWAY_NVML_LOOK_UP)
#undef CAUSEWAY_NVML_LOOK_UP
  if (api.nvmlInit_v2 == nullptr) return unavailable("'" + library + "' has no nvmlInit_v2");
  return api;
}

Status read_gpus(const NvmlApi& api, Machine& machine) {
  if (const int result = call(api.nvmlInit_v2); result != kSuccess) {
    const std::string what = "the NVIDIA management library does not start: " + reason(result);
    if (result == kDriverNotLoaded) return unavailable(what);
    return Error{ErrorCode::kDevice, what};
  }
  const Session session(api);
  read_driver(api, machine);
  unsigned count = 0;
  if (const int result = call(api.nvmlDeviceGetCount_v2, &count); result != kSuccess) {
    return Error{ErrorCode::kDevice, "the NVIDIA driver does not count GPUs: " + reason(result)};
  }
  std::vector<NvmlDevice> devices;
  for (unsigned i = 0; i < std::min(count, kGpusMax); ++i) {
    NvmlDevice device = nullptr;
    const int result = call(api.nvmlDeviceGetHandleByIndex_v2, i, &device);
    if (result == kSuccess) {
      devices.push_back(device);
    } else {
      machine.notes.push_back("a GPU cannot be opened: " + reason(result));
    }
  }
  GpuReader reader(api, machine, std::move(devices));
  for (std::size_t i = 0; i < reader.size(); ++i) machine.gpus.push_back(reader.read(i));
  return {};
}

}  // namespace causeway::topology
