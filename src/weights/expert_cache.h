// Which experts of one model lie in slots of HBM, by what steps choose: docs/design/experts.md. A
// state machine without clock, I/O, threads.
//
//   expert   home ──next()──▶ loading ──loaded──▶ in its slot ──gives way──▶ home
//                                └──failed──▶ home
//   slot     empty ──next()──▶ loading ──loaded──▶ occupied ──gives way──▶ empty, but untouched
//                                └──failed──▶ empty                 until older steps have ended
//
// An expert has a number: layer × experts of a layer + expert. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weights/expert_maps.h"
#include "weights/expert_policy.h"

namespace causeway::weights {

struct ExpertCacheOptions {
  std::int64_t layers = 0;
  std::int64_t experts = 0;  // of a layer
  std::int64_t slots = 0;
  ExpertPolicy policy = ExpertPolicy::kFrequency;
  int loads_max = 8;  // under way at once
  // kFrequency: choices that are remembered of an expert which is chosen as often as any other.
  // A longer memory follows a sequence with favourites of its own more slowly.
  double memory = 4;
  // kFrequency: an expert takes another's slot when its remembered choices, a, exceed the other's,
  // b, by what chance explains, `deviations` of the √(a + b) of two counts, and by `more`.
  double deviations = 1.5;
  double more = 1;
  // Slots that may stand empty: experts give way only so far ahead of the copies that replace them.
  int empty_max = 32;
};

class ExpertCache {
 public:
  explicit ExpertCache(const ExpertCacheOptions& options);

  // Where the step finds each expert: its slot, or -1: at home. Valid until the step has ended.
  std::span<const std::int32_t> step_begins();
  // The oldest step in flight. `chosen`: how many of its tokens chose each expert; empty: that is
  // not known.
  void step_ended(std::span<const std::uint32_t> chosen);
  // A sequence begins, and no other runs.
  void sequence_begins();

  struct Load {
    std::int32_t expert = 0;  // its number
    std::int32_t slot = 0;
  };
  // The copy that may begin now.
  std::optional<Load> next() const;
  // next() has been handed on.
  void issue();
  // Exactly one for each.
  void ended(std::int32_t slot, bool ok);

  // The slots' memory was lost. No load is under way, no step in flight.
  void forget();
  bool quiet() const { return loading_ == 0; }

  // Since the start, of experts chosen in a step, however many tokens chose them.
  struct Counters {
    std::int64_t hits = 0;
    std::int64_t misses = 0;
    std::int64_t loads = 0;  // begun
  };
  const Counters& counters() const { return counters_; }
  // Where the next step would find each expert.
  std::span<const std::int32_t> placed() const { return placed_; }
  // What is wrong, or empty.
  std::string check() const;

 private:
  static constexpr std::int32_t kNone = -1;
  struct Slot {
    std::int32_t expert = kNone;  // that is there, or comes
    bool loading = false;
    std::int64_t untouched_until = 0;  // so many steps have ended
  };

  bool free(const Slot& slot) const {
    return slot.expert == kNone && slot.untouched_until <= ended_;
  }
  bool at_home(std::int32_t expert) const {
    return placed_[static_cast<std::size_t>(expert)] == kNone &&
           !coming_[static_cast<std::size_t>(expert)];
  }
  double score(std::int32_t expert) const { return scores_[static_cast<std::size_t>(expert)]; }
  bool takes_over(std::int32_t expert, std::int32_t from) const;
  std::int64_t take_counts(std::span<const std::uint32_t> chosen,
                           const std::vector<std::int32_t>& placed);
  void score_frequency(std::span<const std::uint32_t> chosen);
  void score_lru(std::span<const std::uint32_t> chosen);
  void score_activation(std::span<const std::uint32_t> chosen);
  void score_map(std::span<const std::uint32_t> chosen);
  // How much sooner than the last layer a step reads this expert, (0, 1].
  double near(std::size_t expert) const;
  // Experts give way to those that were missed.
  void rearrange(std::int64_t loads);
  void rank_wanted(std::size_t count);
  std::vector<std::int32_t> lowest(std::size_t count) const;

  const ExpertCacheOptions options_;
  std::vector<std::int32_t> placed_;  // by expert: its slot
  std::vector<std::uint8_t> coming_;  // by expert: it is loaded
  std::vector<Slot> slots_;
  std::vector<double> scores_;       // by expert
  std::vector<double> of_sequence_;  // kActivation: choices of the running sequence
  ExpertMaps maps_;                  // kMap
  std::deque<std::int32_t> wanted_;  // the next to be loaded, the best first
  std::int64_t empty_ = 0;           // slots
  int loading_ = 0;
  std::int64_t begun_ = 0;  // steps
  std::int64_t ended_ = 0;
  std::deque<std::vector<std::int32_t>> in_flight_;  // what those steps were told
  Counters counters_;
};

}  // namespace causeway::weights
