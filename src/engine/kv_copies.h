// How executors of all backends pass the copies of KV in batches to their mover, which is null
// where KV does not rotate. Internal to this room.
#pragma once

#include <span>
#include <vector>

#include "base/check.h"
#include "kv/kv_mover.h"
#include "request/batch.h"

namespace causeway::engine {

inline void submit_copies(std::span<const kv::KvCopy> copies, kv::KvMover* mover) {
  if (copies.empty()) return;
  CAUSEWAY_CHECK(mover != nullptr, "an executor that does not rotate KV is to copy some");
  mover->submit(copies);
}

// Copies in are begun first, because a step waits for them. Returns the gates that the step must
// pass before it reads.
inline std::vector<kv::CopyGate> begin_copies_of(const request::Batch& batch, kv::KvMover* mover) {
  submit_copies(batch.copies_in, mover);
  submit_copies(batch.copies_out, mover);
  std::vector<kv::CopyGate> gates;
  if (mover != nullptr) mover->gates(batch.copies_awaited, gates);
  return gates;
}

inline std::vector<kv::KvCopyEnd> poll_mover(kv::KvMover* mover) {
  return mover != nullptr ? mover->poll() : std::vector<kv::KvCopyEnd>();
}

inline kv::KvCopyRates rates_of(const kv::KvMover* mover) {
  return mover != nullptr ? mover->rates() : kv::KvCopyRates();
}

}  // namespace causeway::engine
