#include "simulate/latency_recorder.h"

#include <algorithm>

#include "base/check.h"

namespace causeway::simulate {

LatencyRecorder::LatencyRecorder(const Workload& workload, const std::vector<std::string>& models,
                                 bool keep)
    : workload_(workload), served_(keep ? workload.size() : 0), place_of_(workload.size(), -1) {
  for (const std::string& name : models) models_.push_back({name, {}});
}

void LatencyRecorder::arrived(std::int64_t index) {
  const Arrival& arrival = workload_[static_cast<std::size_t>(index)];
  models_[arrival.model].second.requests += 1;
  std::int32_t& place = place_of_[static_cast<std::size_t>(index)];
  CAUSEWAY_CHECK(place < 0, "a request arrives twice");
  if (free_.empty()) {
    place = static_cast<std::int32_t>(live_.size());
    live_.emplace_back();
  } else {
    place = free_.back();
    free_.pop_back();
  }
  Live& begun = live_[static_cast<std::size_t>(place)];
  begun = {};
  begun.arrival = &arrival;
}

LatencyRecorder::Live& LatencyRecorder::live(RequestId request) {
  const bool known = request.value >= 0 && request.value < std::ssize(place_of_);
  const std::int32_t place = known ? place_of_[static_cast<std::size_t>(request.value)] : -1;
  CAUSEWAY_CHECK(place >= 0, "a request that does not live is answered, or refused");
  return live_[static_cast<std::size_t>(place)];
}

void LatencyRecorder::end(RequestId request) {
  free_.push_back(std::exchange(place_of_[static_cast<std::size_t>(request.value)], -1));
}

void LatencyRecorder::keep_end(RequestId request, Nanos now, const std::string& failure) {
  if (served_.empty()) return;
  ServedRequest& served = served_[static_cast<std::size_t>(request.value)];
  served.ended = now;
  served.failure = failure;
}

void LatencyRecorder::refused(RequestId request, Nanos now, bool cancelled) {
  LatencyReport& report = report_of(live(request));
  (cancelled ? report.cancelled : report.refused) += 1;
  keep_end(request, now, cancelled ? "cancelled" : "refused");
  end(request);
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

// Of the part as a whole: a step gives a request one token.
void LatencyRecorder::record_tokens(const Part& part, Live& live) {
  if (part.tokens == 0) return;
  LatencyReport& report = report_of(live);
  if (live.tokens == 0) {
    live.first_token = part.at;
  } else {
    record_gap(live, report, part.at);
  }
  live.last_token = part.at;
  live.tokens += part.tokens;
  report.output_tokens += part.tokens;
}

void LatencyRecorder::record(const Part& part) {
  Live& live = this->live(part.request);
  record_tokens(part, live);
  if (part.switched >= Nanos(0)) switches_.record(part.switched.count);
  if (!served_.empty()) {
    std::vector<Nanos>& times = served_[static_cast<std::size_t>(part.request.value)].token_times;
    if (times.empty()) times.reserve(static_cast<std::size_t>(live.arrival->output.count));
    times.insert(times.end(), static_cast<std::size_t>(part.tokens), part.at);
  }
  if (!part.finished) return;
  last_end_ = part.at;
  if (part.reason == request::FinishReason::kCancelled) {
    return refused(part.request, part.at, /*cancelled=*/true);
  }
  const bool failed = part.reason == request::FinishReason::kError;
  keep_end(part.request, part.at, failed ? "error" : "");
  if (failed) {
    report_of(live).errors += 1;
  } else {
    record_end(live, part.at);
  }
  end(part.request);
}

// Those that gaps_ holds, behind its last token.
void LatencyRecorder::record_gaps(Live& live, LatencyReport& report) {
  report.tbt.record(gaps_);
  const std::int64_t most = live.arrival->slo.tpot.count;
  const auto late =
      std::count_if(gaps_.begin(), gaps_.end(), [most](std::int64_t gap) { return gap > most; });
  report.gaps_met += std::ssize(gaps_) - late;
  live.late_gaps += late;
}

void LatencyRecorder::record_tokens(std::span<const RequestId> requests,
                                    std::span<const Nanos> times) {
  if (times.empty()) return;
  gaps_.clear();
  for (std::size_t i = 1; i < times.size(); ++i) {
    gaps_.push_back((times[i] - times[i - 1]).count);
  }
  for (const RequestId request : requests) {
    Live& live = this->live(request);
    LatencyReport& report = report_of(live);
    if (live.tokens > 0) {
      record_gap(live, report, times.front());
    } else {
      live.first_token = times.front();
    }
    record_gaps(live, report);
    live.tokens += std::ssize(times);
    live.last_token = times.back();
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
