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
  // For kFrequency: how many choices are remembered of an expert that is chosen as often as any
  // other. With a longer memory the cache follows a sequence's favourites more slowly.
  double memory = 4;
  // For kFrequency: an expert takes another one's slot when its remembered choices a exceed the
  // other's b by more than chance explains: by `deviations` times √(a + b), the deviation of two
  // counts, and by `more`.
  double deviations = 1.5;
  double more = 1;
  // The most slots that may be empty: experts give up slots only so far ahead of the copies that
  // fill them.
  int empty_max = 32;
};

class ExpertCache {
 public:
  explicit ExpertCache(const ExpertCacheOptions& options);

  // A step begins. Returns where it finds each expert: the slot, or -1 for home. Valid until the
  // step has ended.
  std::span<const std::int32_t> step_begins();
  // The oldest step in flight has ended. `chosen`: how many of its tokens chose each expert; empty:
  // not known.
  void step_ended(std::span<const std::uint32_t> chosen);
  // A sequence begins while no other one runs.
  void sequence_begins();

  struct Load {
    std::int32_t expert = 0;  // the expert's number
    std::int32_t slot = 0;
  };
  // The copy that may begin now; nullopt: none.
  std::optional<Load> next() const;
  // The copy of next() has been begun.
  void issue();
  // A begun copy has ended; call it once for each.
  void ended(std::int32_t slot, bool ok);

  // The slots have lost their memory. No load is under way, and no step is in flight.
  void forget();
  bool quiet() const { return loading_ == 0; }

  // Since the start. An expert counts once for each step in which any token chose it.
  struct Counters {
    std::int64_t hits = 0;
    std::int64_t misses = 0;
    std::int64_t loads = 0;  // begun
  };
  const Counters& counters() const { return counters_; }
  // Where the next step would find each expert.
  std::span<const std::int32_t> placed() const { return placed_; }
  // For checkers: what is wrong; empty: nothing is.
  std::string check() const;

 private:
  static constexpr std::int32_t kNone = -1;
  struct Slot {
    std::int32_t expert = kNone;  // the expert in the slot, or on its way there
    bool loading = false;
    std::int64_t untouched_until = 0;  // the slot may be filled when so many steps have ended
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
  // How early in a step the expert's layer is read, from (0, 1]; 1 for the first layer.
  double near(std::size_t expert) const;
  // Lets experts give up slots to experts that steps missed.
  void rearrange(std::int64_t loads);
  void rank_wanted(std::size_t count);
  std::vector<std::int32_t> lowest(std::size_t count) const;

  const ExpertCacheOptions options_;
  std::vector<std::int32_t> placed_;  // by expert: its slot
  std::vector<std::uint8_t> coming_;  // by expert: it is being loaded
  std::vector<Slot> slots_;
  std::vector<double> scores_;       // by expert
  std::vector<double> of_sequence_;  // for kActivation: choices of the running sequence
  ExpertMaps maps_;                  // for kMap
  std::deque<std::int32_t> wanted_;  // experts to load next, the best first
  std::int64_t empty_ = 0;           // slots
  int loading_ = 0;
  std::int64_t begun_ = 0;  // steps
  std::int64_t ended_ = 0;
  // By step in flight: where it was told to find experts.
  std::deque<std::vector<std::int32_t>> in_flight_;
  Counters counters_;
};

}  // namespace causeway::weights
