#include "client/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace causeway::bench {
namespace {

Percentiles percentiles_ms(const Histogram& nanos) {
  const auto at = [&](double share) { return to_millis(Nanos(nanos.percentile(share))); };
  return {at(0.50), at(0.95), at(0.99), nanos.mean() * 1e-6};
}

void add_gaps(const StreamOutcome& outcome, Histogram& gaps) {
  if (!outcome.ok()) return;
  const auto& times = outcome.token_times;
  for (std::size_t i = 1; i < times.size(); ++i) gaps.record((times[i] - times[i - 1]).count);
}

// To that of all models.
void add(const LoadSums::Group& one, LoadSums::Group& all) {
  all.report.requests += one.report.requests;
  all.report.failed += one.report.failed;
  all.report.prompt_tokens += one.report.prompt_tokens;
  all.report.cached_tokens += one.report.cached_tokens;
  all.report.output_tokens += one.report.output_tokens;
  all.ttft.merge(one.ttft);
  all.tpot.merge(one.tpot);
  all.e2e.merge(one.e2e);
  all.itl.merge(one.itl);
  all.ttft_met += one.ttft_met;
  all.tpot_met += one.tpot_met;
  all.both_met += one.both_met;
}

void summarise(LoadSums::Group& group, Nanos duration) {
  ModelReport& report = group.report;
  report.ttft_ms = percentiles_ms(group.ttft);
  report.tpot_ms = percentiles_ms(group.tpot);
  report.itl_ms = percentiles_ms(group.itl);
  report.e2e_ms = percentiles_ms(group.e2e);
  const double requests = static_cast<double>(std::max<std::int64_t>(1, report.requests));
  report.ttft_attained = static_cast<double>(group.ttft_met) / requests;
  report.tpot_attained = static_cast<double>(group.tpot_met) / requests;
  report.slo_attained = static_cast<double>(group.both_met) / requests;
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

RequestSummary summary_of(const LoadRecord& record) {
  const StreamOutcome& outcome = record.outcome;
  RequestSummary summary{.scheduled = record.scheduled,
                         .ended = outcome.ended,
                         .first_token = {},
                         .last_token = {},
                         .answered = !outcome.token_times.empty(),
                         .prompt_tokens = outcome.prompt_tokens,
                         .cached_tokens = outcome.cached_tokens,
                         .completion_tokens = outcome.completion_tokens,
                         .error = outcome.error,
                         .failure = outcome.failure};
  if (!summary.answered) return summary;
  summary.first_token = outcome.token_times.front();
  summary.last_token = outcome.token_times.back();
  return summary;
}

void LoadSums::add(const RequestSummary& request, Group& group) {
  ModelReport& report = group.report;
  first_ = any_ ? std::min(first_, request.scheduled) : request.scheduled;
  last_ = std::max(any_ ? last_ : request.scheduled, request.ended);
  any_ = true;
  ++report.requests;
  if (!request.ok()) {
    ++report.failed;
    if (report.first_error.empty()) report.first_error = request.error;
    if (first_error_.empty()) first_error_ = request.error;
    return;
  }
  report.prompt_tokens += request.prompt_tokens;
  report.cached_tokens += request.cached_tokens;
  report.output_tokens += request.completion_tokens;
  group.e2e.record((request.ended - request.scheduled).count);
  if (!request.answered) return;
  const Nanos ttft = request.first_token - request.scheduled;
  group.ttft.record(ttft.count);
  Nanos tpot;  // of a single token: nothing to wait for
  // An event may carry several tokens; without usage completion_tokens counts events.
  if (request.completion_tokens > 1) {
    tpot = (request.last_token - request.first_token) / (request.completion_tokens - 1);
    group.tpot.record(tpot.count);
  }
  group.ttft_met += ttft <= targets_.ttft;
  group.tpot_met += tpot <= targets_.tpot;
  group.both_met += ttft <= targets_.ttft && tpot <= targets_.tpot;
}

LoadReport LoadSums::take() {
  LoadReport report;
  report.targets = targets_;
  report.duration = last_ - first_;
  Group all;
  for (auto& [name, group] : groups_) {
    ::causeway::bench::add(group, all);
    summarise(group, report.duration);
    group.report.model = name;
    report.models.push_back(std::move(group.report));
  }
  summarise(all, report.duration);
  report.all = std::move(all.report);
  report.all.model = "all";
  report.all.first_error = first_error_;
  return report;
}

LoadReport make_report(const std::vector<LoadRecord>& records, const Targets& targets) {
  LoadSums sums(targets);
  for (const LoadRecord& record : records) {
    LoadSums::Group& group = sums.group(record.model);
    sums.add(summary_of(record), group);
    add_gaps(record.outcome, group.itl);
  }
  return sums.take();
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
