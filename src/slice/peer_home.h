// Another device's memory as the home of weights. Attached models are stored there as well as in
// host memory, and their groups come to a slice over the link between the two devices, which for
// NVLink is seven times as fast as the link to the host (docs/design/peer_home.md).
//
//   host memory ── once, when a slice attaches the model ──▶ peer's arena ── groups ──▶ slice
//
// Thread-safe; add() and remove() wait for one another.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "base/result.h"
#include "device/arena.h"
#include "device/device.h"
#include "transfer/engine.h"
#include "weights/model_pool.h"

namespace causeway::slice {

class PeerHome {
 public:
  // `engine` brings bytes from host memory to the device.
  PeerHome(std::unique_ptr<device::Device> device,
           std::unique_ptr<transfer::TransferEngine> engine);

  // Returns the address of the model's first byte, after copying the model there if necessary. Each
  // success needs one remove(). Blocks for the copies. kResourceExhausted, with the numbers: the
  // device has no memory left for it; or a device's error.
  Result<device::MemoryAddress> add(ModelId model, const weights::PinnedModel& home);
  // Call it when no copy from there is under way any more.
  void remove(ModelId model);

  Bytes bytes() const;  // of the stored models, in whole extents

  // Measures the bytes per second from here to `target`. Blocks for some milliseconds; nothing else
  // may copy meanwhile. Needs memory of both devices for a few extents.
  Result<double> measure_rate(device::Device& target);

 private:
  struct Model {
    device::AddressRange range;
    int users = 0;
  };

  Status fill(const device::AddressRange& range, const weights::PinnedModel& home);

  const std::unique_ptr<device::Device> device_;
  const std::unique_ptr<transfer::TransferEngine> engine_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<ModelId, Model> models_;
};

}  // namespace causeway::slice
