#include "transfer/express_lane.h"

#include <algorithm>
#include <utility>

#include "base/dcheck.h"

namespace causeway::transfer {
namespace {

constexpr int kLooksMax = 4;

bool is_free(const ExpressMark& mark) {
  if (mark.lent.load(std::memory_order_acquire)) return false;
  if (mark.seen_done) return true;
  const auto done = mark.event->done();
  return !done.ok() || *done;
}

}  // namespace

ExpressLane::ExpressLane(device::Device& device, std::string name)
    : device_(device), name_(std::move(name)) {}

Result<std::unique_ptr<ExpressLane>> ExpressLane::create(device::Device& device, std::string name) {
  auto lane = std::make_unique<ExpressLane>(device, std::move(name));
  CAUSEWAY_TRY(lane->renew_stream());
  return lane;
}

Status ExpressLane::renew_stream() {
  failed_.store(false);
  auto made = device_.make_stream(name_);
  if (!made.ok()) {
    note_failure();
    return made.error();
  }
  stream_ = std::move(made).value();
  return {};
}

ExpressTicket ExpressLane::copy(std::span<const device::Copy> copies, device::CopyPriority priority,
                                TransferSignal signal) {
  const std::lock_guard lock(mutex_);
  if (failed_.load(std::memory_order_relaxed) && !renew_stream().ok()) return {};
  if (used_ == marks_.size() && !find_free()) return {};
  CAUSEWAY_DCHECK(used_ < marks_.size(), "no mark is free");
  ExpressMark& mark = *marks_[used_++];
  const Status issued = issue(copies, priority, signal, *mark.event);
  // The caller's wait begins with the copy's call, so all other work comes after it.
  mark.seen_done = false;
  if (!issued.ok()) {
    // A copy that was refused for its own arguments leaves the stream usable.
    if (issued.error().code != ErrorCode::kInvalidArgument) note_failure();
    return {};
  }
  CAUSEWAY_DCHECK(!mark.lent.load(std::memory_order_relaxed), "a mark is lent twice");
  mark.lent.store(true, std::memory_order_relaxed);
  std::atomic<std::int64_t>& count = moved_[static_cast<std::size_t>(priority)];
  std::int64_t moved = count.load(std::memory_order_relaxed);
  for (const device::Copy& copy : copies) moved += copy.bytes.count;
  count.store(moved, std::memory_order_relaxed);
  if (used_ == marks_.size()) (void)find_free();  // for the next copy, which tries again
  return ExpressTicket(mark);
}

// A failure of the signal shows in the mark.
Status ExpressLane::issue(std::span<const device::Copy> copies, device::CopyPriority priority,
                          TransferSignal signal, device::Event& mark) {
  if (signal.semaphore == nullptr) return stream_->copy_marked(copies, priority, mark);
  CAUSEWAY_TRY(stream_->copy(copies, priority));
  (void)stream_->signal(*signal.semaphore, signal.value).ok();
  return stream_->record(mark);
}

// Looks at a few marks for each copy, going round. That finds marks as fast as they come back, so
// there are never many more marks than tickets that are kept.
bool ExpressLane::find_free() {
  CAUSEWAY_DCHECK(used_ <= marks_.size(), "more marks are used than there are");
  for (int look = 0; look < kLooksMax && used_ > 0; ++look) {
    if (hand_ >= used_) hand_ = 0;
    if (is_free(*marks_[hand_])) {
      std::swap(marks_[hand_], marks_[--used_]);
      return true;
    }
    ++hand_;
  }
  auto event = device_.make_mark();
  if (!event.ok()) return false;
  marks_.push_back(std::make_unique<ExpressMark>(*this, std::move(event).value()));
  return true;
}

std::int64_t ExpressLane::marks() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(marks_);
}

bool ExpressLane::idle() const {
  const std::lock_guard lock(mutex_);
  return std::none_of(marks_.begin(), marks_.end(),
                      [](const auto& mark) { return mark->lent.load(std::memory_order_relaxed); });
}

}  // namespace causeway::transfer
