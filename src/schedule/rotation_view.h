// What a decision with rotation asks about KV in two tiers. Words and rules are those of the KV
// room's contract, which answers. The questions are behind an interface, so that decisions can be
// tested against simple books. Everything is const. Costs are asked only of candidates that are
// about to be chosen, because they walk the sequence's blocks.
#pragma once

#include <cstdint>
#include <span>

#include "base/units.h"

namespace causeway::schedule {

// The cost of rotating a sequence out, in frames, which are as many blocks or twins.
struct RotateOutCost {
  std::int64_t twins = 0;   // of twins_available() that it takes
  std::int64_t copies = 0;  // copies out that must still begin
  std::int64_t frames = 0;  // its alone: free after its step and copies
};

struct RotateInCost {
  std::int64_t frames = 0;  // of FrameCounts::available(), for what is computed
  std::int64_t copies = 0;  // of `frames`, those that are copied in
};

// How much of its prefix a prompt finds in HBM, and how much in host memory.
struct PrefixCost {
  Tokens in_hbm{0};         // leading tokens, as KvCache::match_prefix()
  Tokens in_all{0};         // leading tokens, in HBM or in host memory
  std::int64_t frames = 0;  // of FrameCounts::available() that it takes for in_all
  std::int64_t copies = 0;  // of `frames`, those that are copied in
};

class RotationView {
 public:
  virtual ~RotationView() = default;

  // Whether the sequence is in HBM, and no copy into it is under way.
  virtual bool may_leave(RequestId sequence) const = 0;
  // Whether the sequence is rotated out, and no copy from it is under way.
  virtual bool may_return(RequestId sequence) const = 0;
  virtual std::int64_t twins_available() const = 0;
  // The cost of rotating out a sequence that may leave; O(blocks).
  virtual RotateOutCost out_cost(RequestId sequence) const = 0;
  // The cost of rotating in a sequence that may return; O(blocks).
  virtual RotateInCost in_cost(RequestId sequence) const = 0;
  // O(tokens).
  virtual PrefixCost prefix_cost(ModelId model, std::span<const TokenId> tokens) const = 0;
  // Tokens per second that the model computes; zero: not known.
  virtual double prefill_rate(ModelId model) const = 0;
};

}  // namespace causeway::schedule
