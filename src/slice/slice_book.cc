#include "slice/slice_book.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/check.h"

namespace causeway::slice {

SliceBook::Entry::Entry(SliceBook& book, int gpu, std::function<Bytes()> holds)
    : book_(book), gpu_(gpu), holds_(std::move(holds)) {
  CAUSEWAY_CHECK(holds_ != nullptr, "a slice says what it holds");
}

SliceBook::Entry::~Entry() {
  const std::lock_guard lock(book_.mutex_);
  book_.entries_.erase(this);
  const bool last = std::none_of(book_.entries_.begin(), book_.entries_.end(),
                                 [&](const Entry* entry) { return entry->gpu_ == gpu_; });
  if (last) book_.before_.erase(gpu_);
}

void SliceBook::Entry::set_serves(std::function<bool()> serves) {
  const std::lock_guard lock(book_.mutex_);
  serves_ = std::move(serves);
}

void SliceBook::Entry::set_beside(Bytes beside) {
  const std::lock_guard lock(book_.mutex_);
  beside_ = beside;
}

std::unique_ptr<SliceBook::Entry> SliceBook::add(int gpu, Bytes used,
                                                 std::function<Bytes()> holds) {
  auto entry = std::make_unique<Entry>(*this, gpu, std::move(holds));
  const std::lock_guard lock(mutex_);
  before_.try_emplace(gpu, std::max(Bytes(0), used - entry->holds_()));
  entries_.insert(entry.get());
  return entry;
}

bool SliceBook::serving() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry* entry) { return entry->serves_ && entry->serves_(); });
}

// Slices take less beside what they hold than they may, at first, so that what is left of `used`
// may be less than others really have: never less than they had at the start. Where these have
// given some back since, that is not seen before the slices have gone.
Bytes SliceBook::slices_use(int gpu, Bytes used) const {
  const std::lock_guard lock(mutex_);
  const auto before = before_.find(gpu);
  if (before == before_.end()) return {};
  Bytes theirs;
  for (const Entry* entry : entries_) {
    if (entry->gpu_ == gpu) theirs += entry->holds_() + entry->beside_;
  }
  return std::clamp(theirs, Bytes(0), std::max(Bytes(0), used - before->second));
}

device::Pace pace_among(const SliceBook& slices, Bytes at_once, std::function<bool()> cancelled) {
  const auto pause = [](Nanos length) {
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock lock(mutex);
    (void)never.wait_for(lock, std::chrono::nanoseconds(length.count));
  };
  return {.piece = at_once,
          .busy = [&slices] { return slices.serving(); },
          .cancelled = std::move(cancelled),
          .pause = pause};
}

}  // namespace causeway::slice
