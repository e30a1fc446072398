#include "device/cuda/cuda_event_board.h"

#include <chrono>
#include <string>

#include "base/spin.h"

namespace causeway::device {

CudaEventBoard::Created CudaEventBoard::create(bool timed) {
  const std::lock_guard lock(mutex_);
  State& state = events_[next_event_];
  state.timed = timed;
  return {next_event_++, &state};
}

void CudaEventBoard::destroy(std::int64_t event) {
  const std::lock_guard lock(mutex_);
  const auto found = events_.find(event);
  CAUSEWAY_CHECK(found != events_.end() && !found->second.destroyed,
                 "the event was destroyed already");
  found->second.destroyed = true;
  erase_if_unused(event, found->second);
}

// The driver keeps a destroyed event for the work that uses it, so an issued event may be
// destroyed.
void CudaEventBoard::erase_if_unused(std::int64_t event, State& state) {
  if (!state.destroyed || state.phase == Phase::kQueued || state.waiters > 0) return;
  drop_native(state);
  events_.erase(event);
}

void CudaEventBoard::drop_native(State& state) {
  if (state.native != nullptr) state.context->destroy_event(state.native);
  state.native = nullptr;
}

CudaEventBoard::State* CudaEventBoard::find(const CudaRecord& record) {
  const auto found = events_.find(record.event);
  if (found == events_.end() || found->second.begun != record.record) return nullptr;
  return &found->second;
}

void CudaEventBoard::finish(State& state) {
  state.phase = Phase::kDone;
  notify();
}

// While small copies are polled no thread sleeps, and then even this call would cost time.
void CudaEventBoard::notify() {
  if (sleepers_ > 0) changed_.notify_all();
}

bool CudaEventBoard::under_way(State& state, int looks) {
  if (state.phase != Phase::kIssued) return false;
  CudaContext& context = *state.context;
  const CudaScope scope(context.api(), context.handle());
  int result = kCudaNotReady;
  for (int look = 0; look < looks && scope.ok() && result == kCudaNotReady; ++look) {
    result = context.api().cuEventQuery(state.native);
  }
  if (scope.ok() && result == kCudaNotReady) return true;
  if (result != kCudaSuccess) [[unlikely]] {
    state.failure = context.call_in(scope, "cuEventQuery", [&] { return result; }).error();
  }
  finish(state);
  return false;
}

Result<bool> CudaEventBoard::poll(State& state) {
  if (under_way(state)) {
    CAUSEWAY_TRY(state.context->physical().health());  // it will never be ready
    return false;
  }
  if (state.phase == Phase::kQueued) return false;
  if (state.failure) return *state.failure;
  return true;
}

Status CudaEventBoard::begin(State& state) {
  if (state.phase == Phase::kQueued || state.phase == Phase::kIssued) {
    const Result<bool> over = poll(state);
    if (over.ok() && !*over) {
      return invalid_argument("an event is recorded again before its last record is done");
    }
  }
  state.phase = Phase::kQueued;
  state.failure.reset();
  state.at.reset();
  ++state.begun;
  return {};
}

Result<CudaRecord> CudaEventBoard::begin(std::int64_t event) {
  const std::lock_guard lock(mutex_);
  State& state = events_.at(event);
  CAUSEWAY_TRY(begin(state));
  return CudaRecord{event, state.begun};
}

Status CudaEventBoard::issue(State& state, CudaContext& context, const CudaScope& scope,
                             CUstream_st* stream, const std::optional<Error>& failure) {
  Status status = record_native(state, context, scope, stream);
  state.failure = failure;
  if (status.ok()) {
    state.phase = Phase::kIssued;
    return status;
  }
  if (!failure) state.failure = status.error();
  finish(state);
  return status;
}

Status CudaEventBoard::record_native(State& state, CudaContext& context, const CudaScope& scope,
                                     CUstream_st* stream) {
  if (state.native == nullptr || state.context != &context) {
    drop_native(state);
    CAUSEWAY_ASSIGN(state.native, context.make_event(state.timed));
    state.context = &context;
  }
  return context.call_in(scope, "cuEventRecord",
                         [&] { return context.api().cuEventRecord(state.native, stream); });
}

Status CudaEventBoard::issue(const CudaRecord& record, CudaContext& context, CUstream_st* stream,
                             const std::optional<Error>& failure) {
  const std::lock_guard lock(mutex_);
  State* state = find(record);
  CAUSEWAY_CHECK(state != nullptr && state->phase == Phase::kQueued,
                 "an event's record is issued twice");
  const CudaScope scope(context.api(), context.handle());
  Status status = issue(*state, context, scope, stream, failure);
  notify();
  erase_if_unused(record.event, *state);
  return status;
}

// No other thread has seen the record queued, so none waits until it is issued.
Status CudaEventBoard::record(const CudaEvent& event, CudaContext& context, const CudaScope& scope,
                              CUstream_st* stream, StreamFailure& failure) {
  const std::lock_guard lock(mutex_);
  State& state = event.state();
  CAUSEWAY_TRY(begin(state));
  Status status = issue(state, context, scope, stream, failure.first());
  if (!status.ok()) failure.set(status.error());
  return status;
}

void CudaEventBoard::complete(const CudaRecord& record, const Error& failure) {
  const std::lock_guard lock(mutex_);
  State* state = find(record);
  CAUSEWAY_CHECK(state != nullptr && state->phase == Phase::kQueued,
                 "an event's record is done twice");
  state->failure = failure;
  finish(*state);
  erase_if_unused(record.event, *state);
}

CudaRecord CudaEventBoard::latest(std::int64_t event) const {
  const std::lock_guard lock(mutex_);
  return {event, events_.at(event).begun};
}

Result<bool> CudaEventBoard::done(const CudaRecord& record) {
  if (record.record == 0) return true;
  const std::lock_guard lock(mutex_);
  State* state = find(record);
  if (state == nullptr) return true;
  return poll(*state);
}

Result<bool> CudaEventBoard::latest_done(State& state) {
  const std::lock_guard lock(mutex_);
  return poll(state);
}

// Polls several times with the lock held once, because all that happens between two polls delays
// the caller of a small copy. A record that is only queued is not polled so: the thread that issues
// it needs the lock.
Result<bool> CudaEventBoard::latest_spin(State& state, Nanos length) {
  constexpr int kLooks = 4;
  bool went_well = false;
  (void)spin_until(
      [&] {
        const std::lock_guard lock(mutex_);
        if (under_way(state, kLooks)) return !state.context->physical().health().ok();
        went_well = state.phase == Phase::kDone && !state.failure;
        return true;
      },
      length);
  if (went_well) return true;
  return latest_done(state);
}

Result<Nanos> CudaEventBoard::completed_at(const CudaRecord& record) {
  const std::lock_guard lock(mutex_);
  State* state = find(record);
  if (record.record == 0 || state == nullptr) return unavailable("the event has not occurred");
  CAUSEWAY_ASSIGN(const bool over, poll(*state));
  if (!over) return unavailable("the event has not occurred");
  if (!state->at) {
    if (!state->timed) return unavailable("the event does not take the time");
    if (state->native == nullptr) return unavailable("the event's device was closed");
    CAUSEWAY_ASSIGN(state->at, state->context->time_of(state->native));
  }
  return *state->at;
}

Status CudaEventBoard::wait(const CudaRecord& record, Nanos timeout) {
  return poll_until([&] { return done(record); }, timeout, [&](Nanos most) { pause(most); })
      .with_context("waiting for an event");
}

Result<bool> CudaEventBoard::wait_in(const CudaRecord& record, CudaContext& context,
                                     CUstream_st* stream) {
  const std::lock_guard lock(mutex_);
  State* state = find(record);
  if (record.record == 0 || state == nullptr) return true;
  if (state->phase == Phase::kQueued) return false;
  if (state->phase == Phase::kIssued) {
    CAUSEWAY_TRY(context.call("cuStreamWaitEvent", [&] {
      return context.api().cuStreamWaitEvent(stream, state->native, 0);
    }));
  }
  if (state->failure) return *state->failure;
  return true;
}

void CudaEventBoard::add_waiter(const CudaRecord& record) {
  const std::lock_guard lock(mutex_);
  if (const auto found = events_.find(record.event); found != events_.end()) {
    ++found->second.waiters;
  }
}

void CudaEventBoard::drop_waiter(const CudaRecord& record) {
  const std::lock_guard lock(mutex_);
  const auto found = events_.find(record.event);
  if (found == events_.end()) return;
  --found->second.waiters;
  erase_if_unused(record.event, found->second);
}

void CudaEventBoard::wait_issued(const CudaRecord& record, const std::atomic<bool>& stop) {
  std::unique_lock lock(mutex_);
  ++sleepers_;
  changed_.wait(lock, [&] {
    const State* state = find(record);
    return stop.load() || state == nullptr || state->phase != Phase::kQueued;
  });
  --sleepers_;
}

void CudaEventBoard::forget(CudaContext& context) {
  const std::lock_guard lock(mutex_);
  for (auto& [event, state] : events_) {
    if (state.native == nullptr || state.context != &context) continue;
    const bool over = poll(state).ok() && state.phase == Phase::kDone;
    if (!over && state.phase == Phase::kIssued) {
      state.failure = unavailable("the event's device was closed");
      finish(state);
    }
    if (state.phase == Phase::kDone && !state.failure && !state.at && state.timed) {
      if (const auto at = context.time_of(state.native); at.ok()) state.at = *at;
    }
    drop_native(state);
    state.context = nullptr;
  }
}

void CudaEventBoard::wake() {
  const std::lock_guard lock(mutex_);
  notify();
}

void CudaEventBoard::pause(Nanos most) {
  std::unique_lock lock(mutex_);
  ++sleepers_;
  changed_.wait_for(lock, std::chrono::nanoseconds(most.count));
  --sleepers_;
}

}  // namespace causeway::device
