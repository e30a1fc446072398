#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "simulate/simulate.h"

namespace causeway::simulate {
namespace {

double percent(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

double per_second(std::int64_t count, Nanos duration) {
  return duration.count == 0 ? 0.0 : static_cast<double>(count) / to_seconds(duration);
}

double ms(const Histogram& histogram, double fraction) {
  return static_cast<double>(histogram.percentile(fraction)) * 1e-6;
}

// Shares of all requests, whatever became of them.
std::string row(const std::string& name, const LatencyReport& report, Nanos duration) {
  return fmt::format(
      "{:<20.20} {:>8} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>10.1f} "
      "{:>6.1f} {:>6.1f} {:>6.1f}\n",
      name, report.completed, ms(report.ttft, 0.5), ms(report.ttft, 0.99), ms(report.tpot, 0.5),
      ms(report.tpot, 0.99), ms(report.tbt, 0.5), ms(report.tbt, 0.99), ms(report.e2e, 0.5),
      per_second(report.output_tokens, duration), percent(report.slo_ttft_met, report.requests),
      percent(report.slo_tpot_met, report.requests), percent(report.slo_both_met, report.requests));
}

nlohmann::ordered_json json_of(const Histogram& histogram) {
  return {{"mean_ms", histogram.mean() * 1e-6}, {"p50_ms", ms(histogram, 0.5)},
          {"p90_ms", ms(histogram, 0.9)},       {"p95_ms", ms(histogram, 0.95)},
          {"p99_ms", ms(histogram, 0.99)},      {"max_ms", ms(histogram, 1)}};
}

nlohmann::ordered_json json_of(const LatencyReport& report, Nanos duration) {
  return {{"requests", report.requests},
          {"completed", report.completed},
          {"refused", report.refused},
          {"errors", report.errors},
          {"cancelled", report.cancelled},
          {"output_tokens", report.output_tokens},
          {"requests_per_second", per_second(report.completed, duration)},
          {"output_tokens_per_second", per_second(report.output_tokens, duration)},
          {"slo_ttft_percent", percent(report.slo_ttft_met, report.requests)},
          {"slo_tpot_percent", percent(report.slo_tpot_met, report.requests)},
          {"slo_both_percent", percent(report.slo_both_met, report.requests)},
          {"slo_pauses_percent", percent(report.slo_pauses_met, report.requests)},
          {"slo_ttft_and_pauses_percent", percent(report.slo_all_met, report.requests)},
          {"slo_tbt_percent_of_gaps", percent(report.gaps_met, report.tbt.count())},
          {"ttft", json_of(report.ttft)},
          {"tpot", json_of(report.tpot)},
          {"tbt", json_of(report.tbt)},
          {"e2e", json_of(report.e2e)}};
}

nlohmann::ordered_json json_of_rotation(const SimulationReport& report) {
  const request::KvCopyCounts& copies = report.engine.kv_copies;
  return {{"twins", report.engine.twins_total},
          {"sequences_out", report.engine.rotations},
          {"blocks_out", copies.rotation_out},
          {"blocks_eager_out", copies.eager_out},
          {"blocks_in", copies.rotation_in},
          {"blocks_failed", copies.failed},
          {"bytes_out", report.kv_out_bytes.count},
          {"bytes_in", report.kv_in_bytes.count},
          {"steps_waited_seconds", to_seconds(report.device.kv_wait)}};
}

}  // namespace

std::string to_text(const SimulationReport& report) {
  std::string text = fmt::format(
      "{:<20} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>6} {:>6} {:>6}\n", "model",
      "done", "TTFT p50", "p99 ms", "TPOT p50", "p99 ms", "TBT p50", "p99 ms", "e2e p50",
      "tokens/s", "TTFT%", "TPOT%", "both%");
  for (const auto& [name, model] : report.models) text += row(name, model, report.duration);
  if (report.models.size() > 1) text += row("all", report.total, report.duration);
  const LatencyReport& total = report.total;
  text += fmt::format(
      "profile {}: {:.1f} s of virtual time, {} steps, device busy {:.1f} %; {} model loads, "
      "{} evictions, {:.1f} GB over the link, {:.1f} of them streamed\n",
      report.profile, to_seconds(report.duration), report.device.steps,
      percent(report.device.busy.count, report.duration.count), report.weights.arrivals,
      report.weights.evictions, static_cast<double>(report.link_bytes.count) * 1e-9,
      static_cast<double>(report.streamed_bytes.count) * 1e-9);
  text += fmt::format(
      "TBT of all gaps {:.1f} %; TTFT and 99 % of a request's gaps {:.1f} %; {} preemptions, {} "
      "tokens computed again; prefix cache {:.1f} % of {} tokens; {} refused, {} errors, "
      "{} unfinished\n",
      percent(total.gaps_met, total.tbt.count()), percent(total.slo_all_met, total.requests),
      report.engine.preemptions, report.device.tokens_again,
      percent(report.engine.prefix_hit_tokens, report.engine.prefix_queried_tokens),
      report.engine.prefix_queried_tokens, total.refused, total.errors, report.unfinished);
  const request::KvCopyCounts& copies = report.engine.kv_copies;
  if (report.engine.twins_total == 0) return text;
  text += fmt::format(
      "KV rotation: {} sequences out; blocks {} out, {} eagerly, {} in, {} failed; {:.1f} GB out, "
      "{:.1f} GB in; steps waited {:.3f} s for copies\n",
      report.engine.rotations, copies.rotation_out, copies.eager_out, copies.rotation_in,
      copies.failed, static_cast<double>(report.kv_out_bytes.count) * 1e-9,
      static_cast<double>(report.kv_in_bytes.count) * 1e-9, to_seconds(report.device.kv_wait));
  return text;
}

std::string to_json(const SimulationReport& report) {
  nlohmann::ordered_json json = {
      {"profile", report.profile},
      {"virtual_seconds", to_seconds(report.duration)},
      {"total", json_of(report.total, report.duration)},
      {"models", nlohmann::ordered_json::object()},
      {"steps", report.device.steps},
      {"device_busy_seconds", to_seconds(report.device.busy)},
      {"weights_wait_seconds", to_seconds(report.device.weights_wait)},
      {"model_loads", report.weights.arrivals},
      {"failed_loads", report.weights.failures},
      {"evictions", report.weights.evictions},
      {"link_bytes", report.link_bytes.count},
      {"streamed_bytes", report.streamed_bytes.count},
      {"home_read_bytes", report.device.home_read.count},
      {"alpha_mean", report.device.alpha_steps > 0
                         ? report.device.alpha_sum / static_cast<double>(report.device.alpha_steps)
                         : 0},
      {"weights_out_bytes", report.weights_out_bytes.count},
      {"streamed_steps", report.device.streamed_steps},
      {"preemptions", report.engine.preemptions},
      {"recomputed_tokens", report.device.tokens_again},
      {"rotation", json_of_rotation(report)},
      {"prefix_queried_tokens", report.engine.prefix_queried_tokens},
      {"prefix_hit_tokens", report.engine.prefix_hit_tokens},
      {"unfinished", report.unfinished},
  };
  for (const auto& [name, model] : report.models) {
    json["models"][name] = json_of(model, report.duration);
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace causeway::simulate
