// The part of a chunk profile that concerns a slice: for each of its models the table of the
// model's shape for as many processors as the slice has. docs/design/chunks.md.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/model_card.h"
#include "schedule/scheduler.h"

namespace causeway::slice {

// The name of a CPU in profiles, which follows from the instructions that the kernels use.
std::string host_machine_name();
// "NVIDIA H200" of "GPU 0 (NVIDIA H200)", as device::CudaGpu has it.
std::string gpu_machine_name(const std::string& label);

class StepTimes {
 public:
  // Without a profile.
  StepTimes() = default;
  // For a slice of `processors` on `machine`; the options must outlive it. kInvalidArgument, with
  // the profile's file and field: the profile is another machine's, or a table ends before the
  // largest step.
  static Result<StepTimes> of(const schedule::Options& options, std::string_view machine,
                              int processors);

  // The table of the model's shape; empty when the profile has none, which the log says once for
  // each shape.
  schedule::StepTable table(const model::ModelCard& card);

 private:
  const schedule::ChunkProfile* profile_ = nullptr;
  int processors_ = 0;
  std::set<std::string> missed_;  // shapes for which the log has said it
};

}  // namespace causeway::slice
