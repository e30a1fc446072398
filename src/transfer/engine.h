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
  // Faults. A chunk that takes longer than chunk_time_max is moved again over the direct link. A
  // copy that has not ended after drain_max more fails its transfer with kDeadlineExceeded, because
  // it may still write. No other failure has that code; after any other the transfer's memory is
  // free.
  Nanos chunk_time_max = seconds(2);
  Nanos drain_max = seconds(10);
  Nanos after_time_max = seconds(600);  // until a request's `after` must be done
  Nanos relay_rest = seconds(1);        // of a link that failed as a relay; doubles each time
  // The pause between polls of the events. There is none for poll_spin after the last event while
  // copies are under way; then it grows from poll_pause to poll_pause_max while nothing happens.
  Nanos poll_spin = millis(2);
  Nanos idle_spin = micros(200);  // after the last transfer, in case another follows
  Nanos poll_pause = micros(20);
  Nanos poll_pause_max = millis(1);
};

struct TransferStats {
  std::vector<std::array<LinkTraffic, kDirections>> links;  // small transfers count as direct
  PurposeTraffic by_purpose;    // the same bytes; both count a small transfer when it is issued
  std::int64_t transfers = 0;   // completed, small ones left out
  std::int64_t failures = 0;    // those of `transfers` that failed
  std::int64_t retries = 0;     // chunks moved again
  std::int64_t relays_off = 0;  // links that may not relay now
};

class TransferEngine {
 public:
  // `facts` describes as many links as are given, in their order. A GPU that has no memory for
  // staging, or cannot copy to peers, does not relay. kInvalidArgument for an impossible option;
  // the device's error when it has no streams.
  static Result<std::unique_ptr<TransferEngine>> create(TransferEngineOptions options,
                                                        std::vector<EngineLink> links,
                                                        PathFacts facts, const Clock& clock);
  // Cancels what is not done (kCancelled); waits for copies that devices have begun.
  ~TransferEngine();
  TransferEngine(const TransferEngine&) = delete;
  TransferEngine& operator=(const TransferEngine&) = delete;

  // Begins a transfer. kInvalidArgument for an unknown target or a bad segment. The completion
  // tells of all other failures, such as an address outside its memory or a lost device.
  Result<Completion> submit(TransferRequest request);

  TransferStats stats() const;

  class State;
  explicit TransferEngine(std::unique_ptr<State> state);  // for create()

 private:
  std::unique_ptr<State> state_;
};

}  // namespace causeway::transfer
