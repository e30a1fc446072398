// The requests that slices have, as the fleet knows them: what was asked, and what of the answer
// has been delivered. That is enough to send one again when its slice is lost, so that its client
// sees nothing but a delay.
//
//   outputs of all slices ──▶ pass(): the attempt that counts ──▶ delivered
//                               │ appends tokens
//                               ▼
//                    request, output so far ──▶ again(): the next attempt, to another slice
//
// A token is passed in the order in which pass() is called; once again() has been, outputs of
// earlier attempts are dropped: no token is delivered twice, and none is left out. Thread-safe;
// the thread that delivers calls pass(), and delivers what it returns before the next pass().
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
  // A request that is routed to a slice, borrowed, for the first time. False: one of its id is
  // here.
  bool add(const request::Request& request, const engine::SliceHandle& slice);
  // Its slice has been lost: returns the request as the next slice is to have it. nullopt: it has
  // ended.
  std::optional<request::Request> again(RequestId id, const engine::SliceHandle& slice);
  // The slice's requests are taken from it: its outputs are dropped from now on, and it is not
  // looked at any more. again() follows for each request that has not ended, or forget().
  void withdraw(const engine::SliceHandle& slice);
  // The request's slice is to give it back: it cancels the request, and pass() keeps that end to
  // itself. again() follows, or forget(). False: it has ended.
  bool withdraw(RequestId id);
  // Whether its slice has given it back, and it is with no other.
  bool is_given_back(RequestId id) const;
  // It has ended without an output of a slice. False: it had ended, or this attempt is not the one
  // that counts.
  bool end(RequestId id, std::int32_t attempt);
  // The same, whichever attempt counts. False: it had ended.
  bool forget(RequestId id);
  // The slice of this attempt, which did not take it, is lost: FleetCore is about to decide, or
  // has.
  bool goes_on(RequestId id, std::int32_t attempt) const;

  struct Passed {
    std::vector<request::Output> outputs;  // to be delivered
    std::vector<RequestId> given_back;     // requests whose slice has let them go
  };
  // Returns those of a slice's outputs that are to be delivered. An end that only says that the
  // slice is lost, or that gives the request back, is none of them: FleetCore decides what becomes
  // of it.
  Passed pass(std::vector<request::Output> outputs);
  // From now on such an end is delivered, too.
  void close();
  // Tokens of the answers that have ended, each with its model, since the last call.
  std::vector<std::pair<ModelId, Tokens>> take_answers();

 private:
  struct Entry {
    request::Request request;  // with the output that was delivered, and the attempt that counts
    const engine::SliceHandle* slice = nullptr;  // none: it was withdrawn
    bool withdrawn = false;             // its slice was told to give it back
    // What earlier attempts had: measurements count them, too.
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
