// The life of a worker's process: heard, lost, started again (worker_start.cc).
#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "worker/worker_state.h"

namespace causeway::worker {
namespace {

constexpr Nanos kLongLived =
    seconds(1);  // a worker that lived so long is no sign of trouble to come
constexpr Nanos kPoll = seconds(1);       // an upper bound of waits that are woken
constexpr Nanos kLook = millis(20);       // of waits that are not

request::Output end_of(RequestId request, std::int32_t attempt, request::FinishReason reason,
                       const Error& why) {
  request::Output output;
  output.request = request;
  output.attempt = attempt;
  output.lost = reason == request::FinishReason::kError;
  output.finished = true;
  output.reason = reason;
  output.error = why.message;
  output.code = why.code;
  return output;
}

bool knows(std::int64_t vocab, TokenId token) {
  return token >= 0 && (vocab == 0 || token < vocab);
}

// An answer to what it asks, and to what others have said meanwhile: a worker that runs or not
// observes, or is alive, 20 times a second at least.
bool is_time_to_lend(const Message& message) {
  return std::holds_alternative<transfer::LinkAsk>(message) ||
         std::holds_alternative<Observed>(message) || std::holds_alternative<Alive>(message);
}

// The server looks tokens up without asking whether they are within the vocabulary.
bool makes_sense(const request::Output& output, std::int64_t vocab) {
  return std::all_of(output.tokens.begin(), output.tokens.end(), [&](const auto& token) {
    return knows(vocab, token.token) &&
           std::all_of(token.top.begin(), token.top.end(),
                       [&](const auto& one) { return knows(vocab, one.token); });
  });
}

}  // namespace

Status Worker::State::start() {
  if (const Status connected = connect(); !connected.ok()) {
    lose(connected.error());
    while (!all_ended(kPoll)) {
    }
    return connected;
  }
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    lose(unavailable("no thread"));
    return exhausted(std::string("cannot start a thread: ") + error.what());
  }
  return {};
}

void Worker::State::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    if (channel_) channel_->wake();
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

bool Worker::State::stopping() const {
  const std::scoped_lock lock(mutex_);
  return stopping_;
}

void Worker::State::run() {
  bool connected = true;
  while (true) {
    Status why;
    const Nanos began = clock_.now();
    if (connected) {
      why = serve();
      const bool of_use = answered_ || clock_.now() - began > kLongLived;
      if (of_use) losses_ = 0;
    } else {
      why = connect();
      connected = why.ok();
      if (connected) continue;
    }
    lose(why.error());
    connected = false;
    if (stopping()) break;
    const Nanos length = restart_pause(++losses_, options_.pause_min, options_.pause_max);
    spdlog::error("the worker of {} is lost: {}; it is started again{}", options_.name,
                  why.error().message,
                  losses_ > 1 ? fmt::format(" in {:.0f} ms", to_millis(length)) : " at once");
    if (losses_ > 1 && !pause(length)) break;
  }
  while (!all_ended(kPoll)) {
  }
}

// Also for the end of those that were killed: what failed beside it may succeed behind it.
bool Worker::State::pause(Nanos length) {
  while (!stopping() && !all_ended(kLook)) {
  }
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, std::chrono::nanoseconds(length.count),
                            [this] { return stopping_; });
}

// Until it is lost, or told to stop: why.
Error Worker::State::serve() {
  Nanos heard = clock_.now();
  while (true) {
    const Nanos wait = std::min(heard + options_.silence_max - clock_.now(), kPoll);
    auto received = channel_->receive(wait);
    if (!received.ok()) return received.error();
    if (!channel_->quiet()) heard = clock_.now();
    if (*received) {
      auto message = decode((*received)->message);
      if (!message.ok()) return message.error();
      const bool lends = is_time_to_lend(*message);
      const Status handled = handle(std::move(message).value());
      if (!handled.ok()) return handled.error();
      if (lends) lend();
    } else if (clock_.now() - heard > options_.silence_max) {
      return unavailable("it has said nothing for " +
                         std::to_string(options_.silence_max / millis(1)) + " ms");
    }
    const std::scoped_lock lock(mutex_);
    if (stopping_) return Error{ErrorCode::kCancelled, "the server is shutting down"};
    if (!hangs_.empty()) return unavailable(hangs_);
  }
}

Status Worker::State::handle(Message message) {
  if (auto* outputs = std::get_if<Outputs>(&message)) return take(std::move(*outputs));
  if (const auto* observed = std::get_if<Observed>(&message)) return take(*observed);
  if (const auto* queued = std::get_if<Queued>(&message)) return take(*queued);
  if (const auto* stepping = std::get_if<Stepping>(&message)) return take(*stepping);
  if (auto* one = std::get_if<Attached>(&message)) {
    if (!one->error) tell_attached();
    return take(one->call, {std::move(one->error), one->streamed, one->predicted_tpot});
  }
  if (auto* one = std::get_if<Detached>(&message)) {
    return take(one->call, {std::move(one->error), {}, {}});
  }
  if (const auto* ask = std::get_if<transfer::LinkAsk>(&message)) return take(*ask);
  if (std::holds_alternative<Alive>(message)) return {};
  return corrupt("it sends what only a supervisor says");
}

Result<Worker::State::One*> Worker::State::from(std::int32_t slice) {
  if (slice < 0 || static_cast<std::size_t>(slice) >= slices_.size()) {
    return corrupt("it means slice " + std::to_string(slice) + " of " + std::to_string(slices()));
  }
  return &one(slice);
}

Status Worker::State::take(Outputs outputs) {
  std::vector<request::Output> known;
  Status sense;
  {
    const std::scoped_lock lock(mutex_);
    CAUSEWAY_ASSIGN(One* const one, from(outputs.slice));
    for (request::Output& output : outputs.outputs) {
      const auto at = one->requests.find(output.request);
      if (at == one->requests.end() || at->second.attempt != output.attempt) continue;
      const auto model = one->models.find(at->second.model);
      const std::int64_t vocab = model == one->models.end() ? 0 : model->second.vocab;
      if (!makes_sense(output, vocab)) sense = corrupt("it sends a token that its model has not");
      // It is on the list yet, and ends with the others that are.
      if (output.lost) sense = Error{ErrorCode::kDevice, output.error};
      if (!sense.ok()) break;
      if (output.finished) one->requests.erase(at);
      answered_ = answered_ || !output.tokens.empty();
      known.push_back(std::move(output));
    }
  }
  // Those before it have been taken off the list of requests.
  if (!known.empty()) sink_.on_outputs(std::move(known));
  return sense;
}

Status Worker::State::take(const Observed& observed) {
  if (!observed.all.lost.empty()) return Error{ErrorCode::kDevice, observed.all.lost};
  if (observed.all.hung) return Error{ErrorCode::kDevice, "its device does not answer"};
  const std::scoped_lock lock(mutex_);
  CAUSEWAY_ASSIGN(One* const one, from(observed.slice));
  one->seen.now = observed.all;
  one->seen.link_busy = observed.link_busy;
  for (const auto& [model, seen] : observed.models) {
    if (one->has(model)) one->models_seen[model].now = seen;
  }
  return {};
}

// A message about a request that has ended has no effect.
Status Worker::State::take(const Queued& queued) {
  const std::scoped_lock lock(mutex_);
  CAUSEWAY_ASSIGN(One* const one, from(queued.slice));
  const auto at = one->requests.find(queued.request);
  if (at != one->requests.end()) at->second.queued = true;
  return {};
}

Status Worker::State::take(const Stepping& stepping) {
  const std::scoped_lock lock(mutex_);
  CAUSEWAY_ASSIGN(One* const one, from(stepping.slice));
  one->in_steps = stepping.requests;
  return {};
}

Status Worker::State::take(const transfer::LinkAsk& ask) {
  if (options_.leases == nullptr) return corrupt("it asks for a lease, and shares no link");
  return options_.leases->ask(options_.lessee, ask, clock_.now());
}

void Worker::State::lend() {
  if (options_.leases == nullptr) return;
  const auto lease = options_.leases->take(options_.lessee, clock_.now());
  // What cannot be sent counts as leased until it would have ended.
  if (lease) (void)channel_->send(encode(*lease)).ok();
}

std::vector<RequestId> Worker::State::One::active() const {
  std::vector<RequestId> active;
  for (const RequestId id : in_steps) {
    if (requests.contains(id)) active.push_back(id);
  }
  for (const auto& [id, asked] : requests) {
    if (!asked.queued) active.push_back(id);
  }
  return active;
}

Status Worker::State::take(std::int64_t number, Answer answer) {
  const std::scoped_lock lock(mutex_);
  const auto at = answers_.find(number);
  if (at == answers_.end()) return {};  // the caller has given up
  at->second = std::move(answer);
  changed_.notify_all();
  return {};
}

Worker::State::Ends Worker::State::take_requests(request::FinishReason reason, const Error& why) {
  Ends ends;
  for (One& one : slices_) {
    for (const auto& [request, asked] : one.requests) {
      ends.push_back(end_of(request, asked.attempt, reason, why));
    }
    one.requests.clear();
  }
  return ends;
}

void Worker::State::lose(const Error& why) {
  child_.kill();
  if (options_.leases != nullptr) options_.leases->forget(options_.lessee);
  reopened_at_.reset();
  std::vector<Model> gone;  // homes are let go after the lock
  Ends ends;
  {
    const std::scoped_lock lock(mutex_);
    if (serves_) {
      lost_at_ = clock_.now();
      parts_ = {.starts = 0};
    }
    serves_ = false;
    pid_ = -1;
    for (One& one : slices_) {
      // A start that fails before the fleet has heard of the loss has had no requests.
      if (one.lost.empty()) one.suspects = one.active();
      one.in_steps.clear();
      if (!stopping_) one.lost = why.message.empty() ? "it has ended" : why.message;
      for (auto& [id, model] : one.models) gone.push_back(std::move(model));
      one.models.clear();
      one.seen.lose();
      for (auto& [id, seen] : one.models_seen) seen.lose();
    }
    ends = stopping_ ? take_requests(request::FinishReason::kCancelled, {})
                     : take_requests(request::FinishReason::kError,
                                     unavailable("the process that served the request was lost: " +
                                                 why.message + "; try again"));
    answers_.clear();
    channel_.reset();
    changed_.notify_all();
  }
  gone.clear();
  if (!ends.empty()) sink_.on_outputs(std::move(ends));
  // Its end may take seconds, in which the next one gets ready.
  if (child_.pid() > 0) ending_.push_back({std::move(child_), clock_.now()});
}

}  // namespace causeway::worker
