#include "server/tracing/trace_exporter.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "server/api/json_write.h"
#include "server/tracing/http_post.h"

namespace causeway::server {
namespace {

constexpr Nanos kStopTime = seconds(1);  // for the thread to notice that it is to end

// What the standard says may be sent again.
bool may_be_sent_again(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

std::string words_of(const PostAnswer& answer) {
  std::string words = "it answers " + std::to_string(answer.status);
  if (!answer.body.empty()) words += ": " + to_valid_utf8(utf8_prefix(answer.body, 200));
  return words;
}

}  // namespace

struct TraceExporter::State {
  State(TraceOptions with, TraceResource of) : options(std::move(with)), resource(std::move(of)) {}

  const TraceOptions options;
  const TraceResource resource;
  std::atomic<std::uint64_t> roots{0}, traces{0};
  std::atomic<bool> gives_up{false};  // the thread: whatever it does

  mutable std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::deque<RequestTrace> queue;
  std::int64_t queued_spans = 0;
  TraceCounts counts;
  bool stopping = false;
  bool ended = false;  // the thread
  std::thread thread;

  void run();
  std::vector<RequestTrace> take_batch();  // under the lock
  // Without the lock while it waits; takes it again.
  void send(std::span<const RequestTrace> batch, std::unique_lock<std::mutex>& lock);
  // Waits before a batch is sent again; false: it is not to be.
  bool may_retry(Nanos after, std::unique_lock<std::mutex>& lock);
  void tell(bool works, const std::string& why);

  bool failing = false;  // the thread's own: so that the log says so once
};

void TraceExporter::State::run() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait_for(lock, chrono_of(options.period),
                     [this] { return stopping || queued_spans >= options.batch_spans_max; });
    while (!queue.empty() && !gives_up) {
      const std::vector<RequestTrace> batch = take_batch();
      send(batch, lock);
      if (!stopping && queued_spans < options.batch_spans_max) break;
    }
    if (stopping) break;
  }
  counts.dropped_stopped += std::exchange(queued_spans, 0);
  queue.clear();
  ended = true;
  changed.notify_all();
}

std::vector<RequestTrace> TraceExporter::State::take_batch() {
  std::vector<RequestTrace> batch;
  std::int64_t spans = 0;
  while (!queue.empty() && (batch.empty() || spans < options.batch_spans_max)) {
    spans += queue.front().spans();
    queued_spans -= queue.front().spans();
    batch.push_back(std::move(queue.front()));
    queue.pop_front();
  }
  return batch;
}

void TraceExporter::State::send(std::span<const RequestTrace> batch,
                                std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  std::int64_t spans = 0;
  for (const RequestTrace& trace : batch) spans += trace.spans();
  const std::string body = otlp_body(resource, batch);
  Nanos retry = options.first_retry;
  for (int posts = 1;; ++posts) {
    const auto answer = post_json(options.endpoint, body, options.post_time_max, gives_up);
    const bool taken = answer.ok() && answer->status / 100 == 2;
    if (!gives_up) tell(taken, answer.ok() ? words_of(*answer) : answer.error().message);
    lock.lock();
    if (taken) {
      const std::int64_t rejected = std::min(rejected_spans(answer->body), spans);
      counts.exported += spans - rejected;
      counts.dropped_rejected += rejected;
      return;
    }
    Nanos after = retry;
    if (answer.ok()) after = std::max(after, seconds(answer->retry_after_seconds));
    const bool again =
        posts < options.posts_max && (!answer.ok() || may_be_sent_again(answer->status));
    if (!again || !may_retry(std::min(after, options.retry_max), lock)) {
      (stopping && again ? counts.dropped_stopped : counts.dropped_failed) += spans;
      return;
    }
    retry = std::min(retry * 2, options.retry_max);
    lock.unlock();
  }
}

// A server that stops does not wait for a collector that fails.
bool TraceExporter::State::may_retry(Nanos after, std::unique_lock<std::mutex>& lock) {
  changed.wait_for(lock, chrono_of(after), [this] { return stopping; });
  return !stopping;
}

void TraceExporter::State::tell(bool works, const std::string& why) {
  if (std::exchange(failing, !works) == !works) return;
  if (works) {
    spdlog::info("spans are sent to {} again", options.endpoint.url());
  } else {
    spdlog::warn(
        "spans cannot be sent to {}: {}; they are sent again a few times, then dropped and counted "
        "by causeway:trace_spans_dropped_total",
        options.endpoint.url(), why);
  }
}

TraceExporter::TraceExporter(std::shared_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<TraceExporter>> TraceExporter::start(TraceOptions options,
                                                            TraceResource resource) {
  auto state = std::make_shared<State>(std::move(options), std::move(resource));
  try {
    state->thread = std::thread([state] { state->run(); });
  } catch (const std::system_error& error) {
    return exhausted(std::string("the thread that sends spans could not be started: ") +
                     error.what());
  }
  return std::make_unique<TraceExporter>(std::move(state));
}

TraceExporter::~TraceExporter() { stop(); }

std::optional<TraceContext> TraceExporter::context(std::optional<TraceContext> of_caller) {
  if (of_caller) return of_caller->sampled ? std::move(of_caller) : std::nullopt;
  TraceContext own{.trace = make_trace_id(state_->options.seed, state_->traces++), .state = {}};
  if (!is_sampled(own.trace, state_->options.sample_ratio)) return {};
  return own;
}

std::uint64_t TraceExporter::make_root() {
  return make_span_id(~state_->options.seed, state_->roots++);
}

void TraceExporter::add(RequestTrace trace) {
  const std::int64_t spans = trace.spans();
  const std::lock_guard lock(state_->mutex);
  if (state_->stopping) {
    state_->counts.dropped_stopped += spans;
    return;
  }
  if (state_->queued_spans + spans > state_->options.queued_spans_max) {
    state_->counts.dropped_full += spans;
    return;
  }
  state_->queued_spans += spans;
  state_->queue.push_back(std::move(trace));
  if (state_->queued_spans >= state_->options.batch_spans_max) state_->changed.notify_all();
}

TraceCounts TraceExporter::counts() const {
  const std::lock_guard lock(state_->mutex);
  return state_->counts;
}

void TraceExporter::stop() {
  std::unique_lock lock(state_->mutex);
  if (!state_->thread.joinable()) return;
  state_->stopping = true;
  state_->changed.notify_all();
  const auto ended = [this] { return state_->ended; };
  if (!state_->changed.wait_for(lock, chrono_of(state_->options.flush_time_max), ended)) {
    state_->gives_up = true;
    state_->changed.wait_for(lock, chrono_of(kStopTime), ended);
  }
  std::thread thread = std::move(state_->thread);
  const bool joins = state_->ended;
  lock.unlock();
  if (joins) {
    thread.join();
  } else {
    thread.detach();
  }
}

}  // namespace causeway::server
