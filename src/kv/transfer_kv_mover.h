// The KvMover of a real device: copies go through the transfer engine, those in as kKvIn, those out
// as kKvOut or, eager ones, as kTwin.
//
//   engine loop        submit() ─▶ TransferEngine::submit()     poll(): ends, gates, second tries
//   transfer's thread  ended() ─▶ inbox ──────────────────────▶ ▲
//   copy stream        raises a submission's gate behind its last copy
//
// One thread, the engine loop's, owns all state here; the transfer engine's thread only puts ends
// into the inbox. A submission that fails is tried once more, copy by copy, so that a fault of one
// block fails no other; then its gate opens. A submission that is late is given up: its gate opens
// at once, and its ends are reported when they come.
//
// While anything is under way in one direction, the mover's claim on the links in that direction
// has begun.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "device/device.h"
#include "kv/copy_gates.h"
#include "kv/frame_arena.h"
#include "kv/kv_mover.h"
#include "kv/twin_memory.h"
#include "transfer/engine.h"
#include "transfer/link_shares.h"

namespace causeway::kv {

struct KvMoverOptions {
  // A copy is given up when it ends this much later than the link's rate predicts; if the link
  // grants nothing, after late_max_unknown. No step waits for eager copies, which have the lowest
  // priority.
  Nanos late_max = millis(250);
  Nanos eager_late_max = seconds(2);
  Nanos late_max_unknown = seconds(10);
};

class TransferKvMover final : public KvMover {
 public:
  // The objects that the mover uses. All outlive the mover; frames, twins and gates also outlive
  // the transfer engine, whose copies may hang for longer.
  struct Parts {
    device::Device& device;
    transfer::TransferEngine& engine;
    transfer::LinkClaim& claim_in;
    transfer::LinkClaim& claim_out;
    const FrameArena& frames;
    const TwinMemory& twins;
    CopyGates& gates;
    const Clock& clock;
  };
  // Twins and frames must be of one size (a CHECK).
  TransferKvMover(const KvMoverOptions& options, const Parts& parts);
  // Opens all gates, and waits until the transfer engine has ended what is under way.
  ~TransferKvMover() override;

  // `notify` is called on some thread whenever poll() has something new. When this returns, the
  // function that was set before is not called any more.
  void set_notify(std::function<void()> notify);

  void submit(std::span<const KvCopy> copies) override;
  void gates(CopyId until, std::vector<CopyGate>& gates) const override;
  std::vector<KvCopyEnd> poll() override;
  void open_gates() override;
  KvCopyRates rates() const override {
    return {.in = parts_.claim_in.rate(), .out = parts_.claim_out.rate()};
  }

 private:
  class Transfer;
  using Direction = KvCopy::Direction;

  // Copies that were submitted together.
  struct Submission {
    Direction direction = Direction::kIn;
    device::CopyPriority priority = device::CopyPriority::kKvIn;
    CopyId first = {};                  // the lowest id
    std::optional<CopyGate> gate = {};  // of copies in
    int transfers = 0;                  // those that have not ended
    Bytes bytes = {};
    Nanos begun = {};
    Nanos late_from = {};
    bool given_up = false;
    bool stuck = false;               // a copy that will never end may still raise the gate
    std::vector<CopyId> copies = {};  // those that have not ended
  };
  struct End {
    Transfer* transfer = nullptr;
    Status outcome;
  };

  void begin(std::vector<KvCopy> copies, device::CopyPriority priority);
  // `signal`: the gate that the transfer opens itself, if any.
  void start(Submission& submission, std::vector<KvCopy> copies, const CopyGate* signal);
  transfer::Segment segment_of(const KvCopy& copy) const;
  Nanos allowed(const Submission& submission) const;
  std::string lateness(const Submission& submission, Nanos now) const;
  void ended(Transfer& transfer, const Status& outcome);  // any thread
  void take_end(const End& end, std::vector<KvCopyEnd>& ends);
  void try_each(const Transfer& failed);
  void finish(Submission& submission);
  void give_up_late(std::vector<KvCopyEnd>& ends);
  void count(Direction direction, Bytes bytes);
  transfer::LinkClaim& claim(Direction direction) const {
    return direction == Direction::kIn ? parts_.claim_in : parts_.claim_out;
  }
  Bytes& under_way(Direction direction) {
    return direction == Direction::kIn ? bytes_in_ : bytes_out_;
  }

  const KvMoverOptions options_;
  const Parts parts_;

  // State of the engine loop's thread.
  std::list<Submission> submissions_;  // those that have not ended
  std::list<std::unique_ptr<Transfer>> transfers_;
  std::vector<KvCopyEnd> refused_;  // ends of copies that could not be begun
  Bytes bytes_in_, bytes_out_;      // under way

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::function<void()> notify_;
  int notifying_ = 0;  // threads in `notify`
  std::vector<End> inbox_;
};

}  // namespace causeway::kv
