// GPUs by name, as `nvidia-smi -L` lists them: GPU-<uuid>, and MIG-<uuid> for an instance. A name
// may be cut where no other one begins alike, as CUDA_VISIBLE_DEVICES allows it.
//
//   management library ─▶ names of all GPUs ─┐
//   driver: PCI bus ids of those seen ───────┴─▶ "GPU-8f3c:2x56;GPU-01:all" ─▶ "1:2x56;0:all"
//
// A process has one MIG instance, the one that CUDA_VISIBLE_DEVICES names, as its GPU 0. So several
// are for several processes, each of which is started with the name of its own.
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
  std::vector<std::string> instances = {};  // "MIG-…", as far as there is permission to list them
};

// Whether the text is a name, and not a number.
bool is_gpu_name(std::string_view text);

// Of all GPUs of the machine, whatever the process sees. kUnavailable, kDevice: the driver does not
// say.
Result<std::vector<NamedGpu>> read_gpu_names(const NvmlApi& api);

// The number, among those that the process sees, of the GPU of this name. `seen`: their PCI bus ids
// in any form, by number. kInvalidArgument says what there is.
Result<int> number_of_gpu(std::string_view name, std::span<const NamedGpu> gpus,
                          std::span<const std::string> seen);

// A MIG instance that a process can be started with.
struct ChosenInstance {
  std::string uuid;    // "MIG-…", whole
  std::string pci_id;  // of its GPU, whose link it shares; empty: the driver does not say
};

// Whether a text for --slices names MIG instances, as the first of its entries does.
bool names_instances(std::string_view slices);

// The instances of a text such as "MIG-8f3c;MIG-01:all", each of which is one slice. A name that
// the driver does not list is taken as it is where it lists none at all, for want of permission.
// kInvalidArgument: none of this name, twice the same, beside slices that are no instances, or a
// part of one; the message says what there is.
Result<std::vector<ChosenInstance>> instances_of_slices(std::string_view slices,
                                                        std::span<const NamedGpu> gpus);

// The first of the instances that shares its GPU, and its link to host memory, with this one: their
// number as one link. Those of which the driver does not say it are taken to be of one GPU.
int link_of_instance(std::span<const ChosenInstance> instances, int instance);

// A text for slice::parse_slices() in which GPUs are named, with their numbers instead; the rest as
// it is. Errors as number_of_gpu().
Result<std::string> with_gpu_numbers(std::string_view slices, std::span<const NamedGpu> gpus,
                                     std::span<const std::string> seen);

}  // namespace causeway::topology
