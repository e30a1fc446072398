// NVIDIA's management library as a table of entry points, opened at run time: its header is in no
// toolkit, its library comes with the driver. Only reading calls are in it; nothing is ever
// changed.
#pragma once

#include <string>

#include "base/result.h"
#include "topology/topology.h"

struct nvmlDevice_st;

namespace causeway::topology {

using NvmlDevice = nvmlDevice_st*;

// Layouts of the library's interface.
struct NvmlPciInfo {
  char bus_id_legacy[16] = {};
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  unsigned device_id = 0;
  unsigned subsystem_id = 0;
  char bus_id[32] = {};
};
struct NvmlMemory {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};
struct NvmlAttributes {
  unsigned sms = 0;
  unsigned engines[5] = {};
  unsigned gpu_slices = 0;
  unsigned compute_slices = 0;
  unsigned long long memory_mib = 0;
};

// X(name, (parameters)); the result is an nvmlReturn_t, 0 for success.
#define CAUSEWAY_NVML_ENTRIES(X)                                                                  \
  X(nvmlInit_v2, ())                                                                              \
  X(nvmlShutdown, ())                                                                             \
  X(nvmlSystemGetDriverVersion, (char* version, unsigned length))                                 \
  X(nvmlSystemGetCudaDriverVersion_v2, (int* version))                                            \
  X(nvmlDeviceGetCount_v2, (unsigned* count))                                                     \
  X(nvmlDeviceGetHandleByIndex_v2, (unsigned index, NvmlDevice* device))                          \
  X(nvmlDeviceGetName, (NvmlDevice device, char* name, unsigned length))                          \
  X(nvmlDeviceGetUUID, (NvmlDevice device, char* uuid, unsigned length))                          \
  X(nvmlDeviceGetPciInfo_v3, (NvmlDevice device, NvmlPciInfo * info))                             \
  X(nvmlDeviceGetMemoryInfo, (NvmlDevice device, NvmlMemory * memory))                            \
  X(nvmlDeviceGetNumGpuCores, (NvmlDevice device, unsigned* cores))                               \
  X(nvmlDeviceGetCudaComputeCapability, (NvmlDevice device, int* major, int* minor))              \
  X(nvmlDeviceGetCurrPcieLinkGeneration, (NvmlDevice device, unsigned* generation))               \
  X(nvmlDeviceGetCurrPcieLinkWidth, (NvmlDevice device, unsigned* lanes))                         \
  X(nvmlDeviceGetMaxPcieLinkGeneration, (NvmlDevice device, unsigned* generation))                \
  X(nvmlDeviceGetMaxPcieLinkWidth, (NvmlDevice device, unsigned* lanes))                          \
  X(nvmlDeviceGetNvLinkState, (NvmlDevice device, unsigned link, unsigned* active))               \
  X(nvmlDeviceGetNvLinkVersion, (NvmlDevice device, unsigned link, unsigned* version))            \
  X(nvmlDeviceGetNvLinkRemotePciInfo_v2, (NvmlDevice device, unsigned link, NvmlPciInfo* remote)) \
  X(nvmlDeviceGetNvLinkRemoteDeviceType, (NvmlDevice device, unsigned link, int* type))           \
  X(nvmlDeviceGetP2PStatus, (NvmlDevice device, NvmlDevice peer, int index, int* status))         \
  X(nvmlDeviceGetMigMode, (NvmlDevice device, unsigned* now, unsigned* pending))                  \
  X(nvmlDeviceGetMaxMigDeviceCount, (NvmlDevice device, unsigned* count))                         \
  X(nvmlDeviceGetMigDeviceHandleByIndex,                                                          \
    (NvmlDevice device, unsigned index, NvmlDevice* instance))                                    \
  X(nvmlDeviceGetGpuInstanceId, (NvmlDevice instance, unsigned* id))                              \
  X(nvmlDeviceGetComputeInstanceId, (NvmlDevice instance, unsigned* id))                          \
  X(nvmlDeviceGetAttributes_v2, (NvmlDevice instance, NvmlAttributes * attributes))

struct NvmlApi {
#define CAUSEWAY_NVML_MEMBER(name, parameters) int(*name) parameters = nullptr;
  CAUSEWAY_NVML_ENTRIES(CAUSEWAY_NVML_MEMBER)
#undef CAUSEWAY_NVML_MEMBER
};

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";
inline constexpr int kCudaNeeded = 13'000;  // as device/cuda's kCudaVersionMin

// Opens the library; kUnavailable when there is none. Entries that an old library lacks stay null,
// and what they would tell is unknown. The library stays loaded until the process ends.
Result<NvmlApi> load_nvml(const std::string& library = kNvmlLibrary);

// Adds the driver and its GPUs to a machine. Facts that cannot be found out become notes. An error
// (kUnavailable, kDevice) means that no GPU could be read.
Status read_gpus(const NvmlApi& api, Machine& machine);

}  // namespace causeway::topology
