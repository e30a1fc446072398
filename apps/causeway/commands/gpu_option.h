// --gpu and --slices, which name GPUs by number or as `nvidia-smi -L` does (topology/gpu_names.h).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "slice/machine.h"
#include "topology/gpu_names.h"

namespace causeway::app {

// What is wrong with a value of --gpu, as far as the machine does not decide; empty: nothing.
std::string check_gpu_option(const std::string& text);

struct GpuChoice {
  int gpu = 0;
  std::string slices;  // with numbers; as it was where it names MIG instances
  std::vector<topology::ChosenInstance> instances = {};
};
// `gpu` has passed check_gpu_option(). The driver is asked only where a GPU is named.
// kInvalidArgument: no GPU of this name is seen, the message says what there is, or models do not
// run on GPUs; kUnavailable, kDevice: the driver knows no names.
Result<GpuChoice> gpu_choice(const std::string& gpu, const std::string& slices,
                             slice::Machine& machine);

}  // namespace causeway::app
