// Devices of the CPU backend on modelled links, for benchmarks that say nothing of any GPU.
#pragma once

#include "device/link_profile.h"
#include "slice/machine.h"

namespace causeway::bench {

struct ModelledMachine {
  double link = 0;  // bytes per second, each way; 0: as fast as memory
  int devices = 1;
  slice::LinkOptions links = {};
};

inline Result<std::unique_ptr<slice::Machine>> open_modelled(const ModelledMachine& modelled,
                                                             slice::ModelHome& home,
                                                             const Clock& clock) {
  device::HostMachineOptions host{.devices = modelled.devices, .extent_bytes = mib(2)};
  if (modelled.link > 0) {
    host.links = device::make_link_tree({.devices = modelled.devices,
                                         .link = modelled.link,
                                         .link_duplex = 1.8 * modelled.link,
                                         .peer_link = 7 * modelled.link});
  }
  slice::LinkOptions links = modelled.links;
  links.engine.dispatch.multipath_bytes_min = mib(2);  // its links are slow
  return slice::Machine::open_host(std::move(host), std::move(links), home, clock);
}

}  // namespace causeway::bench
