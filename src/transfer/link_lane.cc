#include "transfer/link_lane.h"

#include <algorithm>
#include <utility>

#include "base/dcheck.h"
#include "transfer/copies.h"

namespace causeway::transfer {
namespace {

using device::Copy;
using device::MemoryAddress;

// The copies of a chunk: from its source to staging, from staging to its target, or all the way.
struct ChunkCopies {
  std::vector<Copy> direct;
  std::vector<Copy> to_staging;
  std::vector<Copy> from_staging;
};

ChunkCopies copies_of(const Chunk& chunk, const SegmentTable& segments, MemoryAddress staging) {
  ChunkCopies copies;

  CAUSEWAY_DCHECK(chunk.range.begin < chunk.range.end, "a chunk without bytes");
  for (const SegmentTable::Part& part : segments.parts(chunk.range)) {
    const bool in = chunk.direction == Direction::kIn;
    const MemoryAddress& source = in ? part.host : part.device;
    const MemoryAddress& target = in ? part.device : part.host;
    MemoryAddress buffer = staging;
    buffer.offset += part.at;
    if (!chunk.relayed()) {
      append_copy(copies.direct, {target, source, part.bytes});
      continue;
    }
    append_copy(copies.to_staging, {buffer, source, part.bytes});
    append_copy(copies.from_staging, {target, buffer, part.bytes});
  }
  return copies;
}

}  // namespace

LinkLane::LinkLane(device::Device& device, LinkLaneOptions options)
    : device_(device), options_(std::move(options)) {}

Result<std::unique_ptr<LinkLane>> LinkLane::create(device::Device& device,
                                                   LinkLaneOptions options) {
  CAUSEWAY_CHECK(options.depth >= 1 &&
                 (options.staging.empty() || std::ssize(options.staging) == options.depth));
  auto lane = std::make_unique<LinkLane>(device, std::move(options));
  CAUSEWAY_TRY(lane->make_streams());
  return lane;
}

Status LinkLane::make_streams() {
  slots_.clear();
  CAUSEWAY_ASSIGN(link_, device_.make_stream(options_.name));
  for (int i = 0; i < options_.depth; ++i) {
    Slot slot;
    if (can_relay()) {
      CAUSEWAY_ASSIGN(slot.peer, device_.make_stream(options_.name + ".peer" + std::to_string(i)));
    }
    CAUSEWAY_ASSIGN(slot.crossed, device_.make_mark());
    CAUSEWAY_ASSIGN(slot.done, device_.make_mark());
    slots_.push_back(std::move(slot));
  }
  return {};
}

int LinkLane::busy() const {
  return static_cast<int>(std::count_if(slots_.begin(), slots_.end(),
                                        [](const Slot& slot) { return slot.chunk.has_value(); }));
}

Status LinkLane::launch(const Chunk& chunk, const SegmentTable& segments, TransferSignal signal,
                        Nanos now) {
  CAUSEWAY_CHECK(ready(), "a lane that failed is to be repaired first");
  const auto slot = std::find_if(slots_.begin(), slots_.end(),
                                 [](const Slot& s) { return !s.chunk.has_value(); });
  CAUSEWAY_CHECK(slot != slots_.end(), "more chunks than slots");
  Status issued = chunk.relayed() ? issue_relay(*slot, chunk, segments)
                                  : issue_direct(*slot, chunk, segments, signal);
  if (!issued.ok()) {
    // Copies that were issued must not write later, and the end of a stream waits for them.
    if (broken_) {
      link_.reset();
      slot->peer.reset();
    }
    return issued;
  }
  CAUSEWAY_DCHECK(chunk.direction == options_.direction, "a chunk of the other way");
  slot->chunk = chunk.id;
  slot->launched = now;
  return {};
}

// The signal stands before the mark, so that it has happened once the chunk has ended, and values
// of one semaphore stay in order. A failure of it shows in the mark, and the engine raises the
// semaphore, too.
Status LinkLane::issue_direct(Slot& slot, const Chunk& chunk, const SegmentTable& segments,
                              TransferSignal signal) {
  CAUSEWAY_DCHECK(!chunk.relayed(), "a relayed chunk goes past staging");
  const ChunkCopies copies = copies_of(chunk, segments, {});
  CAUSEWAY_TRY(link_->copy(copies.direct, chunk.priority));
  if (chunk.completes && signal.semaphore != nullptr) {
    (void)link_->signal(*signal.semaphore, signal.value).ok();
  }
  const Status recorded = link_->record(*slot.done);
  // The copy is on its way, and no event will tell its end; only a new stream can.
  if (!recorded.ok()) broken_ = true;
  return recorded;
}

Status LinkLane::issue_relay(Slot& slot, const Chunk& chunk, const SegmentTable& segments) {
  CAUSEWAY_CHECK(can_relay() && chunk.range.bytes() <= options_.staging_bytes,
                 "a chunk that does not fit its staging buffer");
  const auto index = static_cast<std::size_t>(&slot - slots_.data());
  CAUSEWAY_DCHECK(index < options_.staging.size(), "a slot without a buffer");
  const ChunkCopies copies = copies_of(chunk, segments, options_.staging[index]);
  const bool in = options_.direction == Direction::kIn;
  device::Stream& first = in ? *link_ : *slot.peer;
  device::Stream& second = in ? *slot.peer : *link_;
  return first_then(first, second, slot, copies.to_staging, copies.from_staging, chunk.priority);
}

Status LinkLane::first_then(device::Stream& first, device::Stream& second, Slot& slot,
                            const std::vector<Copy>& one, const std::vector<Copy>& two,
                            device::CopyPriority priority) {
  CAUSEWAY_DCHECK(one.size() > 0 && two.size() > 0, "a half of a relay that does not copy");
  CAUSEWAY_TRY(first.copy(one, priority));
  const Status marked = first.record(*slot.crossed);
  if (!marked.ok()) {
    broken_ = true;  // no event tells when the buffer is free
    return marked;
  }
  const auto second_half = [&]() -> Status {
    CAUSEWAY_TRY(second.wait(*slot.crossed));
    return second.copy(two, priority);
  };
  Status issued = second_half();
  if (!issued.ok()) {
    slot.refused = issued.error();
    return {};
  }
  Status recorded = second.record(*slot.done);
  if (!recorded.ok()) broken_ = true;
  return recorded;
}

std::vector<LinkLane::Ended> LinkLane::poll() {
  std::vector<Ended> ended;
  for (Slot& slot : slots_) {
    if (!slot.chunk) continue;
    const Result<bool> done = slot.refused ? slot.crossed->done() : slot.done->done();
    if (done.ok() && !*done) continue;
    Status status;
    if (!done.ok()) {
      status = done.error();
      broken_ = true;
    }
    if (slot.refused) status = *slot.refused;
    CAUSEWAY_DCHECK(status.ok() || broken_ || slot.refused, "a copy failed for no reason");
    ended.push_back({*slot.chunk, status});
    slot.chunk.reset();
    slot.refused.reset();
  }
  return ended;
}

std::vector<ChunkId> LinkLane::older_than(Nanos when) const {
  std::vector<ChunkId> old;
  for (const Slot& slot : slots_) {
    if (slot.chunk && slot.launched < when) old.push_back(*slot.chunk);
  }
  return old;
}

Status LinkLane::repair() {
  if (!broken_ || busy() > 0) return {};
  link_.reset();
  CAUSEWAY_TRY(make_streams());
  broken_ = false;
  return {};
}

}  // namespace causeway::transfer
