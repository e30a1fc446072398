// What the engine moves per second, by size and direction, beside what the same run's native copy
// moves over the target's own link and what the best links give together to their own GPUs.
#pragma once

#include <functional>
#include <vector>

#include "transfer/device_prober.h"

namespace causeway::transfer::bench {

struct TransferBenchOptions {
  std::vector<Bytes> sizes;
  int runs = 7;    // timed, after one that warms up
  int target = 0;  // link index
  TransferEngineOptions engine = {};
};

struct Spread {
  double median = 0, low = 0, high = 0;  // bytes per second
};

struct TransferBenchRow {
  Direction direction = Direction::kIn;
  Bytes bytes;
  Spread native;
  Spread ours;
  double limit = 0;    // the most that the map has for any set of links
  double relayed = 0;  // share of the bytes that crossed between GPUs
};

// Devices as for TransferEngine, one a GPU. The bytes that arrive are compared: kCorrupt. Needs the
// largest size once on the target and twice in host memory.
Result<std::vector<TransferBenchRow>> run_transfer_bench(
    const std::vector<device::Device*>& devices, device::HostMemory& memory, const Clock& clock,
    const LinkMap& map, const TransferBenchOptions& options,
    const std::function<void(const TransferBenchRow&)>& progress);

}  // namespace causeway::transfer::bench
