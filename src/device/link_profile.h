// The links of a machine as data: resources, and which of them the bytes between two memories
// cross. A profile is written down from measurements; topology and transfer make them for real
// machines, tests choose their own.
#pragma once

#include <vector>

#include "base/result.h"
#include "device/link_model.h"

namespace causeway::device {

// An end of a path: the index of a physical device, or the host.
inline constexpr int kHostEnd = -1;

struct LinkPath {
  int source = kHostEnd;
  int target = kHostEnd;
  std::vector<int> route;  // indices into LinkProfile::resources
  Nanos latency;           // before the first byte
  // What one byte counts on each resource of the route; empty: 1 on each.
  std::vector<double> costs = {};
};

struct LinkProfile {
  std::vector<LinkResource> resources;
  std::vector<LinkPath> paths;

  // nullptr when bytes cannot go directly from one to the other.
  const LinkPath* find(int source, int target) const;
};

// Checks a profile from outside: positive finite bandwidths, routes over known resources, one path
// for each pair of ends. kInvalidArgument names what is wrong.
Status check(const LinkProfile& profile);

// Devices on links of their own to one host, groups of them behind switches (or sockets), and links
// between all devices. Defaults: an H200 on PCIe 5 x16 with NVLink, as measured.
//
//   host ═╦═ switch 0 ═╦═ device 0     host → device: switch.down, device.in, device.duplex
//         ║            ╚═ device 1     device → host: switch.up, device.out, device.duplex
//         ╚═ switch 1 ═══ device 2     device → peer: out and in of the devices' peer links
struct LinkTree {
  int devices = 1;
  double link = 55e9;          // bytes per second, each way
  double link_duplex = 97e9;   // both ways together
  int devices_per_switch = 0;  // 0: no switches
  double switch_link = 0;      // each way, when there are switches
  double peer_link = 395e9;    // each device, each way; 0: no peer copies
  Nanos latency = micros(10);
};

LinkProfile make_link_tree(const LinkTree& tree);

}  // namespace causeway::device
