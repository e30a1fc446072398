// Host memory that is the home of weights and KV twins: memfd regions, addressed by (region,
// offset) so that tables hold no raw pointers and a region can be shared with worker processes and
// survive them (docs/decisions/0014-seams.md). Huge pages where granted, first touch in parallel.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace causeway::device {

// For messages, in whole MiB.
inline std::string in_mib(Bytes bytes) { return std::to_string(bytes.count >> 20) + " MiB"; }

struct HostAddress {
  RegionId region;
  Bytes offset;
  constexpr auto operator<=>(const HostAddress&) const = default;
};

struct HostRegionOptions {
  std::string name;        // shown in /proc/<pid>/maps
  Bytes bytes;             // rounded up to a whole page
  bool huge_pages = true;  // preferred, never required
  int touch_threads = 0;   // parallel first touch; 0: one a CPU, at most 16
};

// The access that a process has to memory that another process made.
enum class HostAccess : std::uint8_t {
  kRead,   // a write to it is a fault
  kWrite,  // what every GPU's driver registers; some register kRead, too
};

// Is told that a region is about to be released, while its bytes are still there (a backend that
// registered it).
class HostRegionWatcher {
 public:
  virtual ~HostRegionWatcher() = default;
  virtual void releasing(RegionId region) = 0;
};

class HostMemory {
 public:
  HostMemory();
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  // Maps and touches a region. kResourceExhausted when the system has less memory; that is checked
  // before touching, so that a large request is refused instead of calling the OOM killer.
  Result<RegionId> allocate(const HostRegionOptions& options);
  // A region that another process allocated and shares by its descriptor, which is duplicated: the
  // memory lives until both have released it. `bytes`: how much of it will be used. kCorrupt: it is
  // no memfd of a HostMemory (whose size is sealed, so that no access can go beyond its end), or it
  // is smaller; kIo. No memory is touched.
  Result<RegionId> adopt(int file_descriptor, Bytes bytes, HostAccess access);
  // Unmaps, after telling the watchers. The region's bytes may not be used any more.
  Status release(RegionId region);
  // Calls the watcher until unwatch(), which returns when no call is under way. A watcher must call
  // neither from releasing(), which several threads may call at once, each for a region of its own.
  void watch(HostRegionWatcher* watcher);
  void unwatch(HostRegionWatcher* watcher);

  // The bytes at an address. The range must lie inside the region (a CHECK fails otherwise).
  std::span<std::byte> resolve(HostAddress address, Bytes bytes) const;
  // The memfd, for sharing with another process. This object owns it.
  int file_descriptor(RegionId region) const;
  Bytes region_bytes(RegionId region) const;
  HostAccess access(RegionId region) const;  // kWrite to what this object allocated
  Bytes total_bytes() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace causeway::device
