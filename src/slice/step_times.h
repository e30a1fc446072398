// What a slice takes of a chunk profile: for each of its models the table of the model's shape on
// as many processors as the slice has. docs/design/chunks.md.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/model_card.h"
#include "schedule/scheduler.h"

namespace causeway::slice {

// The CPU backend's name as a machine of profiles: by the instructions that its kernels use.
std::string host_machine_name();
// "NVIDIA H200" of "GPU 0 (NVIDIA H200)", as device::CudaGpu has it.
std::string gpu_machine_name(const std::string& label);

class StepTimes {
 public:
  // Empty: there is no profile.
  StepTimes() = default;
  // Of a slice of `processors` on `machine`; the options outlive it. kInvalidArgument, with the
  // profile's file and field: it is another machine's, or a table of such slices ends before the
  // largest step.
  static Result<StepTimes> of(const schedule::Options& options, std::string_view machine,
                              int processors);

  // Empty, which the log says once of each shape, where the profile has none.
  schedule::StepTable table(const model::ModelCard& card);

 private:
  const schedule::ChunkProfile* profile_ = nullptr;
  int processors_ = 0;
  std::set<std::string> missed_;  // shapes of which the log has said it
};

}  // namespace causeway::slice
