#include "device/host/link_pacer.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace causeway::device {
namespace {

// Small enough to be smooth at the bandwidths of tests, large enough that locking costs little.
constexpr std::size_t kChunkPaced = 256 << 10;
// Without links only a cancellation has to wait for a chunk, and memcpy is faster on long runs.
constexpr std::size_t kChunkFree = 16 << 20;
// The clock may be another than real time, so waits read it again this often.
constexpr Nanos kLookMax = millis(1);
constexpr Nanos kLookMin = micros(20);

}  // namespace

// Iterates over the pieces of a transfer.
class LinkPacer::Cursor {
 public:
  explicit Cursor(std::span<const CopyPiece> pieces) : pieces_(pieces) {}

  // Copies up to `most` bytes; returns how many, 0 at the end.
  std::size_t copy_chunk(std::size_t most) {
    std::size_t copied = 0;
    while (copied < most && piece_ < pieces_.size()) {
      const CopyPiece& piece = pieces_[piece_];
      const std::size_t bytes = std::min(most - copied, piece.bytes - at_);
      if (bytes > 0) std::memcpy(piece.target + at_, piece.source + at_, bytes);
      copied += bytes;
      at_ += bytes;
      if (at_ < piece.bytes) break;
      ++piece_;
      at_ = 0;
    }
    return copied;
  }

 private:
  std::span<const CopyPiece> pieces_;
  std::size_t piece_ = 0;
  std::size_t at_ = 0;
};

LinkPacer::LinkPacer(const Clock& clock, std::optional<LinkProfile> profile)
    : clock_(clock), profile_(std::move(profile)) {
  if (profile_) model_.emplace(profile_->resources);
}

bool LinkPacer::connected(CopyEnds ends) const {
  return !profile_ || ends.source == ends.target || profile_->find(ends.source, ends.target);
}

Status LinkPacer::move(CopyEnds ends, std::span<const CopyPiece> pieces, CopyPriority priority,
                       const std::atomic<bool>& stop) {
  // Within one memory no link is crossed.
  const LinkPath* path =
      profile_ && ends.source != ends.target ? profile_->find(ends.source, ends.target) : nullptr;
  Bytes total;
  for (const CopyPiece& piece : pieces) total += Bytes(static_cast<std::int64_t>(piece.bytes));
  Bytes copied;
  const std::size_t chunk_max = path != nullptr ? kChunkPaced : kChunkFree;
  Cursor cursor(pieces);
  FlowId flow;
  std::unique_lock lock(mutex_);
  if (path != nullptr) {
    flow = model_->start({total, path->route, priority, path->latency, path->costs}, clock_.now());
    changed_.notify_all();  // other transfers have become slower
  }
  while (!stop.load()) {
    std::optional<Bytes> crossed;  // nullopt: all bytes
    if (path != nullptr) {
      model_->advance(clock_.now());
      model_->take_ended();
      crossed = model_->moved(flow);
    }
    if (copied == total && !crossed) return {};
    if (copied < total && (!crossed || *crossed > copied)) {
      lock.unlock();
      const Bytes chunk(static_cast<std::int64_t>(cursor.copy_chunk(chunk_max)));
      lock.lock();
      copied += chunk;
      moved_[{ends, priority}] += chunk.count;
    } else {
      wait_for_link(lock, flow, std::min(total, copied + Bytes(1)));
    }
  }
  if (path != nullptr) {
    model_->cancel(flow, clock_.now());
    changed_.notify_all();  // other transfers have become faster
  }
  return Error{ErrorCode::kCancelled, "the copy was cancelled with its stream"};
}

// Waits until `next_byte` bytes may have crossed, or something has changed.
void LinkPacer::wait_for_link(std::unique_lock<std::mutex>& lock, FlowId flow, Bytes next_byte) {
  const auto due = model_->when_moved(flow, next_byte);
  const Nanos wait = due ? std::clamp(*due - clock_.now(), kLookMin, kLookMax) : kLookMax;
  changed_.wait_for(lock, std::chrono::nanoseconds(wait.count));
}

void LinkPacer::wake() {
  const std::lock_guard lock(mutex_);  // no thread is between looking at `stop` and waiting
  changed_.notify_all();
}

Bytes LinkPacer::moved(CopyEnds ends, CopyPriority priority) const {
  const std::lock_guard lock(mutex_);
  const auto found = moved_.find({ends, priority});
  return Bytes(found == moved_.end() ? 0 : found->second);
}

Bytes LinkPacer::accounted(int resource) const {
  const std::lock_guard lock(mutex_);
  return model_ ? model_->accounted(resource) : Bytes(0);
}

}  // namespace causeway::device
