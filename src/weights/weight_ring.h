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
    std::uint32_t pass = 0;  // the value for the group's semaphore
  };
  // The copy that may begin now, of a pass that has begun or, when more steps are wanted, of the
  // one after it; nullopt: none.
  std::optional<Next> next() const;
  void set_wanted(bool wanted) { wanted_ = wanted; }
  // The copy of next() has been begun.
  void issue();
  // A begun copy has ended; call it once for each.
  void ended(int group, std::uint32_t pass, bool ok);

  // A step is submitted. Returns its pass.
  std::uint32_t begin_pass();
  // The value to which the step raises the counter after its last read of a group, and the
  // counter's present value.
  std::uint32_t consumed_value(int group, std::uint32_t pass) const;
  void consumed(std::uint32_t counter);
  // The oldest step has ended, whatever it has read. False: a copy of its pass failed.
  [[nodiscard]] bool end_pass();

  // The ring has lost its memory, and with it any copies for the next pass, whose number is not
  // used again. No copy is under way, and no step is in flight.
  void forget();

  // A copy failed for a pass that no step has begun, and no step is in flight: forget() then saves
  // the next step from that failure.
  bool spoilt() const { return quiet() && begun_ == ended_ && !failed_.empty(); }

  bool quiet() const { return under_way_.empty(); }
  std::int64_t passes_in_flight() const { return begun_ - ended_; }

 private:
  std::int64_t groups() const { return std::ssize(distances_); }
  // The position of the group in the sequence of copies, from 1.
  std::int64_t place_of(int group, std::uint32_t pass) const;

  std::vector<std::int64_t> distances_;  // by group
  bool wanted_ = false;
  // Positions in the sequence of copies: everything up to here.
  std::int64_t issued_ = 0;
  std::int64_t consumed_ = 0;
  std::set<std::int64_t> under_way_;
  // Numbers of passes.
  std::int64_t begun_ = 0;
  std::int64_t ended_ = 0;
  std::set<std::int64_t> failed_;  // failed passes that have not ended
};

}  // namespace causeway::weights
