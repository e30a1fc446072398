// GPUs by name, as `nvidia-smi -L` lists them: GPU-<uuid>, and MIG-<uuid> for an instance. A name
// may be cut where no other one begins alike, as CUDA_VISIBLE_DEVICES allows it.
//
//   management library ─▶ names of all GPUs ─┐
//   driver: PCI bus ids of those seen ───────┴─▶ "GPU-8f3c:2x56;GPU-01:all" ─▶ "1:2x56;0:all"
//
// A process has one MIG instance, the one that CUDA_VISIBLE_DEVICES names, as its GPU 0. Several
// instances therefore need several processes, each started with the name of its own instance.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "topology/nvml.h"

namespace causeway::topology {

struct NamedGpu {
  std::string uuid;                         // "GPU-…"
  std::string pci_id;                       // normal_pci_id()
  std::vector<std::string> instances = {};  // "MIG-…", those that permissions let us list
};

// Whether the text is a name, and not a number.
bool is_gpu_name(std::string_view text);

// The names of all GPUs of the machine, including those that the process does not see. kUnavailable
// or kDevice when the driver does not tell them.
Result<std::vector<NamedGpu>> read_gpu_names(const NvmlApi& api);

// The number, among the GPUs that the process sees, of the GPU with this name. `seen` are their PCI
// bus ids in any form, in the order of the numbers. kInvalidArgument lists the GPUs that there are.
Result<int> number_of_gpu(std::string_view name, std::span<const NamedGpu> gpus,
                          std::span<const std::string> seen);

// A MIG instance that a process can be started with.
struct ChosenInstance {
  std::string uuid;    // "MIG-…", whole
  std::string pci_id;  // of its GPU, whose link it shares; empty: unknown
};

// Whether a text for --slices names MIG instances, as the first of its entries does.
bool names_instances(std::string_view slices);

// The instances in a text such as "MIG-8f3c;MIG-01:all", each of which is one slice. Where the
// driver lists no instance at all, for want of permission, names are taken as they are.
// kInvalidArgument, with the list of instances, when a name is unknown, is given twice, has only a
// part of an instance, or stands beside slices that are not instances.
Result<std::vector<ChosenInstance>> instances_of_slices(std::string_view slices,
                                                        std::span<const NamedGpu> gpus);

// For each instance the first instance that shares its GPU, and so its link to host memory; the
// result numbers them as one link. Instances for which the driver does not tell the GPU are taken
// to share one.
int link_of_instance(std::span<const ChosenInstance> instances, int instance);

// Replaces the names of GPUs in a text for slice::parse_slices() by their numbers; the rest stays.
// Errors are those of number_of_gpu().
Result<std::string> with_gpu_numbers(std::string_view slices, std::span<const NamedGpu> gpus,
                                     std::span<const std::string> seen);

}  // namespace causeway::topology
