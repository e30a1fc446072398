// A machine as a graph: CPUs and NUMA nodes, PCI bridges, GPUs, and the NVLinks between them. Plain
// data, discovered (discover.h), recorded and read again (snapshot.h), so that tests and simulation
// can use the topology of real machines.
//
//   machine ─┬─ package 0 ─── numa 0 ─── bridge (host) ─┬─ bridge 00:1c.0 ─── gpu 0 ═╗ NVLink
//            │                                          └─ bridge 00:1d.0 ─── gpu 1 ═╝ (peers)
//            └─ package 1 ─── numa 1 ─── …
//
// The tree is an array: each node names its parent, which comes before it; node 0 is the machine.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace causeway::topology {

enum class NodeKind { kMachine, kPackage, kNuma, kBridge, kGpu };
std::string_view name_of(NodeKind kind);

struct Node {
  NodeKind kind = NodeKind::kMachine;
  int parent = -1;   // index into Machine::nodes; -1: none (the machine)
  std::string name;  // the processor's model; the bridge's bus id, "" for the host's own
  int index = -1;    // of a NUMA node or package as the system counts, of a GPU in Machine::gpus
  std::string cpus;  // of a package or NUMA node: those this process may use, "0-7,16"
  Bytes memory;      // of a NUMA node
};

struct PcieLink {
  int generation = 0;  // 0: unknown
  int lanes = 0;
  // What the wires carry one way, less the encoding, before packet headers; 0: unknown.
  double bytes_per_second() const;
};

enum class MigState { kUnknown, kUnsupported, kNoPermission, kDisabled, kEnabled };
std::string_view name_of(MigState state);

struct MigInstance {
  int gpu_instance = 0;
  int compute_instance = 0;
  int sms = 0;
  Bytes memory;
};

// NVLinks of one GPU.
struct NvLinks {
  int version = 0;  // 0: none
  int active = 0;   // ports
  int to_switch = 0;
  // One way, all active ports, by specification.
  double bytes_per_second() const;
};

struct Gpu {
  std::string name;    // "NVIDIA H200"
  std::string pci_id;  // "0000:1b:00.0"
  Bytes memory;
  int sms = 0;        // 0: unknown
  int compute = 0;    // 10 × major + minor; 0: unknown
  int numa = -1;      // -1: unknown
  PcieLink pcie_now;  // a GPU at rest may have stepped down
  PcieLink pcie_max;
  NvLinks nvlinks;
  std::vector<int> peers;  // GPUs it reaches by NVLink, in order
  MigState mig = MigState::kUnknown;
  std::vector<MigInstance> mig_instances;
};

struct Machine {
  std::vector<Node> nodes;
  std::vector<Gpu> gpus;
  int cores = 0;           // physical ones of the machine
  int cpus = 0;            // logical ones of the machine
  int cpus_usable = 0;     // by affinity and control group
  double cpu_quota = 0;    // CPUs' worth of time that a control group allows; 0: no limit
  Bytes memory;            // of the machine
  Bytes memory_available;  // to this process
  std::string memory_limited_by;
  std::string driver;  // "580.159.03"; "" without one
  int cuda = 0;        // 1000 × major + 10 × minor that the driver supports; 0 without one
  // Sentences for people on what could not be found out, and why.
  std::vector<std::string> notes;
};

// Whether the graph makes sense: parents before children, indices in range. kCorrupt names what
// does not.
Status check(const Machine& machine);

// The node of a GPU; -1 when the tree does not have the GPU.
int node_of_gpu(const Machine& machine, int gpu);

// "0000:1b:00.0" from any common form ("00000000:1B:00.0", "1b:00.0"); "" when the text is no bus
// id.
std::string normal_pci_id(std::string_view id);

}  // namespace causeway::topology
