#include "commands/switching_options.h"

#include "commands/step_starts.h"

namespace causeway::app {
namespace {

Result<engine::StepStart> find_start(const std::string& name) {
  const auto found = kStepStarts.find(name);
  if (found != kStepStarts.end()) return found->second;
  return invalid_argument("--step-start: one of just-in-time, all-cached, at-once, not '" + name +
                          "'");
}

}  // namespace

void SwitchingOptions::declare(Options& app, const std::string& group) {
  app.add_option("--step-start", start_,
                 "when a step of a model on its way starts: just-in-time, all-cached (reload, then "
                 "compute) or at-once (it holds the device while it waits)")
      .group(group)
      .show_default();
  app.add_option("--switching", switching_,
                 "what of a model comes and gives way: layers, as many as are needed; reload: all "
                 "of it; sleep: all of it, which is copied to host memory first")
      .group(group)
      .show_default();
  app.add_flag("--hybrid-gemm", hybrid_gemm_,
               "a step reads at home what of its model has not arrived, as C2CServe's HybridGEMM, "
               "instead of waiting for it")
      .group(group);
}

Status SwitchingOptions::apply(simulate::SimulationOptions& slice) const {
  CAUSEWAY_ASSIGN(slice.step_start, find_start(start_));
  if (switching_ != "layers" && switching_ != "reload" && switching_ != "sleep") {
    return invalid_argument("--switching: one of layers, reload, sleep, not '" + switching_ + "'");
  }
  slice.whole_models = switching_ != "layers";
  slice.copies_out = switching_ == "sleep";
  if (hybrid_gemm_ && slice.step_start == engine::StepStart::kAllCached) {
    return invalid_argument(
        "--hybrid-gemm reads what has not arrived, and --step-start all-cached waits until all "
        "has: "
        "give one of them");
  }
  slice.reads_at_home = hybrid_gemm_;
  return {};
}

}  // namespace causeway::app
