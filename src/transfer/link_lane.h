// The task launcher for one link and direction: chunks become copies on streams of the link's GPU
// (MMA §3.4.3). All crossings of the link go through one stream, in order, so that other traffic
// keeps its share; the peer moves of relayed chunks have a stream and a staging buffer a slot (the
// paper's dual pipeline, with depth 2), so that PCIe and NVLink overlap.
//
//   direct      link    ├─ host ⇄ target ─┤
//   relay in    link    ├─ host → staging[i] ─┤ crossed
//               peer[i]                         └├─ staging[i] → target ─┤ done
//   relay out   peer[i] ├─ target → staging[i] ─┤ crossed
//               link                              └├─ staging[i] → host ─┤ done
//
// Used by one thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "transfer/dispatcher.h"

namespace causeway::transfer {

struct LinkLaneOptions {
  Direction direction = Direction::kIn;
  int depth = 2;
  // One buffer a slot in the link's GPU; empty: it cannot relay.
  std::vector<device::MemoryAddress> staging;
  Bytes staging_bytes;  // of each
  std::string name;     // of its streams
};

class LinkLane {
 public:
  // The device must outlive the lane.
  static Result<std::unique_ptr<LinkLane>> create(device::Device& device, LinkLaneOptions options);
  LinkLane(device::Device& device, LinkLaneOptions options);  // by create()

  bool can_relay() const { return !options_.staging.empty(); }
  // Whether launch() may be called: not while a failed stream's work runs out.
  bool ready() const { return !broken_; }
  int busy() const;

  // Issues the copies of a chunk; there must be a free slot. On an error nothing of it is under
  // way; what is refused half-way ends in poll(), when its memory is no longer used. `signal` is
  // its transfer's: the stream raises it where the chunk completes that.
  Status launch(const Chunk& chunk, const SegmentTable& segments, TransferSignal signal, Nanos now);

  struct Ended {
    ChunkId chunk;
    Status status;
  };
  // Chunks that are done, or whose stream failed.
  std::vector<Ended> poll();
  // Chunks launched before `when` that have not ended.
  std::vector<ChunkId> older_than(Nanos when) const;
  // Makes new streams when old ones have failed and nothing of them is under way. May wait for what
  // the device has begun. The error stays until it succeeds.
  Status repair();

 private:
  struct Slot {
    std::unique_ptr<device::Stream> peer;
    std::unique_ptr<device::Event> crossed;
    std::unique_ptr<device::Event> done;
    std::optional<ChunkId> chunk;
    // Its second half was refused; the first still reads the source until `crossed`.
    std::optional<Error> refused;
    Nanos launched = {};
  };
  Status make_streams();
  Status issue_direct(Slot& slot, const Chunk& chunk, const SegmentTable& segments,
                      TransferSignal signal);
  Status issue_relay(Slot& slot, const Chunk& chunk, const SegmentTable& segments);
  Status first_then(device::Stream& first, device::Stream& second, Slot& slot,
                    const std::vector<device::Copy>& one, const std::vector<device::Copy>& two,
                    device::CopyPriority priority);

  device::Device& device_;
  const LinkLaneOptions options_;
  std::unique_ptr<device::Stream> link_;
  std::vector<Slot> slots_;
  bool broken_ = false;
};

}  // namespace causeway::transfer
