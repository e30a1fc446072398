// Measures the links of a machine through its devices, for measure_link_map(). Works on any
// backend.
//
// Used by one thread. Takes kBuffers times `bytes` on every device, and in host memory kBuffers
// times `bytes` for each device and once more.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "device/arena.h"
#include "transfer/engine.h"
#include "transfer/link_map.h"

namespace causeway::transfer {

struct DeviceProberOptions {
  Bytes bytes = mib(128);      // of each link in a probe
  Bytes copy_bytes = mib(16);  // of one copy
  TransferEngineOptions engine = {};
};

class DeviceProber final : public LinkProber {
 public:
  static constexpr int kBuffers = 4;  // so that a relayed probe takes some milliseconds

  // `devices` has one device of each GPU. Everything must outlive the prober. kResourceExhausted
  // when memory is short.
  static Result<std::unique_ptr<DeviceProber>> create(std::vector<device::Device*> devices,
                                                      device::HostMemory& memory,
                                                      const Clock& clock,
                                                      DeviceProberOptions options);
  DeviceProber(std::vector<device::Device*> devices, device::HostMemory& memory, const Clock& clock,
               DeviceProberOptions options);  // by create()
  ~DeviceProber() override;

  int links() const override { return static_cast<int>(devices_.size()); }
  bool can_copy(int source, int target) const override;
  Result<double> rate(Direction direction, LinkSet links, std::optional<int> target) override;
  Result<double> duplex_rate(int link) override;
  Result<double> peer_rate(int source, int target) override;

 private:
  // Copies that one stream makes one after the other.
  struct Lane {
    int mover = 0;  // device whose stream copies
    device::MemoryAddress target;
    device::MemoryAddress source;
  };
  Status set_up();
  Status find_peers();
  Status copy_once(const Lane& lane);
  Result<double> run(const std::vector<Lane>& lanes);
  Result<double> run_relayed(Direction direction, LinkSet links, int target);
  Status make_engine();
  device::MemoryAddress host(int link) const;
  Lane crossing(Direction direction, int link) const;
  Lane between(int source, int target) const;

  const std::vector<device::Device*> devices_;
  device::HostMemory& memory_;
  const Clock& clock_;
  const DeviceProberOptions options_;
  RegionId region_;
  std::vector<device::Extents> extents_;
  std::vector<LinkSet> peers_;              // by source: the links that it can copy to
  std::unique_ptr<TransferEngine> engine_;  // for relayed probes; made by the first
};

}  // namespace causeway::transfer
