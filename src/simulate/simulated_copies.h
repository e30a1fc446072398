// Copies of KV between frames and twins without a device: they take the time that a link needs, in
// virtual time, each direction by itself.
//
//   in   │ copy │ copy │ copy │         one after the other: a submission's latency + bytes ÷ rate
//   out  │ copy │ eager copy │ copy │ …  likewise; eager ones go when no other has to
//
// What one call submits one way for one purpose ends, and is told, together, as a batched
// submission does. A copy that fails takes as long as one that succeeds, and leaves its target
// spoilt. A submission that stalls holds the link; one that is late is given up, as the mover that
// serves does it: told so, and no step waits for it any more; how its copies end is told later.
//
// With a ShadowKv it moves what frames hold, and says what breaks the rules: a frame that changes
// while it is copied out, a twin that nothing was copied to. Not thread-safe.
#pragma once

#include <array>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "kv/rotation.h"
#include "simulate/shadow_kv.h"

namespace causeway::simulate {

struct SimulatedCopiesOptions {
  Bytes frame;                      // of one
  double bytes_in_per_second = 0;   // of the link from host memory; > 0
  double bytes_out_per_second = 0;  // of the link to it; > 0
  Nanos latency = micros(10);       // of each submission
  double error_rate = 0;            // of copies that fail
  std::uint64_t seed = 1;
  double stall_rate = 0;  // of submissions that begin up to stall_max later
  Nanos stall_max = {};
  // What takes so much longer than four times what is under way its way is given up; zero: nothing.
  Nanos late_max = {};
};

class SimulatedCopies {
 public:
  // The shadow is borrowed; null: only times are of interest.
  SimulatedCopies(const SimulatedCopiesOptions& options, ShadowKv* shadow);

  // They begin at `now` at the earliest; time has come to it (advance()).
  void submit(std::span<const kv::KvCopy> copies, Nanos now);
  // When the next copy that is under way ends, or is given up; nullopt: none is under way.
  std::optional<Nanos> next_end() const;
  // Lets happen what happens up to then.
  void advance(Nanos now);
  // When all copies in have ended or are given up to this one, as far as they were submitted; those
  // of which that is so by now count as of long ago.
  Nanos ready_at(kv::CopyId until) const;
  // Whether a copy in is under way then, as far as is known now.
  bool copies_in_at(Nanos at) const;
  // The ends of submissions, told once.
  std::vector<kv::KvCopyEnd> take_ends();

  kv::KvCopyRates rates() const {
    return {.in = options_.bytes_in_per_second, .out = options_.bytes_out_per_second};
  }
  std::int64_t failures() const { return failures_; }
  std::int64_t given_up() const { return given_up_; }
  Bytes moved(kv::KvCopy::Direction direction) const { return moved_[index_of(direction)]; }
  // The first copy that broke a rule; empty: none did.
  const std::string& violation() const { return violation_; }

 private:
  using Direction = kv::KvCopy::Direction;
  struct Submission {
    std::vector<kv::KvCopyEnd> ends;  // so far
    std::size_t copies = 0;
    Nanos begins;           // when its latency has passed, if the link is free
    Nanos ready;            // of copies in: when all have ended
    kv::CopyId first = {};  // the lowest
    std::vector<kv::CopyId> ids = {};
    std::optional<Nanos> late_from = {};
    bool given_up = false;
  };
  struct Copy {
    kv::KvCopy copy;
    Submission* submission = nullptr;
    ShadowKv::Words source = {};  // as it was submitted
  };
  struct Link {
    double bytes_per_second = 0;
    std::deque<Copy> urgent, eager;
    std::optional<Copy> under_way;
    Nanos ends;  // of that, or of the last
  };

  static std::size_t index_of(Direction direction) { return static_cast<std::size_t>(direction); }
  void submit_one(Direction direction, std::vector<kv::KvCopy> copies, bool eager, Nanos now);
  Copy take_source(const kv::KvCopy& copy, Submission& submission);
  void start_next(Link& link);
  void end_copy(Link& link);
  void move(const Copy& ended, bool ok);
  void spoil_target(const kv::KvCopy& copy);
  Nanos takes(const Link& link) const;
  // The next submission that will be late; nullptr: none.
  Submission* next_late();
  void give_up(Submission& submission);
  void blame(const std::string& what);

  const SimulatedCopiesOptions options_;
  ShadowKv* const shadow_;
  Random random_;
  std::array<Link, 2> links_;          // by direction
  std::list<Submission> submissions_;  // that have not ended
  std::map<TwinId, ShadowKv::Words> twins_;
  std::vector<kv::KvCopyEnd> ends_;
  std::array<Bytes, 2> moved_;
  std::int64_t failures_ = 0;
  std::int64_t given_up_ = 0;  // copies
  std::string violation_;
};

}  // namespace causeway::simulate
