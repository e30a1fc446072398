#include "simulate/latency_recorder.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace causeway::simulate {
namespace {

void add(const LatencyReport& part, LatencyReport& sum) {
  sum.ttft.merge(part.ttft);
  sum.tpot.merge(part.tpot);
  sum.tbt.merge(part.tbt);
  sum.e2e.merge(part.e2e);
  sum.requests += part.requests;
  sum.refused += part.refused;
  sum.completed += part.completed;
  sum.errors += part.errors;
  sum.cancelled += part.cancelled;
  sum.slo_ttft_met += part.slo_ttft_met;
  sum.slo_tpot_met += part.slo_tpot_met;
  sum.slo_both_met += part.slo_both_met;
  sum.slo_pauses_met += part.slo_pauses_met;
  sum.slo_all_met += part.slo_all_met;
  sum.gaps_met += part.gaps_met;
  sum.output_tokens += part.output_tokens;
}

// As many a thread keeps for the next requests.
constexpr std::size_t kSpareTimesMost = 4096;

void note_tokens(std::span<const Nanos> times, RequestOutcome& outcome) {
  outcome.tokens = static_cast<std::int32_t>(times.size());
  if (times.empty()) return;
  outcome.first_token = times.front();
  outcome.last_token = times.back();
}

}  // namespace

const char* RequestOutcome::failure() const {
  switch (end) {
    case End::kUnfinished: return "unfinished";
    case End::kServed: return "";
    case End::kRefused: return "refused";
    case End::kCancelled: return "cancelled";
    case End::kError: return "error";
  }
  return "";
}

LatencyRecorder::LatencyRecorder(const Workload& workload, std::vector<std::string> models,
                                 Recorded recorded, std::size_t threads)
    : workload_(workload),
      names_(std::move(models)),
      recorded_(recorded),
      served_(recorded == Recorded::kRequests ? workload.size() : 0),
      outcomes_(records_outcomes() ? workload.size() : 0),
      lives_(workload.size()),
      tallies_(threads) {
  CAUSEWAY_CHECK(threads > 0, "no thread records");
  for (Tally& tally : tallies_) {
    tally.models.resize(records_outcomes() ? 0 : names_.size());
    tally.served_gaps.resize(records_outcomes() ? names_.size() : 0);
  }
}

void LatencyRecorder::arrived(std::int64_t index) {
  Life& life = lives_[static_cast<std::size_t>(index)];
  CAUSEWAY_CHECK(life.tokens == Life::kNotLive, "a request arrives twice");
  life.tokens = 0;
  tallies_[0].live += 1;
  if (records_outcomes()) return;
  report_of(RequestId(index), tallies_[0]).requests += 1;
}

LatencyRecorder::Life& LatencyRecorder::life_of(RequestId request) {
  const bool known = request.value >= 0 && request.value < std::ssize(lives_);
  CAUSEWAY_CHECK(known, "a request that is not of the workload is answered, or refused");
  Life& life = lives_[static_cast<std::size_t>(request.value)];
  CAUSEWAY_CHECK(life.tokens != Life::kNotLive,
                 "a request that does not live is answered, or refused");
  return life;
}

void LatencyRecorder::end(RequestId request, Tally& tally) {
  life_of(request).tokens = Life::kNotLive;
  tally.live -= 1;
}

void LatencyRecorder::keep_end(RequestId request, Nanos now, const std::string& failure) {
  if (served_.empty()) return;
  ServedRequest& served = served_[static_cast<std::size_t>(request.value)];
  served.ended = now;
  served.failure = failure;
}

void LatencyRecorder::refused(RequestId request, Nanos now, bool cancelled) {
  refused(request, now, cancelled, tallies_[0]);
}

void LatencyRecorder::refused(RequestId request, Nanos now, bool cancelled, Tally& tally) {
  if (records_outcomes()) {
    using End = RequestOutcome::End;
    return end_outcome(request, now, cancelled ? End::kCancelled : End::kRefused, tally);
  }
  LatencyReport& report = report_of(request, tally);
  (cancelled ? report.cancelled : report.refused) += 1;
  keep_end(request, now, cancelled ? "cancelled" : "refused");
  end(request, tally);
}

void LatencyRecorder::record_end(RequestId request, const Life& life, Nanos now,
                                 Tally& tally) const {
  const Arrival& arrival = arrival_of(request);
  LatencyReport& report = report_of(request, tally);
  const Nanos ttft = life.first_token - arrival.at;
  const bool ttft_met = ttft <= arrival.slo.ttft;
  bool tpot_met = true;
  report.completed += 1;
  report.ttft.record(ttft.count);
  report.e2e.record((now - arrival.at).count);
  if (life.tokens > 1) {
    const Nanos tpot = (life.last_token - life.first_token) / (life.tokens - 1);
    report.tpot.record(tpot.count);
    tpot_met = tpot <= arrival.slo.tpot;
  }
  report.slo_ttft_met += ttft_met;
  report.slo_tpot_met += tpot_met;
  report.slo_both_met += ttft_met && tpot_met;
  constexpr std::int64_t kGapsForOneLate = 100;
  const bool pauses_met = life.late_gaps * kGapsForOneLate <= life.tokens - 1;
  report.slo_pauses_met += pauses_met;
  report.slo_all_met += ttft_met && pauses_met;
}

// Between the last token and one that comes now.
void LatencyRecorder::record_gap(Life& life, const Arrival& arrival, LatencyReport& report,
                                 Nanos now) {
  // A slice that is lost may have told later than the next one does.
  const Nanos gap = std::max(Nanos(0), now - life.last_token);
  const bool met = gap <= arrival.slo.tpot;
  report.tbt.record(gap.count);
  report.gaps_met += met;
  life.late_gaps += !met;
}

// Records the part as a whole: a step gives a request one token.
void LatencyRecorder::record_tokens(const Part& part, Life& life, Tally& tally) const {
  if (part.tokens == 0) return;
  LatencyReport& report = report_of(part.request, tally);
  if (life.tokens == 0) {
    life.first_token = part.at;
  } else {
    record_gap(life, arrival_of(part.request), report, part.at);
  }
  life.last_token = part.at;
  life.tokens += static_cast<std::int32_t>(part.tokens);
  report.output_tokens += part.tokens;
}

void LatencyRecorder::add_times(Life& life, Tally& tally, std::span<const Nanos> times) {
  if (!life.times && tally.spare.empty()) life.times = std::make_unique<Times>();
  if (!life.times) {
    life.times = std::move(tally.spare.back());
    tally.spare.pop_back();
  }
  life.times->insert(life.times->end(), times.begin(), times.end());
}

void LatencyRecorder::record_outcome(const Part& part, Life& life, Tally& tally) {
  for (std::int64_t i = 0; i < part.tokens; ++i) add_times(life, tally, {&part.at, 1});
  if (part.switched >= Nanos(0)) tally.switches.record(part.switched.count);
  if (!part.finished) return;
  tally.last_end = std::max(tally.last_end, part.at);
  using End = RequestOutcome::End;
  const bool cancelled = part.reason == request::FinishReason::kCancelled;
  const bool failed = part.reason == request::FinishReason::kError;
  end_outcome(part.request, part.at,
              cancelled ? End::kCancelled
              : failed  ? End::kError
                        : End::kServed,
              tally);
}

void LatencyRecorder::end_outcome(RequestId request, Nanos now, RequestOutcome::End end,
                                  Tally& tally) {
  RequestOutcome& outcome = outcomes_[static_cast<std::size_t>(request.value)];
  outcome.ended = now;
  outcome.end = end;
  std::unique_ptr<Times> times = std::move(life_of(request).times);
  this->end(request, tally);
  if (!times) return;
  note_tokens(*times, outcome);
  if (end == RequestOutcome::End::kServed) {
    find_gaps(*times, tally.gaps);
    tally.served_gaps[arrival_of(request).model].record(tally.gaps);
  }
  times->clear();
  if (tally.spare.size() < kSpareTimesMost) tally.spare.push_back(std::move(times));
}

Outcomes LatencyRecorder::take_outcomes() {
  // What has not ended may have had tokens.
  for (std::size_t i = 0; i < outcomes_.size(); ++i) {
    if (lives_[i].times) note_tokens(*lives_[i].times, outcomes_[i]);
  }
  Outcomes all{.requests = std::move(outcomes_), .gaps = {}};
  if (!records_outcomes()) return all;
  all.gaps = std::move(tallies_.front().served_gaps);
  for (std::size_t thread = 1; thread < tallies_.size(); ++thread) {
    for (std::size_t i = 0; i < all.gaps.size(); ++i) {
      all.gaps[i].merge(tallies_[thread].served_gaps[i]);
    }
  }
  return all;
}

void LatencyRecorder::record(const Part& part, std::size_t thread) {
  Tally& tally = tallies_[thread];
  Life& life = life_of(part.request);
  if (records_outcomes()) return record_outcome(part, life, tally);
  record_tokens(part, life, tally);
  if (part.switched >= Nanos(0)) tally.switches.record(part.switched.count);
  if (!served_.empty()) {
    std::vector<Nanos>& times = served_[static_cast<std::size_t>(part.request.value)].token_times;
    if (times.empty()) {
      times.reserve(static_cast<std::size_t>(arrival_of(part.request).output.count));
    }
    times.insert(times.end(), static_cast<std::size_t>(part.tokens), part.at);
  }
  if (!part.finished) return;
  tally.last_end = std::max(tally.last_end, part.at);
  if (part.reason == request::FinishReason::kCancelled) {
    return refused(part.request, part.at, /*cancelled=*/true, tally);
  }
  const bool failed = part.reason == request::FinishReason::kError;
  keep_end(part.request, part.at, failed ? "error" : "");
  if (failed) {
    report_of(part.request, tally).errors += 1;
  } else {
    record_end(part.request, life, part.at, tally);
  }
  end(part.request, tally);
}

// Behind its last token.
void LatencyRecorder::record_gaps(Life& life, const Arrival& arrival, LatencyReport& report,
                                  std::span<const std::int64_t> gaps) {
  report.tbt.record(gaps);
  const std::int64_t most = arrival.slo.tpot.count;
  const auto late =
      std::count_if(gaps.begin(), gaps.end(), [most](std::int64_t gap) { return gap > most; });
  report.gaps_met += std::ssize(gaps) - late;
  life.late_gaps += static_cast<std::int32_t>(late);
}

void LatencyRecorder::find_gaps(std::span<const Nanos> times, std::vector<std::int64_t>& gaps) {
  gaps.clear();
  for (std::size_t i = 1; i < times.size(); ++i) {
    gaps.push_back((times[i] - times[i - 1]).count);
  }
}

void LatencyRecorder::record_tokens(std::span<const RequestId> requests,
                                    std::span<const Nanos> times, std::size_t thread) {
  if (times.empty()) return;
  Tally& tally = tallies_[thread];
  if (records_outcomes()) {
    for (const RequestId request : requests) add_times(life_of(request), tally, times);
    return;
  }
  find_gaps(times, tally.gaps);
  for (const RequestId request : requests) {
    Life& life = life_of(request);
    const Arrival& arrival = arrival_of(request);
    LatencyReport& report = report_of(request, tally);
    if (life.tokens > 0) {
      record_gap(life, arrival, report, times.front());
    } else {
      life.first_token = times.front();
    }
    record_gaps(life, arrival, report, tally.gaps);
    life.tokens += static_cast<std::int32_t>(times.size());
    life.last_token = times.back();
    report.output_tokens += std::ssize(times);
    if (served_.empty()) continue;
    std::vector<Nanos>& all = served_[static_cast<std::size_t>(request.value)].token_times;
    all.insert(all.end(), times.begin(), times.end());
  }
}

std::int64_t LatencyRecorder::live() const {
  std::int64_t live = 0;
  for (const Tally& tally : tallies_) live += tally.live;
  return live;
}

Nanos LatencyRecorder::last_end() const {
  Nanos last;
  for (const Tally& tally : tallies_) last = std::max(last, tally.last_end);
  return last;
}

LatencyRecorder::Models LatencyRecorder::models() const {
  Models models;
  if (records_outcomes()) return models;
  models.reserve(names_.size());
  for (std::size_t i = 0; i < names_.size(); ++i) {
    LatencyReport& report = models.emplace_back(names_[i], LatencyReport()).second;
    for (const Tally& tally : tallies_) add(tally.models[i], report);
  }
  return models;
}

LatencyReport LatencyRecorder::total() const {
  LatencyReport total;
  for (const Tally& tally : tallies_) {
    for (const LatencyReport& report : tally.models) add(report, total);
  }
  return total;
}

Histogram LatencyRecorder::switches() const {
  Histogram switches;
  for (const Tally& tally : tallies_) switches.merge(tally.switches);
  return switches;
}

}  // namespace causeway::simulate
