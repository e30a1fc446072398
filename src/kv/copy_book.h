// The copies between frames and twins that have not ended: which wait to be taken, which are under
// way, and which sequences wait for them. Knows nothing of pools; KvCache is its only user.
//
//   add() ─▶ pending ──take()──▶ under way ──remove()──▶ gone
//               └──────remove(): dropped─────────────────▲
//
// Not thread-safe. Misuse is a bug: CHECKs.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/units.h"
#include "kv/prefix_hash.h"
#include "kv/rotation.h"

namespace causeway::kv {

// One opening of a sequence that waits for a copy.
struct CopyWaiter {
  RequestId sequence;
  std::uint64_t serial = 0;
};

struct PendingCopy {
  KvCopy copy;
  ModelId model;
  std::optional<PrefixHash> hash = {};  // of the full block; none: a tail
  StepId after = {};                    // the last step that writes the source; invalid: none does
  std::uint64_t takes = 0;              // of the frame, as the copy has to find it
  bool taken = false;
  bool given_up = false;
  std::vector<CopyWaiter> waiters = {};
};

class CopyBook {
 public:
  CopyId next_id() const { return next_; }
  // Gives it next_id().
  PendingCopy& add(PendingCopy copy);
  PendingCopy& at(CopyId copy);
  // Under way, or pending.
  PendingCopy* find(CopyId copy);
  // Forgets the copy.
  PendingCopy remove(CopyId copy);
  void take(PendingCopy& copy);
  // In the order of their ids.
  const std::set<CopyId>& pending(KvCopy::Direction direction) const {
    return direction == KvCopy::Direction::kIn ? pending_in_ : pending_out_;
  }
  const std::map<CopyId, PendingCopy>& all() const { return copies_; }
  // The blocks that copies of this model move will not be found.
  void forget_model(ModelId model);

 private:
  std::set<CopyId>& pending_of(const PendingCopy& copy) {
    return copy.copy.direction == KvCopy::Direction::kIn ? pending_in_ : pending_out_;
  }

  std::map<CopyId, PendingCopy> copies_;
  std::set<CopyId> pending_in_, pending_out_;
  CopyId next_{0};
};

}  // namespace causeway::kv
