// The shared state of a CudaMachine's parts. Private to device/cuda.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "device/cuda/cuda_event_board.h"
#include "device/cuda/cuda_host_regions.h"
#include "device/cuda/cuda_kernel_loading.h"
#include "device/cuda/cuda_machine.h"
#include "device/cuda/cuda_semaphore.h"
#include "device/cuda/cuda_stream_waits.h"

namespace causeway::device {

class CudaMachine::State {
 public:
  State(const CudaApi& table, CudaMachineOptions machine_options, const Clock& machine_clock,
        HostMemory& host_memory)
      : api(table), options(machine_options), clock(machine_clock), regions(host_memory, waits) {}

  struct Opened {
    int physical = 0;
    Arena* arena = nullptr;
  };
  // nullopt: no such device is open.
  std::optional<Opened> find(DeviceId id) const {
    const std::lock_guard lock(mutex);
    const auto found = devices.find(id);
    if (found == devices.end()) return std::nullopt;
    return found->second;
  }

  const CudaApi api;
  const CudaMachineOptions options;
  const Clock& clock;
  std::vector<std::unique_ptr<CudaPhysical>> gpus;
  CudaStreamWaits waits;
  CudaLoadingRespects loading{waits};
  CudaHostRegions regions;  // destroyed before the GPUs
  CudaEventBoard events;
  CudaSemaphorePool semaphores{waits};  // destroyed before the regions

  mutable std::mutex mutex;  // guards what follows
  std::map<DeviceId, Opened> devices;
  std::int64_t next_device = 0;
};

}  // namespace causeway::device
