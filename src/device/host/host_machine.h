// The CPU backend: a machine whose devices are threads and memory of this process. It is the
// default without a GPU, and the tests of all rooms above run on it.
//
//   HostMachine ─┬─ HostMemory (the caller's)      host regions
//                ├─ LinkPacer                      bandwidth, latency, sharing (optional)
//                ├─ EventBoard
//                └─ devices ─┬─ Arena              extents of ordinary memory
//                            └─ streams            one thread each, also its own copy engine
//
// Thread-safe. Devices must be destroyed before their machine.
#pragma once

#include <memory>
#include <optional>

#include "base/clock.h"
#include "device/arena.h"
#include "device/device.h"
#include "device/link_profile.h"

namespace causeway::device {

struct HostMachineOptions {
  int devices = 1;                        // physical ones; slices share them
  std::optional<LinkProfile> links = {};  // none: copies are as fast as memcpy
  Bytes extent_bytes = kExtentBytes;
};

class HostMachine {
 public:
  // The clock and the host memory must outlive the machine. kInvalidArgument for a bad profile.
  static Result<std::unique_ptr<HostMachine>> create(HostMachineOptions options, const Clock& clock,
                                                     HostMemory& memory);
  ~HostMachine();
  HostMachine(const HostMachine&) = delete;
  HostMachine& operator=(const HostMachine&) = delete;

  // Opens a slice. Slices of one physical device share its links, not its arena.
  Result<std::unique_ptr<Device>> open(const SliceSpec& slice);

  int devices() const;
  int processors() const;      // threads, which all devices share
  Bytes extent_bytes() const;  // of the devices' arenas
  // Whether copies of one physical device reach another's memory.
  bool reaches(int source, int target) const;
  const std::optional<LinkProfile>& links() const;

  // Bytes really copied between two ends (physical devices or kHostEnd), and bytes that the model
  // counted on a resource of the profile.
  Bytes moved(int source, int target, CopyPriority priority) const;
  Bytes accounted(int resource) const;

  class State;
  explicit HostMachine(std::unique_ptr<State> state);  // for create()

 private:
  std::unique_ptr<State> state_;
};

}  // namespace causeway::device
