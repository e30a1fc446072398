#include "bench/replay_fleet.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "bench/replay_server.h"

namespace causeway::bench {
namespace {

constexpr Nanos kProgressEvery = millis(200);
constexpr Nanos kCancelMax = seconds(10);  // for what was given up to end

// Gives the fleet its requests, on the caller's thread.
class FleetRun {
 public:
  FleetRun(fleet::Fleet& fleet, ReplaySink& answers, const FleetReplay& replay, const Clock& clock)
      : fleet_(fleet), answers_(answers), replay_(replay), clock_(clock) {}

  void to_end(const simulate::Workload& list, std::vector<LoadRequest> requests,
              const std::vector<const fleet::CatalogueEntry*>& models) {
    begin_ = clock_.now();
    for (std::size_t i = 0; i < list.size(); ++i) {
      wait_until(begin_ + list[i].at);
      request::Request request = simulate::blank_request_of(list[i], static_cast<std::int64_t>(i));
      request.prompt = std::move(requests[i].prompt);
      request.model = models[list[i].model]->id;
      request.arrival = clock_.now();
      sent_.push_back(request.arrival);
      const Status taken = fleet_.submit(std::move(request));
      if (!taken.ok()) answers_.refused(i, taken.error());
    }
    if (!sent_.empty()) wait_until(sent_.back() + replay_.request_max, /*or_all_ended=*/true);
    give_up_late();
    (void)answers_.wait(clock_.now() + kCancelMax);
    report();
  }
  Nanos begin() const { return begin_; }
  const std::vector<Nanos>& sent() const { return sent_; }

 private:
  void wait_until(Nanos until, bool or_all_ended = false) {
    while (clock_.now() < until) {
      const Nanos next = std::min(until, clock_.now() + kProgressEvery);
      // All that were begun have ended only behind the last.
      if (answers_.wait(next) && or_all_ended) return;
      give_up_late();
      report();
    }
  }

  void give_up_late() {
    const Nanos now = clock_.now();
    for (; oldest_ < sent_.size() && now >= sent_[oldest_] + replay_.request_max; ++oldest_) {
      const bool runs = answers_.give_up(oldest_);
      if (runs) fleet_.cancel(RequestId(static_cast<std::int64_t>(oldest_)));
    }
  }

  void report() {
    const Nanos now = clock_.now();
    if (!replay_.progress || now < reported_ + kProgressEvery) return;
    reported_ = now;
    LoadProgress progress = answers_.progress();
    progress.elapsed = now - begin_;
    progress.sent = std::ssize(sent_);
    replay_.progress(progress);
  }

  fleet::Fleet& fleet_;
  ReplaySink& answers_;
  const FleetReplay& replay_;
  const Clock& clock_;
  Nanos begin_, reported_;
  std::vector<Nanos> sent_;
  std::size_t oldest_ = 0;  // those before have ended, or are given up
};

ReplayCounters counters_since(const request::Observation& before, const request::Observation& after,
                              const ReplaySink::Answers& answers, Nanos took) {
  const request::KvCopyCounts &was = before.kv_copies, &is = after.kv_copies;
  ReplayCounters counters;
  counters.switches = answers.switches;
  if (answers.switches > 0) {
    counters.switch_ms = to_millis(answers.switching) / static_cast<double>(answers.switches);
  }
  counters.preemptions = after.preemptions - before.preemptions;
  counters.busy =
      to_seconds(after.device_busy - before.device_busy) / std::max(1e-9, to_seconds(took));
  counters.bytes = {{"weights in", (after.link_bytes - before.link_bytes).count}};
  counters.kv_blocks = {{"eager out", is.eager_out - was.eager_out},
                        {"rotation out", is.rotation_out - was.rotation_out},
                        {"rotation in", is.rotation_in - was.rotation_in},
                        {"prefix in", is.prefix_in - was.prefix_in}};
  return counters;
}

}  // namespace

void ReplaySink::begin(std::size_t requests) {
  const std::scoped_lock lock(mutex_);
  answers_ = {};
  answers_.of.resize(requests);
  ended_.assign(requests, 0);
  given_up_.assign(requests, 0);
  progress_ = {};
  progress_.total = static_cast<std::int64_t>(requests);
}

void ReplaySink::on_outputs(std::vector<request::Output> outputs) {
  const std::scoped_lock lock(mutex_);
  const Nanos now = clock_.now();
  for (const request::Output& output : outputs) {
    const auto at = static_cast<std::size_t>(output.request.value);
    if (at >= ended_.size() || ended_[at] != 0) continue;
    StreamOutcome& outcome = answers_.of[at];
    outcome.token_times.insert(outcome.token_times.end(), output.tokens.size(), now);
    outcome.completion_tokens += std::ssize(output.tokens);
    outcome.cached_tokens = output.cached_prompt.count;
    progress_.output_tokens += std::ssize(output.tokens);
    if (output.switched) {
      ++answers_.switches;
      answers_.switching += output.switched->took;
    }
    if (!output.finished) continue;
    if (output.reason == request::FinishReason::kError) {
      outcome.error = output.error;
      outcome.failure = std::string(name_of(output.code));
    } else if (output.reason == request::FinishReason::kCancelled) {
      outcome.failure = given_up_[at] != 0 ? "timeout" : "cancelled";
      outcome.error = outcome.failure;
    }
    ended_[at] = 1;
    end(outcome, now);
  }
}

void ReplaySink::refused(std::size_t request, const Error& error) {
  const std::scoped_lock lock(mutex_);
  StreamOutcome& outcome = answers_.of[request];
  outcome.error = error.message;
  outcome.failure = std::string(name_of(error.code));
  ended_[request] = 1;
  end(outcome, clock_.now());
}

void ReplaySink::end(StreamOutcome& outcome, Nanos now) {
  outcome.ended = now;
  ++(outcome.ok() ? progress_.completed : progress_.failed);
  if (progress_.completed + progress_.failed == progress_.total) all_ended_.notify_all();
}

bool ReplaySink::give_up(std::size_t request) {
  const std::scoped_lock lock(mutex_);
  given_up_[request] = 1;
  return ended_[request] == 0;
}

bool ReplaySink::wait(Nanos until) {
  std::unique_lock lock(mutex_);
  const auto all = [this] { return progress_.completed + progress_.failed == progress_.total; };
  return all_ended_.wait_for(lock, wait_time(until - clock_.now()), all);
}

LoadProgress ReplaySink::progress() const {
  const std::scoped_lock lock(mutex_);
  return progress_;
}

ReplaySink::Answers ReplaySink::take() {
  const std::scoped_lock lock(mutex_);
  for (std::size_t i = 0; i < ended_.size(); ++i) {
    if (std::exchange(ended_[i], std::uint8_t{1}) != 0) continue;
    answers_.of[i].error = answers_.of[i].failure = "timeout";
    end(answers_.of[i], clock_.now());
  }
  return std::move(answers_);
}

Result<ReplayReport> replay_on_fleet(fleet::Fleet& fleet, ReplaySink& answers,
                                     const FleetReplay& replay, const ReplayOptions& options,
                                     const Clock& clock) {
  const std::vector<const fleet::CatalogueEntry*> entries = fleet.catalogue();
  std::vector<ServedModel> models;
  for (const fleet::CatalogueEntry* entry : entries) {
    models.push_back(
        {.name = entry->name, .max_model_len = entry->max_model_len, .vocab = entry->vocab});
  }
  CAUSEWAY_ASSIGN(const auto list, replay_list(options, models.size()));
  CAUSEWAY_ASSIGN(auto requests, replay_requests(list, models, replay.vocab));
  answers.begin(list.size());
  const request::Observation before = fleet.observe();
  FleetRun run(fleet, answers, replay, clock);
  run.to_end(list, std::move(requests), entries);
  const Nanos took = clock.now() - run.begin();
  ReplaySink::Answers taken = answers.take();
  const ReplayCounters counters = counters_since(before, fleet.observe(), taken, took);
  std::vector<LoadRecord> records(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    records[i].model = models[list[i].model].name;
    records[i].scheduled = run.begin() + list[i].at;
    records[i].outcome = std::move(taken.of[i]);
    records[i].outcome.sent = run.sent()[i];
    records[i].outcome.prompt_tokens = list[i].prompt.count;
  }
  ReplayReport report =
      report_replay(list, records, {.ttft = options.slo.ttft, .tpot = options.slo.tpot}, counters);
  report.mode = "in-process";
  report.source = replay.source;
  report.models = models.size();
  return report;
}

}  // namespace causeway::bench
