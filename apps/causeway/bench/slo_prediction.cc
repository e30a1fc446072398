#include "bench/slo_prediction.h"

#include <utility>

#include "simulate/cost_model.h"
#include "simulate/simulate.h"

namespace causeway::bench {
namespace {

simulate::Workload workload_of(const std::vector<LoadRequest>& requests, const request::Slo& slo) {
  simulate::Workload workload;
  for (const LoadRequest& request : requests) {
    workload.push_back({.at = request.arrival,
                        .prompt = Tokens(std::ssize(request.prompt)),
                        .output = Tokens(request.output_tokens),
                        .slo = slo,
                        .prompt_ids = request.prompt,
                        .block_ids = {}});
  }
  return workload;
}

// The link then brings KV alone.
simulate::HardwareProfile with_weights_cached(simulate::HardwareProfile profile) {
  profile.link_bytes_per_second = 0;
  return profile;
}

}  // namespace

Result<SloPrediction> predict_slo(const SloPredictionSettings& settings,
                                  const std::vector<LoadRequest>& requests) {
  CAUSEWAY_ASSIGN(auto shape,
                  simulate::shape_of("model", settings.config, settings.slice.kv_frame));
  shape.rotary_alpha = settings.alpha;
  const engine::CoreOptions& core = settings.slice.engine.core;
  simulate::SimulationOptions options;
  options.profile = with_weights_cached(settings.profile);
  options.models.push_back(std::move(shape));
  options.frame = settings.slice.kv_frame;
  options.kv_memory = settings.slice.kv;
  options.kv_host_memory = settings.slice.kv_host;
  options.rotation = core.rotation;
  options.schedule = core.schedule;
  options.prefix_caching = core.prefix_caching;
  CAUSEWAY_ASSIGN(const auto report, simulate::run(options, workload_of(requests, settings.slo)));
  const auto all = static_cast<double>(requests.empty() ? 1 : requests.size());
  const double seconds = to_seconds(report.duration);
  const auto& total = report.total;
  return SloPrediction{
      .ttft_attained = static_cast<double>(total.slo_ttft_met) / all,
      .tpot_attained = static_cast<double>(total.slo_tpot_met) / all,
      .both_attained = static_cast<double>(total.slo_both_met) / all,
      .tokens_per_second = seconds > 0 ? static_cast<double>(total.output_tokens) / seconds : 0};
}

}  // namespace causeway::bench
