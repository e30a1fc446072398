// GPUs by name, as `nvidia-smi -L` lists them: GPU-<uuid>, and MIG-<uuid> for an instance. A name
// may be cut where no other one begins alike, as CUDA_VISIBLE_DEVICES allows it.
//
//   management library ─▶ names of all GPUs ─┐
//   driver: PCI bus ids of those seen ───────┴─▶ "GPU-8f3c:2x56;GPU-01:all" ─▶ "1:2x56;0:all"
//
// A process has one MIG instance, the one that CUDA_VISIBLE_DEVICES names, as its GPU 0: which one
// is to be had is decided before it starts, and no option changes that.
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

// A text for slice::parse_slices() in which GPUs are named, with their numbers instead; the rest as
// it is. Errors as number_of_gpu().
Result<std::string> with_gpu_numbers(std::string_view slices, std::span<const NamedGpu> gpus,
                                     std::span<const std::string> seen);

}  // namespace causeway::topology
