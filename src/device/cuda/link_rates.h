// Measures the links of a machine through its devices: host to device, back, both at once, and
// between devices. Works on any backend; made for GPUs, where each takes about a second.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "device/device.h"

namespace causeway::device {

// The median of the runs, and the slowest and the fastest, in bytes per second.
struct LinkRate {
  double median = 0;
  double low = 0;
  double high = 0;
};

struct DeviceLinkRates {
  LinkRate in;    // host → device
  LinkRate out;   // device → host
  LinkRate both;  // the sum of both ways at once
};

struct PeerLinkRates {
  int source = 0;  // indices into the devices
  int target = 0;
  LinkRate one_way;
  LinkRate both;  // the sum, with the opposite direction at the same time
};

struct MachineLinkRates {
  std::vector<DeviceLinkRates> devices;
  std::vector<PeerLinkRates> peers;  // every ordered pair that can copy
  // All devices from, and to, the host at once; 0 with one device.
  LinkRate all_in;
  LinkRate all_out;
};

struct LinkRateOptions {
  Bytes bytes = mib(256);  // of one copy
  int copies = 4;          // one after the other in a run and direction
  int runs = 7;            // timed, after one that warms up
};

// Needs two buffers of `bytes` on every device, and in host memory one for each device and one
// more. Received bytes are compared with those sent: kCorrupt if they differ.
Result<MachineLinkRates> measure_links(std::span<Device* const> devices, HostMemory& memory,
                                       const LinkRateOptions& options = {});

}  // namespace causeway::device
