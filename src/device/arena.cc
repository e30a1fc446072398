#include "device/arena.h"

#include <algorithm>
#include <string>
#include <utility>

namespace causeway::device {

Extents::Extents(Extents&& other) noexcept
    : arena_(std::exchange(other.arena_, nullptr)),
      first_(std::exchange(other.first_, ExtentId())),
      count_(std::exchange(other.count_, 0)) {}

Extents& Extents::operator=(Extents&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  arena_ = std::exchange(other.arena_, nullptr);
  first_ = std::exchange(other.first_, ExtentId());
  count_ = std::exchange(other.count_, 0);
  return *this;
}

Extents::~Extents() { give_back(); }

void Extents::give_back() {
  if (arena_ != nullptr) arena_->free(first_, count_);
}

Bytes Extents::offset() const {
  CAUSEWAY_CHECK(arena_ != nullptr, "no extents");
  return arena_->extent_bytes() * first_.value;
}

Bytes Extents::bytes() const {
  return arena_ == nullptr ? Bytes(0) : arena_->extent_bytes() * count_;
}

std::byte* Extents::data() const { return arena_->base() + offset().count; }

Arena::Arena(std::unique_ptr<ArenaMemory> memory, std::int64_t extents, Bytes extent_bytes)
    : memory_(std::move(memory)),
      extents_(extents),
      extent_bytes_(extent_bytes),
      free_(extents),
      used_(static_cast<std::size_t>(std::max<std::int64_t>(extents, 0))) {
  CAUSEWAY_CHECK(extents >= 0 && extent_bytes.count > 0);
}

Arena::~Arena() { CAUSEWAY_CHECK(free_ == extents_, "extents outlive their arena"); }

Result<Extents> Arena::allocate(std::int64_t count, End end) {
  CAUSEWAY_CHECK(count >= 1, "an allocation has at least one extent");
  const std::lock_guard lock(mutex_);
  std::int64_t run = 0;
  for (std::int64_t i = 0; i < extents_; ++i) {
    const std::int64_t at = end == End::kLow ? i : extents_ - 1 - i;
    run = used_[static_cast<std::size_t>(at)] ? 0 : run + 1;
    if (run < count) continue;
    const std::int64_t first = end == End::kLow ? at - count + 1 : at;
    CAUSEWAY_TRY(memory_->map(extent_bytes_ * first, extent_bytes_ * count));
    std::fill_n(used_.begin() + first, count, true);
    free_ -= count;
    return Extents(this, ExtentId(first), count);
  }
  return exhausted("the device's arena has no " + std::to_string(count) +
                   " neighbouring free extents of " + std::to_string(extent_bytes_.count >> 20) +
                   " MiB; " + std::to_string(free_) + " of " + std::to_string(extents_) +
                   " are free");
}

void Arena::free(ExtentId first, std::int64_t count) {
  const std::lock_guard lock(mutex_);
  memory_->unmap(extent_bytes_ * first.value, extent_bytes_ * count);
  std::fill_n(used_.begin() + first.value, count, false);
  free_ += count;
}

std::int64_t Arena::extents_for(Bytes bytes) const {
  CAUSEWAY_CHECK(bytes.count >= 0, "a negative size");
  // Not by rounding up, which would overflow near the largest size.
  const std::int64_t rest = bytes.count % extent_bytes_.count > 0 ? 1 : 0;
  return std::max<std::int64_t>(1, bytes / extent_bytes_ + rest);
}

std::int64_t Arena::free_extents() const {
  const std::lock_guard lock(mutex_);
  return free_;
}

bool Arena::allocated(Bytes offset, Bytes bytes) const {
  const Bytes end = extent_bytes_ * extents_;
  if (offset.count < 0 || bytes.count < 0 || bytes > end || offset > end - bytes) return false;
  if (bytes.count == 0) return true;
  auto extent = static_cast<std::size_t>(offset / extent_bytes_);
  for (Bytes at = extent_bytes_ * static_cast<std::int64_t>(extent); at < offset + bytes;
       at += extent_bytes_) {
    if (!used_[extent++]) return false;
  }
  return true;
}

}  // namespace causeway::device
