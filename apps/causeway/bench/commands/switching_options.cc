#include "bench/commands/switching_options.h"

#include "commands/step_starts.h"

namespace causeway::app {
namespace {

Result<engine::StepStart> find_start(const std::string& name) {
  const auto found = kStepStarts.find(name);
  if (found != kStepStarts.end()) return found->second;
  return invalid_argument(
      "--step-start: one of just-in-time, all-cached, at-once, when-idle, not '" + name + "'");
}

}  // namespace

void SwitchingOptions::declare(Options& app, const std::string& group) {
  app.add_option("--step-start", start_,
                 "when the first step of a model starts whose weights are still coming: "
                 "just-in-time, all-cached (after a full reload), at-once (holding the device "
                 "while it waits) or when-idle (at once if nothing else runs); default: "
                 "just-in-time, or when-idle with --hybrid-gemm")
      .group(group);
  app.add_option(
         "--switching", switching_,
         "what a switch between models moves: layers (as many as are needed), reload (the whole "
         "model) or sleep (the same, and the former model is copied to host memory first)")
      .group(group)
      .show_default();
  app.add_flag("--hybrid-gemm", hybrid_gemm_,
               "let a step read weights at home that have not arrived, as C2CServe's HybridGEMM "
               "does, instead of waiting for them")
      .group(group);
  app.add_option(
         "--alpha", alpha_,
         "with --hybrid-gemm: the share of columns that its symmetric kernel computes, 0 to "
         "1, or tuned (by what steps take of link and HBM); what exceeds "
         "--max-resident-bytes is then read at home instead of streamed")
      .group(group);
}

Status SwitchingOptions::apply(simulate::SimulationOptions& slice) const {
  const std::string by_default = hybrid_gemm_ ? "when-idle" : "just-in-time";
  CAUSEWAY_ASSIGN(slice.step_start, find_start(start_.empty() ? by_default : start_));
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
  if (alpha_.empty()) return {};
  if (!hybrid_gemm_) return invalid_argument("--alpha: add --hybrid-gemm, whose share it is");
  auto alpha = fleet::parse_step_alpha(alpha_);
  if (!alpha.ok()) return alpha.error().with_context("--alpha");
  slice.alpha = *alpha;
  return {};
}

}  // namespace causeway::app
