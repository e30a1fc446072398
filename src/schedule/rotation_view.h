// What a decision that rotates asks about KV in two tiers. The words and rules are those of the KV
// room's contract, which answers them; here they are behind an interface,
// so that decisions can be tested against books as simple as a test's.
//
// Everything is const. Costs are asked only of candidates that are about to be chosen, because they
// walk the sequence's blocks.
#pragma once

#include <cstdint>
#include <span>

#include "base/units.h"

namespace causeway::schedule {

// In frames = blocks = twins.
struct RotateOutCost {
  std::int64_t twins = 0;   // of twins_available() that it takes
  std::int64_t copies = 0;  // out, that must still begin
  std::int64_t frames = 0;  // that only it holds: free once its step and its copies have ended
};

struct RotateInCost {
  std::int64_t frames = 0;  // of FrameCounts::available() that it takes for all it has computed
  std::int64_t copies = 0;  // of those, that are copied in
};

// What a prompt finds of its prefix, in HBM and in host memory.
struct PrefixCost {
  Tokens in_hbm{0};         // leading tokens, as KvCache::match_prefix()
  Tokens in_all{0};         // leading tokens, those included that are in host memory only
  std::int64_t frames = 0;  // of FrameCounts::available() that it takes for in_all
  std::int64_t copies = 0;  // of those, that are copied in
};

class RotationView {
 public:
  virtual ~RotationView() = default;

  // In HBM, and no copy into it is under way.
  virtual bool may_leave(RequestId sequence) const = 0;
  // Rotated out, and no copy from it is under way.
  virtual bool may_return(RequestId sequence) const = 0;
  virtual std::int64_t twins_available() const = 0;
  // Of one that may leave; O(blocks).
  virtual RotateOutCost out_cost(RequestId sequence) const = 0;
  // Of one that may return; O(blocks).
  virtual RotateInCost in_cost(RequestId sequence) const = 0;
  // O(tokens).
  virtual PrefixCost prefix_cost(ModelId model, std::span<const TokenId> tokens) const = 0;
  // Tokens per second that the model computes; zero: not known.
  virtual double prefill_rate(ModelId model) const = 0;
};

}  // namespace causeway::schedule
