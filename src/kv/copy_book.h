// The copies between frames and twins that have not ended: those that wait to be taken, those under
// way, and the sequences that wait for them. The book does not use the pools; KvCache is its only
// user.
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
  StepId after = {};                    // the last step that writes the source; invalid: none
  std::uint64_t takes = 0;              // times the frame was handed out, which the copy must find
  bool taken = false;
  bool given_up = false;
  std::vector<CopyWaiter> waiters = {};
};

class CopyBook {
 public:
  CopyId next_id() const { return next_; }
  // Adds a copy and gives it next_id().
  PendingCopy& add(PendingCopy copy);
  PendingCopy& at(CopyId copy);
  // The copy, which is pending or under way.
  PendingCopy* find(CopyId copy);
  // Forgets the copy.
  PendingCopy remove(CopyId copy);
  void take(PendingCopy& copy);
  // All copies in the order of their ids.
  const std::set<CopyId>& pending(KvCopy::Direction direction) const {
    return direction == KvCopy::Direction::kIn ? pending_in_ : pending_out_;
  }
  const std::map<CopyId, PendingCopy>& all() const { return copies_; }
  // Blocks that copies of this model move will not be found.
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
