// The events of a CUDA machine. Streams refer to events by number, so that an event may be
// destroyed while work that mentions it is queued. Private to device/cuda.
//
//   begin() ──▶ queued ──issue()──▶ issued ──▶ done      in a CUDA stream, polled
//                  └──────────complete()─────────▲       never got there: its stream failed
//
// A record of a stream that has failed carries the error, but is done only when the work before it
// is. Thread-safe: one lock for all events, held during calls of the driver that do not block.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "device/cuda/cuda_context.h"
#include "device/device.h"
#include "device/stream_failure.h"

namespace causeway::device {

// One record of an event.
struct CudaRecord {
  std::int64_t event = -1;
  std::int64_t record = 0;  // 0: never recorded
};

class CudaEvent;

class CudaEventBoard {
 public:
  struct State;  // of an event; stays where it is until the event is destroyed
  struct Created {
    std::int64_t event;
    State* state;
  };
  // `timed`: completed_at() will be known.
  Created create(bool timed = true);
  void destroy(std::int64_t event);

  // Begins a new record, which is queued. kInvalidArgument when the last one is not done.
  Result<CudaRecord> begin(std::int64_t event);
  // Issues the record to a stream of `context`. On failure the record is complete, with the error.
  Status issue(const CudaRecord& record, CudaContext& context, CUstream_st* stream,
               const std::optional<Error>& failure);
  void complete(const CudaRecord& record, const Error& failure);
  // begin() and issue() in one, in an open scope of the context. An error of the driver becomes the
  // stream's failure.
  Status record(const CudaEvent& event, CudaContext& context, const CudaScope& scope,
                CUstream_st* stream, StreamFailure& failure);

  CudaRecord latest(std::int64_t event) const;
  Result<bool> done(const CudaRecord& record);
  Result<bool> latest_done(State& state);
  Result<bool> latest_spin(State& state, Nanos length);
  Result<Nanos> completed_at(const CudaRecord& record);
  // Blocks; kDeadlineExceeded, or the error of the work before the record.
  Status wait(const CudaRecord& record, Nanos timeout);

  // Makes later work of `stream` wait for the record; returns its error if the work before it has
  // failed. false, without effect, while the record is only queued.
  Result<bool> wait_in(const CudaRecord& record, CudaContext& context, CUstream_st* stream);
  // Between these two calls a queued record's state outlives its event.
  void add_waiter(const CudaRecord& record);
  void drop_waiter(const CudaRecord& record);
  // Blocks until the record is issued, or until `stop` (then call wake()).
  void wait_issued(const CudaRecord& record, const std::atomic<bool>& stop);

  // Called before a context is destroyed: drops the events in it, even those of another device.
  void forget(CudaContext& context);

  void wake();
  // Blocks until something changes, at most for `most`.
  void pause(Nanos most);

 private:
  enum class Phase { kNever, kQueued, kIssued, kDone };

  // These need mutex_. nullptr: the record is over, and no longer known.
  State* find(const CudaRecord& record);
  // Whether the record is issued and, after at most so many polls, not over.
  bool under_way(State& state, int looks = 1);
  Result<bool> poll(State& state);
  Status begin(State& state);
  Status issue(State& state, CudaContext& context, const CudaScope& scope, CUstream_st* stream,
               const std::optional<Error>& failure);
  Status record_native(State& state, CudaContext& context, const CudaScope& scope,
                       CUstream_st* stream);
  void finish(State& state);
  void notify();
  void erase_if_unused(std::int64_t event, State& state);
  void drop_native(State& state);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int sleepers_ = 0;  // threads that wait on changed_
  std::unordered_map<std::int64_t, State> events_;
  std::int64_t next_event_ = 0;
};

struct CudaEventBoard::State {
  std::int64_t begun = 0;  // records so far
  Phase phase = Phase::kNever;
  bool timed = true;
  CUevent_st* native = nullptr;
  CudaContext* context = nullptr;  // of `native`
  std::optional<Error> failure;
  std::optional<Nanos> at;
  int waiters = 0;
  bool destroyed = false;
};

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(CudaEventBoard& board, bool timed = true)
      : board_(board), made_(board.create(timed)) {}
  ~CudaEvent() override { board_.destroy(id()); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  Result<bool> done() const override { return board_.latest_done(state()); }
  Result<bool> spin(Nanos length) const override { return board_.latest_spin(state(), length); }
  Status wait(Nanos timeout) const override { return board_.wait(board_.latest(id()), timeout); }
  Result<Nanos> completed_at() const override { return board_.completed_at(board_.latest(id())); }
  CudaEventBoard& board() const { return board_; }
  std::int64_t id() const { return made_.event; }
  CudaEventBoard::State& state() const { return *made_.state; }  // for the board only

 private:
  CudaEventBoard& board_;
  const CudaEventBoard::Created made_;
};

}  // namespace causeway::device
