// One streamed model's passes: which group is copied into the ring next, and whether a step read
// what it should (docs/design/streaming.md). A state machine without clock, I/O, threads.
//
//   sequence of copies   pass 1: 0 1 2 … n-1 │ pass 2: 0 1 2 … n-1 │ …
//                        consumed ──▶        │ issued ──▶
//
// A copy may begin when the group that stands StreamedGroup::distance before it has been consumed
// and no copy up to there is under way. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "weights/stream_plan.h"

namespace causeway::weights {

class WeightRing {
 public:
  explicit WeightRing(const StreamPlan& plan);

  struct Next {
    int group = 0;
    std::uint32_t pass = 0;  // what its semaphore gets
  };
  // The copy that may begin now: of a pass that was begun, or, when more steps are wanted, of the
  // one after it.
  std::optional<Next> next() const;
  void set_wanted(bool wanted) { wanted_ = wanted; }
  // next() has been handed on.
  void issue();
  // Exactly one for each.
  void ended(int group, std::uint32_t pass, bool ok);

  // A step is submitted: its pass.
  std::uint32_t begin_pass();
  // The counter that the step raises behind a group of its pass, and what it shows now.
  std::uint32_t consumed_value(int group, std::uint32_t pass) const;
  void consumed(std::uint32_t counter);
  // The oldest step has ended, whatever it has read. False: a copy of its pass failed.
  [[nodiscard]] bool end_pass();

  // The ring's memory was lost, and with it what lay there for the pass after the last: that number
  // is not used. No copy is under way, no step in flight.
  void forget();

  // A copy failed for a pass that no step has begun, and none is in flight: forget() spares the
  // next step that failure.
  bool spoilt() const { return quiet() && begun_ == ended_ && !failed_.empty(); }

  bool quiet() const { return under_way_.empty(); }
  std::int64_t passes_in_flight() const { return begun_ - ended_; }

 private:
  std::int64_t groups() const { return std::ssize(distances_); }
  // Of the group in the sequence of copies, from 1.
  std::int64_t place_of(int group, std::uint32_t pass) const;

  std::vector<std::int64_t> distances_;  // by group
  bool wanted_ = false;
  // Places in the sequence: up to here.
  std::int64_t issued_ = 0;
  std::int64_t consumed_ = 0;
  std::set<std::int64_t> under_way_;
  // Passes: so many.
  std::int64_t begun_ = 0;
  std::int64_t ended_ = 0;
  std::set<std::int64_t> failed_;  // that have not ended
};

}  // namespace causeway::weights
