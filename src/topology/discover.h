// What this machine is made of: CPUs, NUMA nodes and PCI from hwloc, GPUs from NVIDIA's management
// library, joined by PCI bus id. Reads only.
#pragma once

#include <string>

#include "topology/nvml.h"
#include "topology/topology.h"

namespace causeway::topology {

struct DiscoverOptions {
  // The management library; nullptr when there is none. The reason is then a note.
  const NvmlApi* nvml = nullptr;
  std::string no_nvml_because;
  // The host memory that this process may still use, and what limits it.
  Bytes memory_available;
  std::string memory_limited_by;
  // Where the kernel's files are mounted; tests pass folders of their own.
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
  // A machine described by hwloc (lstopo --of xml) instead of this one; "" for this one.
  std::string hwloc_xml;
};

// Without a GPU or a driver: the machine's CPU part, with notes that say why. kIo when hwloc fails.
Result<Machine> discover(const DiscoverOptions& options);

// The CPU time, in CPUs, that the process's control groups allow; 0 when no group limits it.
double read_cpu_quota(const std::string& proc, const std::string& cgroup);

}  // namespace causeway::topology
