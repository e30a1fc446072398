// Copies of KV between frames and twins without a device: they take the time that a link needs, in
// virtual time, each direction by itself.
//
//   in   │ copy │ copy │ copy │         one after the other: a submission's latency + bytes ÷ rate
//   out  │ copy │ eager copy │ copy │ …  the same; eager copies go when no others wait
//
// Copies of one call with the same direction and purpose end together and are reported together, as
// those of a batched submission do. A copy that fails takes as long as one that succeeds, and
// leaves its target spoilt. A submission that stalls holds the link. A submission that is late is
// given up, as by the mover that serves: that is reported, no step waits for it any more, and the
// ends of its copies are reported later.
//
// With a ShadowKv the contents of frames move, too, and broken rules are reported: a frame changes
// while it is copied out, or a twin is read that no copy wrote. Not thread-safe.
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
  Bytes frame;                      // of one frame
  double bytes_in_per_second = 0;   // of the link from host memory; above 0
  double bytes_out_per_second = 0;  // of the link to host memory; above 0
  Nanos latency = micros(10);       // of each submission
  double error_rate = 0;            // share of copies that fail
  std::uint64_t seed = 1;
  double stall_rate = 0;  // share of submissions that begin up to stall_max later
  Nanos stall_max = {};
  // A submission is given up when it takes this much longer than four times the copies that are
  // under way in its direction; zero: never.
  Nanos late_max = {};
};

class SimulatedCopies {
 public:
  // The shadow is borrowed; null: only times matter.
  SimulatedCopies(const SimulatedCopiesOptions& options, ShadowKv* shadow);

  // The copies begin at `now` at the earliest. advance(now) must have been called.
  void submit(std::span<const kv::KvCopy> copies, Nanos now);
  // When the next copy ends or is given up; nullopt: none is under way.
  std::optional<Nanos> next_end() const;
  // Does everything that happens until `now`.
  void advance(Nanos now);
  // When all submitted copies in up to `until` have ended or are given up. A time long ago if that
  // is so already.
  Nanos ready_at(kv::CopyId until) const;
  // Whether a copy in is under way at that time, as far as is known now.
  bool copies_in_at(Nanos at) const;
  // The ends of copies since the last call.
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
    std::vector<kv::KvCopyEnd> ends;  // those of its copies that have ended
    std::size_t copies = 0;
    Nanos begins;           // when its latency has passed, if the link is free
    Nanos ready;            // for copies in: when all of them have ended
    kv::CopyId first = {};  // the lowest id
    std::vector<kv::CopyId> ids = {};
    std::optional<Nanos> late_from = {};
    bool given_up = false;
  };
  struct Copy {
    kv::KvCopy copy;
    Submission* submission = nullptr;
    ShadowKv::Words source = {};  // the source's contents when the copy was submitted
  };
  struct Link {
    double bytes_per_second = 0;
    std::deque<Copy> urgent, eager;
    std::optional<Copy> under_way;
    Nanos ends;  // the end of under_way, or of the copy before
  };

  static std::size_t index_of(Direction direction) { return static_cast<std::size_t>(direction); }
  void submit_one(Direction direction, std::vector<kv::KvCopy> copies, bool eager, Nanos now);
  Copy take_source(const kv::KvCopy& copy, Submission& submission);
  void start_next(Link& link);
  void end_copy(Link& link);
  void move(const Copy& ended, bool ok);
  void spoil_target(const kv::KvCopy& copy);
  Nanos takes(const Link& link) const;
  // The submission that will be late next; nullptr: there is none.
  Submission* next_late();
  void give_up(Submission& submission);
  void blame(const std::string& what);

  const SimulatedCopiesOptions options_;
  ShadowKv* const shadow_;
  Random random_;
  std::array<Link, 2> links_;          // by direction
  std::list<Submission> submissions_;  // those that have not ended
  std::map<TwinId, ShadowKv::Words> twins_;
  std::vector<kv::KvCopyEnd> ends_;
  std::array<Bytes, 2> moved_;
  std::int64_t failures_ = 0;
  std::int64_t given_up_ = 0;  // copies
  std::string violation_;
};

}  // namespace causeway::simulate
