#include "bench/slo_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace causeway::bench {
namespace {

void add_request(const SloRequest& request, const request::Slo& slo, SloRow& row) {
  const TokenTimes& times = request.times;
  row.output_tokens += std::ssize(times.at);
  if (!times.ended || !times.error.empty() || times.at.empty()) {
    if (row.failed++ == 0) row.first_error = times.error.empty() ? "it did not end" : times.error;
    return;
  }
  const Nanos first = times.at.front() - request.due;
  const Nanos rest = times.at.back() - times.at.front();
  const std::int64_t gaps = std::ssize(times.at) - 1;
  const Nanos tpot = gaps > 0 ? rest / gaps : Nanos(0);
  row.ttft.add(to_millis(first));
  if (gaps > 0) row.tpot.add(to_millis(tpot));
  for (std::size_t i = 1; i < times.at.size(); ++i) {
    row.gap.add(to_millis(times.at[i] - times.at[i - 1]));
  }
  const bool ttft_met = first <= slo.ttft, tpot_met = tpot <= slo.tpot;
  row.ttft_met += ttft_met ? 1 : 0;
  row.tpot_met += tpot_met ? 1 : 0;
  row.both_met += ttft_met && tpot_met ? 1 : 0;
}

// From the first arrival to the last token.
double seconds_of(std::span<const SloRequest> requests) {
  if (requests.empty()) return 0;
  Nanos begin = requests.front().due, end = begin;
  for (const SloRequest& request : requests) {
    begin = std::min(begin, request.due);
    if (!request.times.at.empty()) end = std::max(end, request.times.at.back());
  }
  return to_seconds(end - begin);
}

// Prompts that share nothing are computed once each, unless they are computed again.
std::int64_t recomputed(std::span<const SloRequest> requests, std::int64_t computed) {
  std::int64_t once = 0;
  for (const SloRequest& request : requests) once += request.prompt;
  return std::max<std::int64_t>(0, computed - once);
}

request::KvCopyCounts difference(const request::KvCopyCounts& a, const request::KvCopyCounts& b) {
  return {.eager_out = a.eager_out - b.eager_out,
          .rotation_out = a.rotation_out - b.rotation_out,
          .rotation_in = a.rotation_in - b.rotation_in,
          .prefix_in = a.prefix_in - b.prefix_in,
          .failed = a.failed - b.failed};
}

nlohmann::ordered_json samples_json(const Samples& samples) {
  return {{"p50", samples.at(0.5)}, {"p99", samples.at(0.99)}, {"most", samples.most()}};
}

nlohmann::ordered_json measured_json(const SloRow& row) {
  return {{"policy", row.policy},
          {"rate", row.rate},
          {"requests", row.requests},
          {"failed", row.failed},
          {"first_error", row.first_error},
          {"ttft_attained", row.share(row.ttft_met)},
          {"tpot_attained", row.share(row.tpot_met)},
          {"both_attained", row.share(row.both_met)},
          {"ttft_ms", samples_json(row.ttft)},
          {"tpot_ms", samples_json(row.tpot)},
          {"gap_ms", samples_json(row.gap)},
          {"output_tokens_per_second", row.tokens_per_second()},
          {"seconds", row.seconds},
          {"recomputed_tokens", row.recomputed},
          {"preemptions", row.preemptions},
          {"rotations", row.rotations},
          {"blocks_eager_out", row.copies.eager_out},
          {"blocks_out", row.copies.rotation_out},
          {"blocks_in", row.copies.rotation_in},
          {"copies_failed", row.copies.failed},
          {"not_overlapped_share", row.not_overlapped}};
}

nlohmann::ordered_json prediction_json(const SloPrediction& predicted) {
  return {{"ttft_attained", predicted.ttft_attained},
          {"tpot_attained", predicted.tpot_attained},
          {"both_attained", predicted.both_attained},
          {"output_tokens_per_second", predicted.tokens_per_second}};
}

nlohmann::ordered_json row_json(const SloRow& row) {
  nlohmann::ordered_json json = measured_json(row);
  if (row.predicted) json["predicted"] = prediction_json(*row.predicted);
  return json;
}

void print_prediction(const SloRow& row, const SloPrediction& predicted) {
  const double rate = row.tokens_per_second();
  fmt::print("{:>7} {:<24} {:>5.1f}% {:>5.1f}% {:>5.1f}% {:>8.0f}   {:+.1f} points, {:+.1f} %\n",
             "", "  by the simulator", 100 * predicted.ttft_attained, 100 * predicted.tpot_attained,
             100 * predicted.both_attained, predicted.tokens_per_second,
             100 * (predicted.both_attained - row.share(row.both_met)),
             rate > 0 ? 100 * (predicted.tokens_per_second / rate - 1) : 0);
}

void print_row(const SloRow& row) {
  fmt::print(
      "{:>7.2f} {:<24} {:>5.1f}% {:>5.1f}% {:>5.1f}% {:>8.0f} {:>9.0f} {:>9.0f} {:>8.1f} {:>8.1f} "
      "{:>8} {:>9} {:>9} {:>5.1f}%\n",
      row.rate, row.policy, 100 * row.share(row.ttft_met), 100 * row.share(row.tpot_met),
      100 * row.share(row.both_met), row.tokens_per_second(), row.ttft.at(0.5), row.ttft.at(0.99),
      row.tpot.at(0.5), row.gap.at(0.99), row.recomputed, row.rotations, row.copies.rotation_in,
      100 * row.not_overlapped);
  if (row.predicted) print_prediction(row, *row.predicted);
  if (row.failed > 0) fmt::print("        {} failed: {}\n", row.failed, row.first_error);
}

}  // namespace

SloRow report_slo(std::span<const SloRequest> requests, const request::Slo& slo,
                  const request::Observation& before, const request::Observation& after) {
  SloRow row;
  row.requests = std::ssize(requests);
  row.seconds = seconds_of(requests);
  for (const SloRequest& request : requests) add_request(request, slo, row);
  row.recomputed = recomputed(requests, after.prompt_tokens - before.prompt_tokens);
  row.preemptions = after.preemptions - before.preemptions;
  row.rotations = after.rotations - before.rotations;
  row.copies = difference(after.kv_copies, before.kv_copies);
  return row;
}

void print_slo(const std::vector<SloRow>& rows, const request::Slo& slo) {
  fmt::print("targets: first token {:.0f} ms, mean between tokens {:.0f} ms; times in ms\n",
             to_millis(slo.ttft), to_millis(slo.tpot));
  fmt::print(
      "{:>7} {:<24} {:>6} {:>6} {:>6} {:>8} {:>9} {:>9} {:>8} {:>8} {:>8} {:>9} {:>9} {:>6}\n",
      "req/s", "policy", "TTFT", "TPOT", "both", "tok/s", "TTFT p50", "TTFT p99", "TPOT p50",
      "gap p99", "recomp.", "rotations", "blocks in", "host");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i > 0 && rows[i].rate != rows[i - 1].rate) fmt::print("\n");
    print_row(rows[i]);
  }
}

nlohmann::ordered_json slo_json(const std::vector<SloRow>& rows, const request::Slo& slo) {
  auto all = nlohmann::ordered_json::array();
  for (const SloRow& row : rows) all.push_back(row_json(row));
  return {{"bench", "slo"},
          {"slo_ttft_ms", to_millis(slo.ttft)},
          {"slo_tpot_ms", to_millis(slo.tpot)},
          {"rows", all}};
}

}  // namespace causeway::bench
