// Moves transfers over all links of a machine: the dispatcher's decisions on real devices. One
// thread owns them; it sleeps while nothing is pending and polls events otherwise, without a pause
// while copies keep ending, so that no GPU needs a thread of its own (the paper's two a GPU cost 8
// CPUs on 8 GPUs).
//
// Small transfers go on the caller's thread (express_lane.h). Works on any backend of device.h.
//
// Thread-safe. Devices and the clock must outlive the engine.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "transfer/completion.h"
#include "transfer/dispatcher.h"

namespace causeway::transfer {

// The opened slices of one GPU; the first moves the bytes of all.
struct EngineLink {
  std::vector<device::Device*> slices;
};

struct TransferEngineOptions {
  DispatchOptions dispatch = {};
  Bytes staging_bytes_max = mib(64);  // of a GPU's memory for relaying; 0: none relays
  // Faults. A chunk that takes longer than chunk_time_max is moved again directly. A copy that does
  // not even end in drain_max more fails its transfer with kDeadlineExceeded: it may still write.
  // No other failure has that code; after any other the transfer's memory is free.
  Nanos chunk_time_max = seconds(2);
  Nanos drain_max = seconds(10);
  Nanos after_time_max = seconds(600);  // until a request's `after` must be done
  Nanos relay_rest = seconds(1);        // of a link that failed as a relay; doubles each time
  // Between looks at the events: none for poll_spin after something has happened while copies are
  // under way, then from the first to the last the longer nothing has happened.
  Nanos poll_spin = millis(2);
  Nanos idle_spin = micros(200);  // after the last transfer, for one that follows it
  Nanos poll_pause = micros(20);
  Nanos poll_pause_max = millis(1);
};

struct TransferStats {
  std::vector<std::array<LinkTraffic, kDirections>> links;  // small transfers count as direct
  PurposeTraffic by_purpose;    // the same bytes; both count a small transfer when it is issued
  std::int64_t transfers = 0;   // completed, small ones left out
  std::int64_t failures = 0;    // of them
  std::int64_t retries = 0;     // chunks moved again
  std::int64_t relays_off = 0;  // links that may not relay now
};

class TransferEngine {
 public:
  // `facts` for as many links as given, in their order. A GPU that has no memory for staging, or no
  // peer copies, does not relay. kInvalidArgument for an impossible option; a device's error when
  // it has no streams.
  static Result<std::unique_ptr<TransferEngine>> create(TransferEngineOptions options,
                                                        std::vector<EngineLink> links,
                                                        PathFacts facts, const Clock& clock);
  // Cancels what is not done (kCancelled); waits for copies that devices have begun.
  ~TransferEngine();
  TransferEngine(const TransferEngine&) = delete;
  TransferEngine& operator=(const TransferEngine&) = delete;

  // Begins a transfer. kInvalidArgument for an unknown target or a bad segment. Everything else
  // that fails is the completion's to tell: an address outside its memory, a device that is lost.
  Result<Completion> submit(TransferRequest request);

  TransferStats stats() const;

  class State;
  explicit TransferEngine(std::unique_ptr<State> state);  // for create()

 private:
  std::unique_ptr<State> state_;
};

}  // namespace causeway::transfer
