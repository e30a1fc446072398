#include "bench/replay_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"

namespace causeway::bench {
namespace {

constexpr std::int64_t kSlotsMax = 3600;

// By how much each sum grew; what did not, or has no value to compare with, is left out.
std::map<std::string, double> growth(const std::vector<MetricSample>& before,
                                     const std::vector<MetricSample>& after, const char* name,
                                     const std::vector<std::string>& labels = {}) {
  const auto old = sums_of(before, name, labels);
  std::map<std::string, double> grown;
  for (const auto& [key, value] : sums_of(after, name, labels)) {
    const auto was = old.find(key);
    if (was != old.end() && value >= was->second && value < 9e18) grown[key] = value - was->second;
  }
  return grown;
}

std::optional<double> growth_of_all(const std::vector<MetricSample>& before,
                                    const std::vector<MetricSample>& after, const char* name) {
  const auto grown = growth(before, after, name);
  return grown.empty() ? std::nullopt : std::optional(grown.begin()->second);
}

std::map<std::string, std::int64_t> whole(const std::map<std::string, double>& values) {
  std::map<std::string, std::int64_t> rounded;
  for (const auto& [key, value] : values) rounded[key] = static_cast<std::int64_t>(value);
  return rounded;
}

bool attained(const RequestSummary& request, const Targets& targets) {
  if (!request.ok() || !request.answered) return false;
  const Nanos first = request.first_token, last = request.last_token;
  if (first - request.scheduled > targets.ttft) return false;
  return request.completion_tokens < 2 ||
         (last - first) / (request.completion_tokens - 1) <= targets.tpot;
}

// Slots of equal length from the first instant of the list on.
class Slots {
 public:
  Slots(std::size_t requests, const Summaries& summaries, Nanos begin) : begin_(begin) {
    Nanos end = begin;
    for (std::size_t i = 0; i < requests; ++i) {
      const RequestSummary request = summaries(i);
      end = std::max({end, request.scheduled, request.ended});
    }
    const std::int64_t whole = (end - begin) / seconds(1) + 1;
    length_ = seconds((whole + kSlotsMax - 1) / kSlotsMax);
    slots_.resize(static_cast<std::size_t>((end - begin) / length_ + 1));
    timed_.resize(slots_.size());
    running_.resize(slots_.size() + 1);
  }

  void add(const RequestSummary& request, const Targets& targets) {
    const std::size_t at = place(request.scheduled);
    ReplaySlot& slot = slots_[at];
    ++slot.arrivals;
    slot.attained += attained(request, targets);
    const std::size_t end = place(std::max(request.scheduled, request.ended));
    ++running_[at];
    --running_[end];
    if (!request.answered) return;
    const double ttft = to_millis(request.first_token - request.scheduled);
    slot.ttft_mean_ms += ttft;
    slot.ttft_most_ms = std::max(slot.ttft_most_ms, ttft);
    ++timed_[at];
  }

  std::vector<ReplaySlot> take() {
    std::int64_t running = 0;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      slots_[i].running = running += running_[i];
      if (timed_[i] > 0) slots_[i].ttft_mean_ms /= static_cast<double>(timed_[i]);
    }
    return std::move(slots_);
  }
  Nanos length() const { return length_; }

 private:
  std::size_t place(Nanos at) const { return static_cast<std::size_t>((at - begin_) / length_); }

  const Nanos begin_;
  Nanos length_ = seconds(1);
  std::vector<ReplaySlot> slots_;
  std::vector<std::int64_t> timed_;    // that had a first token
  std::vector<std::int64_t> running_;  // how the number of those that run changes
};

// Of those that are not zero.
std::string joined(const std::map<std::string, std::int64_t>& counts) {
  std::string text;
  for (const auto& [what, count] : counts) {
    if (count == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", what, count);
  }
  return text;
}

std::string percentiles_row(const char* name, const Percentiles& p) {
  return fmt::format("{:<10} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f}\n", name, p.p50, p.p95, p.p99,
                     p.mean);
}

std::string attainment_text(const ReplayReport& report) {
  const ModelReport& all = report.load.all;
  return fmt::format(
      "TTFT ≤ {:.0f} ms: {:.2f} %   TPOT ≤ {:.0f} ms: {:.2f} %   both: {:.2f} % of all requests\n",
      to_millis(report.load.targets.ttft), 100 * all.ttft_attained,
      to_millis(report.load.targets.tpot), 100 * all.tpot_attained, 100 * all.slo_attained);
}

std::string errors_text(const ReplayReport& report) {
  std::string text;
  if (!report.errors.empty()) {
    text += fmt::format("errors: {}; the first: {}\n", joined(report.errors),
                        report.load.all.first_error);
  }
  if (report.short_answers > 0) {
    text += fmt::format("{} answers have fewer tokens than asked for\n", report.short_answers);
  }
  return text;
}

std::string counters_text(const ReplayCounters& counters) {
  if (!counters.missing.empty()) return "no counters: " + counters.missing + "\n";
  std::vector<std::string> parts;
  if (counters.switches) {
    parts.push_back(fmt::format("{} switches", *counters.switches));
    if (counters.switch_ms) parts.back() += fmt::format(" of {:.0f} ms", *counters.switch_ms);
  }
  for (const auto& [purpose, bytes] : counters.bytes) {
    parts.push_back(fmt::format("{} {:.1f} GB", purpose, static_cast<double>(bytes) * 1e-9));
  }
  const std::string blocks = joined(counters.kv_blocks);
  if (!blocks.empty()) parts.push_back("KV blocks " + blocks);
  if (counters.preemptions) parts.push_back(fmt::format("{} preemptions", *counters.preemptions));
  if (counters.busy) parts.push_back(fmt::format("devices busy {:.0f} %", 100 * *counters.busy));
  return fmt::format("{}\n", fmt::join(parts, "; "));
}

template <typename T>
nlohmann::ordered_json json_of(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

nlohmann::ordered_json json_of(const ReplayCounters& counters) {
  return {{"switches", json_of(counters.switches)},
          {"switch_ms_mean", json_of(counters.switch_ms)},
          {"preemptions", json_of(counters.preemptions)},
          {"busy_share", json_of(counters.busy)},
          {"link_bytes", counters.bytes},
          {"kv_blocks", counters.kv_blocks},
          {"missing", counters.missing}};
}

nlohmann::ordered_json json_of(const std::vector<ReplaySlot>& slots) {
  auto json = nlohmann::ordered_json::array();
  for (const ReplaySlot& slot : slots) {
    json.push_back({{"arrivals", slot.arrivals},
                    {"attained", slot.attained},
                    {"running", slot.running},
                    {"ttft_mean_ms", slot.ttft_mean_ms},
                    {"ttft_most_ms", slot.ttft_most_ms}});
    if (!slot.bytes.empty()) json.back()["bytes"] = slot.bytes;
  }
  return json;
}

}  // namespace

ReplayCounters counters_between(const std::vector<MetricSample>& before,
                                const std::vector<MetricSample>& after, Nanos took) {
  ReplayCounters counters;
  const auto switches = growth_of_all(before, after, "causeway:model_switch_seconds_count");
  if (switches) counters.switches = static_cast<std::int64_t>(*switches);
  const auto waited = growth_of_all(before, after, "causeway:model_switch_seconds_sum");
  if (waited && switches.value_or(0) > 0) counters.switch_ms = 1e3 * *waited / *switches;
  const auto preemptions = growth_of_all(before, after, "causeway:num_preemptions_total");
  if (preemptions) counters.preemptions = static_cast<std::int64_t>(*preemptions);
  counters.bytes =
      whole(growth(before, after, "causeway:link_bytes_total", {"purpose", "direction"}));
  counters.kv_blocks =
      whole(growth(before, after, "causeway:kv_rotation_blocks_total", {"reason", "direction"}));
  const auto busy = growth(before, after, "causeway:device_busy_seconds_total", {"slice"});
  for (const auto& [slice, grown] : busy) {
    const double share = grown / std::max(1e-9, to_seconds(took));
    counters.busy = counters.busy.value_or(0) + share / static_cast<double>(busy.size());
  }
  if (!switches && counters.bytes.empty()) counters.missing = "these metrics are not of Causeway";
  return counters;
}

ReplayReport report_replay(const simulate::Workload& list, const Summaries& summaries,
                           LoadReport load, ReplayCounters counters) {
  ReplayReport report;
  report.load = std::move(load);
  report.counters = std::move(counters);
  if (list.empty()) return report;
  Slots slots(list.size(), summaries, summaries(0).scheduled - list.front().at);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const RequestSummary request = summaries(i);
    slots.add(request, report.load.targets);
    if (!request.ok()) {
      ++report.errors[std::string(request.failure)];
    } else if (request.completion_tokens < list[i].output.count) {
      ++report.short_answers;
    }
  }
  report.slot = slots.length();
  report.slots = slots.take();
  return report;
}

ReplayReport report_replay(const simulate::Workload& list, const std::vector<LoadRecord>& records,
                           const Targets& targets, ReplayCounters counters) {
  CAUSEWAY_CHECK(list.size() == records.size(), "a record of each request");
  return report_replay(
      list, [&](std::size_t index) { return summary_of(records[index]); },
      make_report(records, targets), std::move(counters));
}

std::string to_text(const ReplayReport& report) {
  const ModelReport& all = report.load.all;
  const double seconds = std::max(1e-9, to_seconds(report.load.duration));
  std::string text = fmt::format(
      "{}: {} requests to {} of {} models in {:.1f} s, {:.1f} a second; {} failed; {:.0f} output "
      "tokens/s\n",
      report.source, all.requests, report.load.models.size(), report.models, seconds,
      static_cast<double>(all.requests) / seconds, all.failed, all.output_tokens_per_second);
  text += attainment_text(report);
  text += fmt::format("{:<10} {:>10} {:>10} {:>10} {:>10}\n", "ms", "p50", "p95", "p99", "mean");
  text += percentiles_row("TTFT", all.ttft_ms) + percentiles_row("TPOT", all.tpot_ms) +
          percentiles_row("E2E", all.e2e_ms);
  return text + errors_text(report) + counters_text(report.counters);
}

nlohmann::ordered_json to_json(const ReplayReport& report) {
  nlohmann::ordered_json json = {{"bench", "replay"},
                                 {"mode", report.mode},
                                 {"source", report.source},
                                 {"catalogue", report.models}};
  json.update(to_json(report.load));
  json["errors"] = report.errors;
  json["short_answers"] = report.short_answers;
  json["counters"] = json_of(report.counters);
  json["slot_s"] = to_seconds(report.slot);
  json["slots"] = json_of(report.slots);
  return json;
}

}  // namespace causeway::bench
