// The engine's life in a stranger's process: takes over copies, each with a stand-in in the
// program's stream, and settles them.
//
//   copy()   decide ─▶ engine.submit(after: started) ─▶ stand-in into the stream ─▶ return
//   engine   polls `started` ─▶ moves the chunks ─▶ transfer_ended(): `released`
//   keeper   thread that sleeps while nothing is pending: rescues transfers that failed by one
//            native copy, and lets go of those whose context has died
//
// A copy is either left to the caller (nothing has been done) or it is ours, and then the stream is
// released only when its bytes are in place, or when the context is dead and no byte matters.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
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
  Nanos look_every = millis(20);  // the keeper, while something is pending
};

class Session {
 public:
  // Opens contexts on all GPUs that take part: may take seconds. On a thread of ours, whose capture
  // mode is relaxed, or on the program's when it agreed to wait. kUnavailable when there is nothing
  // to gain on this machine. The table, the statistics and the clock must outlive it.
  static Result<std::unique_ptr<Session>> open(const Native& native, const SessionOptions& options,
                                               Statistics& statistics, const Clock& clock);
  Session(const Native& native, const SessionOptions& options, Statistics& statistics,
          const Clock& clock);
  // As close().
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Takes the copies over if that pays: all of one direction and one GPU. false: the caller is to
  // make the native call. With `wait`, returns when the bytes are in place. `stream` is never null:
  // the default streams have names (native.h).
  bool copy(std::span<const CopyCall> copies, CUstream_st* stream, bool wait);

  // While one of these lives no copy is taken over, and on its creation all that were are done
  // (within a time limit): around calls that wait for a device with the driver's locks held.
  class Settled {
   public:
    explicit Settled(Session& session);
    ~Settled() { session_.settling_.fetch_sub(1); }
    Settled(const Settled&) = delete;
    Settled& operator=(const Settled&) = delete;

   private:
    Session& session_;
  };

  // Nothing is taken over any more; what is pending gets `grace` to finish, then is let go.
  void close(Nanos grace);

  int pending() const { return pending_count_.load(); }
  transfer::TransferStats traffic() const;
  const Gpus& gpus() const { return *gpus_; }

 private:
  class Pending;
  struct Waiter;

  Status start();
  Status make_engine();
  Status make_rescue_streams();
  Decision decide_for(std::span<const CopyCall> copies, CUstream_st* stream) const;
  // With one of pending_count_ taken, which is given back when it fails. nullopt: taken over.
  std::optional<Verdict> take_over(const Decision& decision, std::span<const CopyCall> copies,
                                   CUstream_st* stream, Waiter* waiter);
  bool leave(Verdict verdict, Bytes bytes);
  bool await(Waiter& waiter);

  transfer::TransferRequest request_for(transfer::Direction direction, Pending& pending) const;
  void give_up_place();

  void ended(Pending& pending, const Status& outcome);
  void finish(Pending& pending, bool moved);
  void finish_failed(Pending& pending);
  void forget(const Pending& pending);
  void keep();
  void look_for_dead_contexts();
  Status rescue(const Pending& pending);
  bool wait_until_none(Nanos timeout);

  const Native& native_;
  const SessionOptions options_;
  Statistics& statistics_;
  const Clock& clock_;
  std::unique_ptr<Gpus> gpus_;
  transfer::LinkSet helped_;  // by ordinal
  std::unique_ptr<Flags> flags_;
  std::unique_ptr<StandIn> stand_in_;
  std::vector<CUstream_st*> rescue_streams_;  // by link; the keeper's

  std::atomic<int> settling_{0};
  std::atomic<bool> closing_{false};
  std::atomic<int> pending_count_{0};

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::unordered_map<const Pending*, std::unique_ptr<Pending>> pending_;
  std::vector<Pending*> failed_;  // to be rescued by the keeper
  bool stop_ = false;
  std::thread keeper_;

  std::unique_ptr<transfer::TransferEngine> engine_;  // goes first
};

}  // namespace causeway::preload
