#include "worker/worker_state.h"

#include <chrono>
#include <utility>

#include "base/check.h"

namespace causeway::worker {
namespace {

constexpr Nanos kDetachGrace = seconds(10);  // beyond the time that a model has to go
constexpr std::chrono::seconds kNoticed(5);  // until a worker that hangs is taken for lost

// What only grows.
request::Observation counters_of(const request::Observation& seen) {
  request::Observation counters = seen;
  counters.requests_running = counters.requests_waiting = counters.requests_rotary = 0;
  counters.frames_total = counters.frames_used = counters.frames_stranded = 0;
  counters.twins_total = counters.twins_used = 0;
  counters.weights_cached = Bytes(0);
  counters.hung = false;
  counters.lost.clear();
  return counters;
}

Error lost_error(const std::string& why) {
  return unavailable("the process of the model's slice was lost: " + why + "; try again");
}

}  // namespace

request::Observation Worker::State::Seen::all() const {
  request::Observation sum = before;
  sum += now;
  return sum;
}

void Worker::State::Seen::lose() {
  link_busy_before += std::exchange(link_busy, Nanos(0));
  before += counters_of(now);
  now = {};
}

Worker::State::State(const WorkerOptions& options, slice::ModelHome& home, const Clock& clock,
                     engine::OutputSink& sink)
    : options_(options), home_(home), clock_(clock), sink_(sink), slices_(slices()) {
  for (std::size_t i = 0; i < slices(); ++i) {
    slices_[i].requests_max = options.plan.slices[i].engine.requests_max;
  }
}

Status Worker::State::submit(std::int32_t slice, request::Request request) {
  const RequestId id = request.id;
  const ModelId model = request.model;
  const Asked asked{.model = model, .attempt = request.attempt};
  Submit submit{slice, std::move(request)};
  submit.formed = submit.request.constraint != nullptr;
  if (submit.formed) submit.form = submit.request.constraint->text();
  const auto bytes = encode(submit);  // outside the lock: it may be long
  const std::scoped_lock lock(mutex_);
  One& one = this->one(slice);
  if (stopping_) return unavailable("the server is shutting down");
  if (!one.lost.empty()) return lost_error(one.lost);
  if (!one.models.contains(model)) {
    return invalid_argument("model " + std::to_string(model.value) + " is not on this slice");
  }
  if (std::ssize(one.requests) >= one.requests_max) {
    return exhausted("too many requests are running and waiting; try again later");
  }
  if (!one.requests.emplace(id, asked).second) {
    return invalid_argument("request " + std::to_string(id.value) + " is on this slice already");
  }
  const Status sent = channel_->send(bytes);
  // If the worker has gone, the thread is about to hear of it and ends the request with the others.
  if (sent.ok() || sent.error().code == ErrorCode::kUnavailable) return {};
  one.requests.erase(id);
  return sent;
}

void Worker::State::cancel(std::int32_t slice, RequestId request) {
  const std::scoped_lock lock(mutex_);
  if (!one(slice).requests.contains(request) || !channel_) return;
  // What cannot be said is not done: then the worker does not read, and will be lost.
  (void)channel_->send(encode(Cancel{slice, request})).ok();
}

request::Observation Worker::State::observe(std::int32_t slice) const {
  const std::scoped_lock lock(mutex_);
  request::Observation seen = one(slice).seen.all();
  seen.lost = one(slice).lost;
  return seen;
}

Nanos Worker::State::link_busy(std::int32_t slice) const {
  const std::scoped_lock lock(mutex_);
  return one(slice).seen.link_busy_before + one(slice).seen.link_busy;
}

request::Observation Worker::State::observe(std::int32_t slice, ModelId model) const {
  const std::scoped_lock lock(mutex_);
  const auto seen = one(slice).models_seen.find(model);
  const bool there = seen != one(slice).models_seen.end() && one(slice).models.contains(model);
  return there ? seen->second.all() : request::Observation();
}

std::vector<std::pair<ModelId, request::Observation>> Worker::State::observe_models(
    std::int32_t slice) const {
  std::vector<std::pair<ModelId, request::Observation>> all;
  const std::scoped_lock lock(mutex_);
  for (const auto& [model, seen] : one(slice).models_seen) {
    if (one(slice).models.contains(model)) all.emplace_back(model, seen.all());
  }
  return all;
}

std::optional<Worker::State::Answer> Worker::State::call(std::unique_lock<std::mutex>& lock,
                                                         std::int64_t number,
                                                         const Message& message, int descriptor,
                                                         Nanos timeout) {
  answers_[number] = std::nullopt;
  const Status sent = channel_->send(encode(message), descriptor);
  if (!sent.ok() && sent.error().code != ErrorCode::kUnavailable) {
    answers_.erase(number);
    return Answer{sent.error(), {}, {}};
  }
  // lose() takes it away.
  const bool ended = changed_.wait_for(lock, std::chrono::nanoseconds(timeout.count), [&] {
    const auto at = answers_.find(number);
    return at == answers_.end() || at->second.has_value();
  });
  const auto at = answers_.find(number);
  if (at == answers_.end()) return std::nullopt;
  const std::optional<Answer> answer = std::move(at->second);
  answers_.erase(at);
  if (!ended) {
    hangs_ = "it did not answer within " + std::to_string(timeout / millis(1)) + " ms";
    channel_->wake();
    // The caller finds it lost.
    const std::int64_t start = starts_;
    changed_.wait_for(lock, kNoticed, [&] { return channel_ == nullptr || starts_ != start; });
  }
  return answer;
}

Result<fleet::AttachedModel> Worker::State::attach(std::int32_t slice,
                                                   const fleet::CatalogueEntry& entry,
                                                   const fleet::ModelSource& source, bool pinned) {
  CAUSEWAY_ASSIGN(auto home, home_.pool.pin(entry.id));
  const RegionId region = home->address().region;
  CAUSEWAY_CHECK(home->address().offset == Bytes(0), "a model is the first thing of its region");
  std::unique_lock lock(mutex_);
  One& one = this->one(slice);
  if (!serves_ || !one.lost.empty()) return lost_error(one.lost);
  const std::int64_t number = ++calls_;
  const std::int64_t start = starts_;
  const Attach wanted{.call = number,
                      .slice = slice,
                      .model = entry.id,
                      .name = entry.name,
                      .directory = source.directory,
                      .max_model_len = entry.max_model_len,
                      .max_resident = entry.max_resident,
                      .alpha = entry.alpha,
                      .tpot = entry.slo.tpot,
                      .pinned = pinned,
                      .bytes = home->bytes(),
                      .eos = entry.eos,
                      .tool_calls = entry.tool_calls};
  one.attaching = entry.id;
  const auto answer =
      call(lock, number, wanted, home_.memory.file_descriptor(region), options_.attach_max);
  one.attaching = {};
  if (!answer || starts_ != start || !one.lost.empty()) {
    return lost_error(one.lost.empty() ? hangs_ : one.lost);
  }
  if (answer->error) return *answer->error;
  one.models[entry.id] = {std::move(home), entry.vocab};
  return fleet::AttachedModel{answer->streamed, answer->predicted_tpot};
}

Status Worker::State::detach(std::int32_t slice, ModelId model, Nanos timeout) {
  Model gone;  // its home is let go after the lock
  std::unique_lock lock(mutex_);
  One& one = this->one(slice);
  if (!serves_ || !one.lost.empty()) return {};
  if (!one.models.contains(model)) return not_found("the model is not attached");
  const std::int64_t number = ++calls_;
  const std::int64_t start = starts_;
  const auto answer =
      call(lock, number, Detach{number, slice, model, timeout}, -1, timeout + kDetachGrace);
  // With the worker it has gone, too.
  if (!answer || starts_ != start || !one.lost.empty()) return {};
  if (answer->error) return *answer->error;
  if (const auto at = one.models.find(model); at != one.models.end()) {
    gone = std::move(at->second);
    one.models.erase(at);
  }
  lock.unlock();
  return {};
}

bool Worker::State::returned(std::int32_t slice) {
  const std::scoped_lock lock(mutex_);
  if (one(slice).lost.empty() || !serves_) return false;
  one(slice).lost.clear();
  return true;
}

std::vector<RequestId> Worker::State::suspects(std::int32_t slice) const {
  const std::scoped_lock lock(mutex_);
  return one(slice).suspects;
}

Opened::Slice Worker::State::opened(std::int32_t slice) const {
  const std::scoped_lock lock(mutex_);
  return one(slice).opened;
}

int Worker::State::pid() const {
  const std::scoped_lock lock(mutex_);
  return pid_;
}

std::int64_t Worker::State::starts() const {
  const std::scoped_lock lock(mutex_);
  return starts_;
}

}  // namespace causeway::worker
