// The requests on slices, as the fleet knows them: the request itself, and the part of its answer
// that was delivered. This suffices to send a request to another slice when its slice is lost, so
// that its client sees only a delay.
//
//   outputs of all slices ──▶ pass(): the attempt that counts ──▶ delivered
//                               │ appends tokens
//                               ▼
//                    request, output so far ──▶ again(): the next attempt, to another slice
//
// Tokens are passed in the order of the calls of pass(). After again() the outputs of earlier
// attempts are dropped: no token is delivered twice, and none is left out. Thread-safe; the thread
// that delivers outputs calls pass(), and delivers its result before the next call.
#pragma once

#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/slice_handle.h"
#include "request/request.h"

namespace causeway::fleet {

class RoutedRequests {
 public:
  // Adds a request that is routed for the first time; the slice is borrowed. False: there is a
  // request of this id already.
  bool add(const request::Request& request, const engine::SliceHandle& slice);
  // The request's slice has been lost: returns the request as the next slice should get it.
  // nullopt: the request has ended.
  std::optional<request::Request> again(RequestId id, const engine::SliceHandle& slice);
  // Takes all requests from the slice: its outputs are dropped from now on, and the slice is not
  // used any more. Call again() or forget() for each of the requests that has not ended.
  void withdraw(const engine::SliceHandle& slice);
  // The request's slice is about to give it back: the caller cancels the request there, and pass()
  // does not deliver that end. Call again() or forget() afterwards. False: the request has ended.
  bool withdraw(RequestId id);
  // Whether the request's slice has given it back, and no other slice has it yet.
  bool is_given_back(RequestId id) const;
  // The request has ended without an output of a slice. False: it had ended already, or this is not
  // the attempt that counts.
  bool end(RequestId id, std::int32_t attempt);
  // The same, whichever attempt counts. False: the request had ended already.
  bool forget(RequestId id);
  // Whether the request continues although the slice of this attempt did not take it, because that
  // slice is lost: FleetCore decides what follows.
  bool goes_on(RequestId id, std::int32_t attempt) const;

  struct Passed {
    std::vector<request::Output> outputs;  // outputs to deliver
    std::vector<RequestId> given_back;     // requests that their slices have given back
  };
  // Returns those outputs of a slice that must be delivered. Two kinds of ends are left out,
  // because FleetCore decides what follows: the slice is lost, or it gives the request back.
  Passed pass(std::vector<request::Output> outputs);
  // From now on pass() delivers those ends, too.
  void close();
  // The number of tokens, and the model, of each answer that has ended since the last call.
  std::vector<std::pair<ModelId, Tokens>> take_answers();

 private:
  struct Entry {
    // With the delivered output and the number of the attempt that counts.
    request::Request request;
    const engine::SliceHandle* slice = nullptr;  // null: it was withdrawn
    bool withdrawn = false;                      // its slice was told to give it back
    // The values of earlier attempts, which are added to those of the present one.
    Nanos queued{-1};
    Tokens cached{0};
    Nanos held;
    Nanos weights;
    std::int32_t preemptions_before = 0;
    std::int32_t preemptions = 0;
  };
  bool is_lost(const Entry& entry) const;
  bool pass(request::Output& output, std::vector<RequestId>& given_back);

  mutable std::mutex mutex_;  // guards what follows
  std::unordered_map<RequestId, Entry> requests_;
  std::vector<std::pair<ModelId, Tokens>> answers_;
  bool closed_ = false;
};

}  // namespace causeway::fleet
