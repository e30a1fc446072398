// What moves the bytes of KvCache's copies between frames and twins: one batched submission for
// each direction and call, so that both directions of the link work at once and neither waits for
// the other (SuperInfer's DuplexKV).
//
//   engine loop ── copies ──▶ submit() ──▶ frames ⇄ twins
//   step's stream ◀── gates ── opened when a submission's copies in have ended, or failed
//   engine loop ◀── ends ───── poll()
//
// A gate opens for failed copies, too, so that no step waits for ever. poll() has reported the
// failure by then, so the caller knows that the result of such a step is void.
#pragma once

#include <span>
#include <vector>

#include "kv/copy_gates.h"
#include "kv/rotation.h"

namespace causeway::kv {

class KvMover {
 public:
  virtual ~KvMover() = default;
  // Begins the copies, which wait for nothing; no two have the same target. Each of them ends in
  // poll(), even when it could not be begun. Engine-loop thread; does not block.
  virtual void submit(std::span<const KvCopy> copies) = 0;
  // Appends the gates of copies in, up to and including `until`, that may still be closed.
  // Engine-loop thread.
  virtual void gates(CopyId until, std::vector<CopyGate>& gates) const = 0;
  // What has happened to copies since the last call, in the order of their ends. It gives up copies
  // that are late and opens the gates of failed ones, so call it every few milliseconds while
  // copies are under way. Engine-loop thread; does not block.
  virtual std::vector<KvCopyEnd> poll() = 0;
  // Opens all gates, for an executor that ends while steps wait for copies. Any thread, but not
  // during submit().
  virtual void open_gates() = 0;
  // What the links grant now, or would grant. Any thread.
  virtual KvCopyRates rates() const = 0;
};

}  // namespace causeway::kv
