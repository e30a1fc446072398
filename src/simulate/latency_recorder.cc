#include "simulate/latency_recorder.h"

#include <algorithm>

#include "base/check.h"

namespace causeway::simulate {

LatencyRecorder::LatencyRecorder(const Workload& workload, const std::vector<std::string>& models,
                                 bool keep)
    : workload_(workload), served_(keep ? workload.size() : 0) {
  for (const std::string& name : models) models_.push_back({name, {}});
}

void LatencyRecorder::arrived(std::int64_t index) {
  const Arrival& arrival = workload_[static_cast<std::size_t>(index)];
  models_[arrival.model].second.requests += 1;
  live_[RequestId(index)].arrival = &arrival;
}

void LatencyRecorder::keep_end(RequestId request, Nanos now, const std::string& failure) {
  if (served_.empty()) return;
  ServedRequest& served = served_[static_cast<std::size_t>(request.value)];
  served.ended = now;
  served.failure = failure;
}

void LatencyRecorder::refused(RequestId request, Nanos now, bool cancelled) {
  const auto at = live_.find(request);
  CAUSEWAY_CHECK(at != live_.end(), "a request is refused that does not live");
  LatencyReport& report = report_of(at->second);
  (cancelled ? report.cancelled : report.refused) += 1;
  keep_end(request, now, cancelled ? "cancelled" : "refused");
  live_.erase(at);
}

void LatencyRecorder::record_end(const Live& live, Nanos now) {
  LatencyReport& report = report_of(live);
  const Nanos ttft = live.first_token - live.arrival->at;
  const bool ttft_met = ttft <= live.arrival->slo.ttft;
  bool tpot_met = true;
  report.completed += 1;
  report.ttft.record(ttft.count);
  report.e2e.record((now - live.arrival->at).count);
  if (live.tokens > 1) {
    const Nanos tpot = (live.last_token - live.first_token) / (live.tokens - 1);
    report.tpot.record(tpot.count);
    tpot_met = tpot <= live.arrival->slo.tpot;
  }
  report.slo_ttft_met += ttft_met;
  report.slo_tpot_met += tpot_met;
  report.slo_both_met += ttft_met && tpot_met;
  constexpr std::int64_t kGapsForOneLate = 100;
  const bool pauses_met = live.late_gaps * kGapsForOneLate <= live.tokens - 1;
  report.slo_pauses_met += pauses_met;
  report.slo_all_met += ttft_met && pauses_met;
}

// Between the last token and one that comes now.
void LatencyRecorder::record_gap(Live& live, LatencyReport& report, Nanos now) {
  // A slice that is lost may have told later than the next one does.
  const Nanos gap = std::max(Nanos(0), now - live.last_token);
  const bool met = gap <= live.arrival->slo.tpot;
  report.tbt.record(gap.count);
  report.gaps_met += met;
  live.late_gaps += !met;
}

// Of `output` as a whole: a step gives a request one token.
void LatencyRecorder::record_tokens(const request::Output& output, Live& live, Nanos now) {
  if (output.tokens.empty()) return;
  LatencyReport& report = report_of(live);
  if (live.tokens == 0) {
    live.first_token = now;
  } else {
    record_gap(live, report, now);
  }
  live.last_token = now;
  live.tokens += std::ssize(output.tokens);
  report.output_tokens += std::ssize(output.tokens);
}

void LatencyRecorder::record(const request::Output& output, Nanos now) {
  const auto at = live_.find(output.request);
  CAUSEWAY_CHECK(at != live_.end(), "output of a request that does not live");
  record_tokens(output, at->second, now);
  if (output.switched) switches_.record(output.switched->took.count);
  if (!served_.empty()) {
    std::vector<Nanos>& times = served_[static_cast<std::size_t>(output.request.value)].token_times;
    if (times.empty()) times.reserve(static_cast<std::size_t>(at->second.arrival->output.count));
    times.insert(times.end(), output.tokens.size(), now);
  }
  if (!output.finished) return;
  last_end_ = now;
  if (output.reason == request::FinishReason::kCancelled) {
    return refused(output.request, now, /*cancelled=*/true);
  }
  const bool failed = output.reason == request::FinishReason::kError;
  keep_end(output.request, now, failed ? "error" : "");
  if (failed) {
    report_of(at->second).errors += 1;
  } else {
    record_end(at->second, now);
  }
  live_.erase(at);
}

void LatencyRecorder::record_tokens(std::span<const RequestId> requests,
                                    std::span<const Nanos> times) {
  for (const RequestId request : requests) {
    const auto at = live_.find(request);
    CAUSEWAY_CHECK(at != live_.end(), "tokens of a request that does not live");
    Live& live = at->second;
    LatencyReport& report = report_of(live);
    for (const Nanos now : times) {
      if (live.tokens++ > 0) {
        record_gap(live, report, now);
      } else {
        live.first_token = now;
      }
      live.last_token = now;
    }
    report.output_tokens += std::ssize(times);
    if (served_.empty()) continue;
    std::vector<Nanos>& all = served_[static_cast<std::size_t>(request.value)].token_times;
    all.insert(all.end(), times.begin(), times.end());
  }
}

LatencyReport LatencyRecorder::total() const {
  LatencyReport total;
  for (const auto& [name, report] : models_) {
    total.ttft.merge(report.ttft);
    total.tpot.merge(report.tpot);
    total.tbt.merge(report.tbt);
    total.e2e.merge(report.e2e);
    total.requests += report.requests;
    total.refused += report.refused;
    total.completed += report.completed;
    total.errors += report.errors;
    total.cancelled += report.cancelled;
    total.slo_ttft_met += report.slo_ttft_met;
    total.slo_tpot_met += report.slo_tpot_met;
    total.slo_both_met += report.slo_both_met;
    total.slo_pauses_met += report.slo_pauses_met;
    total.slo_all_met += report.slo_all_met;
    total.gaps_met += report.gaps_met;
    total.output_tokens += report.output_tokens;
  }
  return total;
}

}  // namespace causeway::simulate
