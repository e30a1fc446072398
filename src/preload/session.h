// The engine's life in a stranger's process: takes over copies, each with a stand-in in the
// program's stream, and settles them.
//
//   copy()   decide ─▶ stand-in into the stream ─▶ engine.submit(after: started) ─▶ wait or return
//   engine   polls `started` ─▶ moves the chunks ─▶ transfer_ended(): the waiter, or `released`
//   keeper   thread that sleeps while nothing is pending: rescues transfers of held streams that
//            failed by one native copy, and lets go of those whose context has died
//
// A copy that its caller waits for holds no stream up: whatever goes wrong is told to the caller,
// which makes the native call. A copy whose stream is held (Async::kHold) is ours once it is taken
// over: the stream is released when its bytes are in place, or when they never can be, and then
// every later copy ends with an error.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "preload/gpus.h"
#include "preload/settings.h"
#include "preload/stand_in.h"
#include "preload/statistics.h"
#include "transfer/engine.h"

namespace causeway::preload {

// A copy as the program asks for it, whichever function it called.
struct CopyCall {
  CudaDevicePointer target = 0;
  CudaDevicePointer source = 0;
  std::size_t bytes = 0;
};

struct SessionOptions {
  Settings settings;
  transfer::TransferEngineOptions engine = {};
  Nanos look_every = millis(20);  // the keeper's period while something is pending
  Nanos start_max = micros(200);  // for Async::kWait: the time for the stream to come to the copy
  Nanos long_copy = seconds(10);  // the user is told of longer ones
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

class Session {
 public:
  // Opens contexts on all GPUs that take part, which may take seconds. Called on a thread of ours
  // whose capture mode is relaxed, or on the program's when the user chose CAUSEWAY_OPEN=wait.
  // kUnavailable when nothing can be gained on this machine. The table, the statistics and the
  // clock must outlive the session.
  static Result<std::unique_ptr<Session>> open(const Native& native, const SessionOptions& options,
                                               Statistics& statistics, const Clock& clock);
  Session(const Native& native, const SessionOptions& options, Statistics& statistics,
          const Clock& clock);
  // Pending copies get a second to finish, and are then cancelled.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Takes the copies over if that pays; all are of one direction and one GPU. false: the caller
  // makes the native call. `synchronous` tells whether the program's call is. Synchronous copies,
  // and all with Async::kWait, return when the bytes are in place. `stream` is never null: the
  // default streams have names (native.h).
  bool copy(std::span<const CopyCall> copies, CUstream_st* stream, bool synchronous);
  // The driver's error code. It differs from success once a copy of a held stream could not be made
  // at all; every later call then returns it.
  int failure() const { return failure_.load(); }

  // The time limit of calls that delay later work of a device: they wait for held streams first,
  // but what they do may be what these streams wait for.
  static constexpr Nanos kShortWait = seconds(2);
  // The time limit of calls that wait for a whole device.
  static constexpr Nanos kUntilIdle = seconds(60);

  // During the life of one of these no stream begins to be held.
  class Settled {
   public:
    explicit Settled(Session& session) : session_(session) { session_.settling_.fetch_add(1); }
    // Returns when no stream is held any more, or after `most`.
    Settled(Session& session, Nanos most);
    ~Settled() { session_.settling_.fetch_sub(1); }
    Settled(const Settled&) = delete;
    Settled& operator=(const Settled&) = delete;

   private:
    Session& session_;
  };

  // Copies that would wait in the driver for the earlier work of `stream`, held streams included,
  // and keep the engine out meanwhile. This waits outside the driver, then makes the copies in a
  // stream of ours, which waits for no other; it returns the driver's result when they are done.
  // nullopt: no stream is held any more, or the current context is not ours, and the native call is
  // to follow. Call it within the life of a Settled.
  std::optional<int> copy_outside(std::span<const CopyCall> copies, CUstream_st* stream);

  // Called before the process or the contexts end. No copy is taken over any more; pending copies
  // get `grace` to finish and are then let go; after that the driver is not called any more. The
  // session must stay alive, because other threads may be in it.
  void retire(Nanos grace);

  int pending() const { return pending_count_.load(); }
  int held() const { return held_count_.load(); }
  // Whether the settings allow holding streams.
  bool holds() const { return options_.settings.async == Async::kHold; }
  transfer::TransferStats traffic() const;
  const Gpus& gpus() const { return *gpus_; }

 private:
  class Pending;
  struct Waiter;

  Status start();
  Status make_engine();
  Status make_own_streams();
  Decision decide_for(std::span<const CopyCall> copies, CUstream_st* stream) const;
  // Needs one place of pending_count_, which is given back on failure. nullopt: the copy was taken
  // over.
  std::optional<Verdict> take_over(const Decision& decision, std::span<const CopyCall> copies,
                                   CUstream_st* stream, Waiter* waiter);
  bool leave(Verdict verdict, Bytes bytes);
  std::optional<Verdict> may_begin(bool hold);
  bool await(Waiter& waiter, Nanos start_by);
  void let_go(const Waiter& waiter);

  transfer::TransferRequest request_for(transfer::Direction direction, Pending& pending) const;
  void give_up_place(bool hold);

  void ended(Pending& pending, const Status& outcome);
  void finish(Pending& pending, bool moved);
  void finish_failed(Pending& pending);
  void forget(const Pending& pending);
  void keep();
  void look_for_dead_contexts();
  Status rescue(const Pending& pending);
  Status wait_for_rescue(const Pending& pending);
  void tell_of_long_copies();
  bool wait_until_none(const std::atomic<int>& count, Nanos timeout);
  std::optional<int> wait_while_held(CUstream_st* stream);
  std::optional<int> link_of(CUstream_st* stream) const;
  template <typename Ask>
  int poll_outside(Ask ask);
  void close(Nanos grace);

  const Native& native_;
  const SessionOptions options_;
  Statistics& statistics_;
  const Clock& clock_;
  std::unique_ptr<Gpus> gpus_;
  transfer::LinkSet helped_;  // by ordinal
  std::unique_ptr<Flags> flags_;
  std::unique_ptr<StandIn> stand_in_;
  std::vector<CUstream_st*> rescue_streams_;  // by link; the keeper's
  std::vector<CUstream_st*> copy_streams_;    // by link; for copy_outside()

  std::atomic<int> settling_{0};
  std::atomic<bool> closing_{false};
  std::atomic<int> pending_count_{0};
  std::atomic<int> held_count_{0};  // of them
  std::atomic<int> failure_{0};

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::unordered_map<const Pending*, std::unique_ptr<Pending>> pending_;
  std::vector<Pending*> failed_;  // the keeper makes their rescue copies
  bool stop_ = false;
  std::thread keeper_;

  std::unique_ptr<transfer::TransferEngine> engine_;  // destroyed first
};

}  // namespace causeway::preload
