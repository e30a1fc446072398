// The shared state of a HostMachine's parts. Private to device/host.
#pragma once

#include <map>
#include <mutex>

#include "device/host/event_board.h"
#include "device/host/host_machine.h"
#include "device/host/host_semaphore.h"
#include "device/host/link_pacer.h"

namespace causeway::device {

class HostMachine::State {
 public:
  State(HostMachineOptions machine_options, const Clock& machine_clock, HostMemory& host_memory)
      : options(std::move(machine_options)),
        clock(machine_clock),
        memory(host_memory),
        pacer(machine_clock, options.links) {}

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

  const HostMachineOptions options;
  const Clock& clock;
  HostMemory& memory;
  LinkPacer pacer;
  EventBoard events;
  SemaphoreBoard semaphores;

  mutable std::mutex mutex;  // guards what follows
  std::map<DeviceId, Opened> devices;
  std::int64_t next_device = 0;
};

}  // namespace causeway::device
