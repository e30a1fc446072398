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
  // Whether launch() may be called: not before the work of a failed stream has ended.
  bool ready() const { return !broken_; }
  int busy() const;

  // Issues the copies of a chunk; there must be a free slot. After an error nothing of the chunk is
  // under way; a chunk whose second copy is refused ends in poll(), when its memory is no longer
  // used. `signal` is the transfer's: the stream raises it where this chunk completes the transfer.
  Status launch(const Chunk& chunk, const SegmentTable& segments, TransferSignal signal, Nanos now);

  struct Ended {
    ChunkId chunk;
    Status status;
  };
  // The chunks that are done, or whose stream failed.
  std::vector<Ended> poll();
  // The chunks that were launched before `when` and have not ended.
  std::vector<ChunkId> older_than(Nanos when) const;
  // Makes new streams when old ones have failed and none of their work is under way. May wait for
  // copies that the device has begun. The error stays until this succeeds.
  Status repair();

 private:
  struct Slot {
    std::unique_ptr<device::Stream> peer;
    std::unique_ptr<device::Event> crossed;
    std::unique_ptr<device::Event> done;
    std::optional<ChunkId> chunk;
    // The second copy was refused; the first one still reads the source until `crossed`.
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
