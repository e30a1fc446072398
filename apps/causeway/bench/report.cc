#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/histogram.h"

namespace causeway::bench {
namespace {

// What a group of requests adds up to before it is summarised; durations in nanoseconds.
struct LoadSamples {
  Histogram ttft, tpot, itl, e2e;
  std::int64_t ttft_met = 0, tpot_met = 0, both_met = 0;
};

Percentiles percentiles_ms(const Histogram& nanos) {
  const auto at = [&](double share) { return to_millis(Nanos(nanos.percentile(share))); };
  return {at(0.50), at(0.95), at(0.99), nanos.mean() * 1e-6};
}

// All but what is between its events.
void add(const LoadRecord& record, const Targets& targets, ModelReport& report,
         LoadSamples& samples) {
  const StreamOutcome& outcome = record.outcome;
  ++report.requests;
  if (!outcome.ok()) {
    ++report.failed;
    if (report.first_error.empty()) report.first_error = outcome.error;
    return;
  }
  report.prompt_tokens += outcome.prompt_tokens;
  report.cached_tokens += outcome.cached_tokens;
  report.output_tokens += outcome.completion_tokens;
  samples.e2e.record((outcome.ended - record.scheduled).count);
  if (outcome.token_times.empty()) return;
  const auto& times = outcome.token_times;
  const Nanos ttft = times.front() - record.scheduled;
  samples.ttft.record(ttft.count);
  Nanos tpot;  // of a single token: nothing to wait for
  // An event may carry several tokens; without usage completion_tokens counts events.
  if (outcome.completion_tokens > 1) {
    tpot = (times.back() - times.front()) / (outcome.completion_tokens - 1);
    samples.tpot.record(tpot.count);
  }
  samples.ttft_met += ttft <= targets.ttft;
  samples.tpot_met += tpot <= targets.tpot;
  samples.both_met += ttft <= targets.ttft && tpot <= targets.tpot;
}

void add_gaps(const StreamOutcome& outcome, Histogram& gaps) {
  if (!outcome.ok()) return;
  const auto& times = outcome.token_times;
  for (std::size_t i = 1; i < times.size(); ++i) gaps.record((times[i] - times[i - 1]).count);
}

void summarise(const LoadSamples& samples, Nanos duration, ModelReport& report) {
  report.ttft_ms = percentiles_ms(samples.ttft);
  report.tpot_ms = percentiles_ms(samples.tpot);
  report.itl_ms = percentiles_ms(samples.itl);
  report.e2e_ms = percentiles_ms(samples.e2e);
  const double requests = static_cast<double>(std::max<std::int64_t>(1, report.requests));
  report.ttft_attained = static_cast<double>(samples.ttft_met) / requests;
  report.tpot_attained = static_cast<double>(samples.tpot_met) / requests;
  report.slo_attained = static_cast<double>(samples.both_met) / requests;
  if (duration > Nanos(0)) {
    report.output_tokens_per_second =
        static_cast<double>(report.output_tokens) / to_seconds(duration);
  }
}

nlohmann::ordered_json to_json(const Percentiles& p) {
  return {{"p50", p.p50}, {"p95", p.p95}, {"p99", p.p99}, {"mean", p.mean}};
}

nlohmann::ordered_json to_json(const ModelReport& report) {
  return {{"model", report.model},
          {"requests", report.requests},
          {"failed", report.failed},
          {"first_error", report.first_error},
          {"prompt_tokens", report.prompt_tokens},
          {"cached_prompt_tokens", report.cached_tokens},
          {"output_tokens", report.output_tokens},
          {"output_tokens_per_second", report.output_tokens_per_second},
          {"ttft_ms", to_json(report.ttft_ms)},
          {"tpot_ms", to_json(report.tpot_ms)},
          {"itl_ms", to_json(report.itl_ms)},
          {"e2e_ms", to_json(report.e2e_ms)},
          {"ttft_attained", report.ttft_attained},
          {"tpot_attained", report.tpot_attained},
          {"slo_attained", report.slo_attained}};
}

std::string table_row(const ModelReport& r) {
  return fmt::format(
      "{:<24.24} {:>5} {:>5} {:>8} {:>8} {:>8.1f} {:>8.1f} {:>8.1f} {:>8.1f} {:>7.2f} {:>7.2f} "
      "{:>7.2f} {:>9.1f} {:>6.1f}\n",
      r.model, r.requests, r.failed, r.prompt_tokens, r.output_tokens, r.output_tokens_per_second,
      r.ttft_ms.p50, r.ttft_ms.p95, r.ttft_ms.p99, r.tpot_ms.p50, r.tpot_ms.p95, r.tpot_ms.p99,
      r.e2e_ms.p99, 100 * r.slo_attained);
}

}  // namespace

LoadReport make_report(const std::vector<LoadRecord>& records, const Targets& targets) {
  LoadReport report;
  report.targets = targets;
  report.all.model = "all";
  std::map<std::string, std::pair<ModelReport, LoadSamples>> groups;
  LoadSamples all;
  Nanos first, last;
  if (!records.empty()) first = last = records.front().scheduled;
  for (const LoadRecord& record : records) {
    first = std::min(first, record.scheduled);
    last = std::max(last, record.outcome.ended);
    auto& [group, samples] = groups[record.model];
    add(record, targets, group, samples);
    add(record, targets, report.all, all);
    add_gaps(record.outcome, samples.itl);
  }
  report.duration = last - first;
  for (auto& [name, group] : groups) {
    group.first.model = name;
    all.itl.merge(group.second.itl);
    summarise(group.second, report.duration, group.first);
    report.models.push_back(std::move(group.first));
  }
  summarise(all, report.duration, report.all);
  return report;
}

std::string to_table(const LoadReport& report) {
  std::string table = fmt::format(
      "{:<24} {:>5} {:>5} {:>8} {:>8} {:>8} {:^26} {:^23} {:>9} {:>6}\n"
      "{:<24} {:>5} {:>5} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>7} {:>9} {:>6}\n",
      "", "", "", "prompt", "output", "output", "TTFT, ms", "TPOT, ms", "e2e, ms", "SLO", "model",
      "reqs", "fail", "tokens", "tokens", "tok/s", "p50", "p95", "p99", "p50", "p95", "p99", "p99",
      "met %");
  table += std::string(table.find('\n'), '-') + "\n";
  for (const ModelReport& model : report.models) table += table_row(model);
  if (report.models.size() > 1) table += table_row(report.all);
  table += fmt::format("{:.1f} s; SLO: TTFT ≤ {:.0f} ms and TPOT ≤ {:.0f} ms\n",
                       to_seconds(report.duration), to_millis(report.targets.ttft),
                       to_millis(report.targets.tpot));
  if (!report.all.first_error.empty()) {
    table += fmt::format("first error: {}\n", report.all.first_error);
  }
  return table;
}

nlohmann::ordered_json to_json(const LoadReport& report) {
  nlohmann::ordered_json models = nlohmann::ordered_json::array();
  for (const ModelReport& model : report.models) models.push_back(to_json(model));
  return {{"duration_s", to_seconds(report.duration)},
          {"slo_ttft_ms", to_millis(report.targets.ttft)},
          {"slo_tpot_ms", to_millis(report.targets.tpot)},
          {"all", to_json(report.all)},
          {"models", std::move(models)}};
}

}  // namespace causeway::bench
