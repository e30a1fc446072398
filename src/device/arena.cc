#include "device/arena.h"

#include <algorithm>
#include <string>
#include <utility>

namespace causeway::device {
namespace {

// Extents that are mapped while the lock is held once; on a GPU that takes less than a millisecond.
constexpr std::int64_t kMapBatch = 16;

}  // namespace

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
  if (arena_ == nullptr) return;
  arena_->unmap(first_, count_);
  arena_->unbook(first_, count_);
}

Bytes Extents::offset() const {
  CAUSEWAY_CHECK(arena_ != nullptr, "no extents");
  return arena_->extent_bytes() * first_.value;
}

Bytes Extents::bytes() const {
  return arena_ == nullptr ? Bytes(0) : arena_->extent_bytes() * count_;
}

std::byte* Extents::data() const { return arena_->base() + offset().count; }

AddressRange::AddressRange(AddressRange&& other) noexcept
    : arena_(std::exchange(other.arena_, nullptr)),
      first_(std::exchange(other.first_, ExtentId())),
      extents_(std::exchange(other.extents_, 0)) {}

AddressRange& AddressRange::operator=(AddressRange&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  arena_ = std::exchange(other.arena_, nullptr);
  first_ = std::exchange(other.first_, ExtentId());
  extents_ = std::exchange(other.extents_, 0);
  return *this;
}

AddressRange::~AddressRange() { give_back(); }

void AddressRange::give_back() {
  if (arena_ == nullptr) return;
  for (std::int64_t first = 0; first < extents_;) {
    std::int64_t end = first;
    while (end < extents_ && committed(end, 1)) ++end;
    if (end > first) decommit(first, end - first);
    first = end + 1;
  }
  arena_->unbook(first_, extents_);
}

Bytes AddressRange::offset() const {
  CAUSEWAY_CHECK(arena_ != nullptr, "no range");
  return arena_->extent_bytes() * first_.value;
}

Bytes AddressRange::bytes() const {
  return arena_ == nullptr ? Bytes(0) : arena_->extent_bytes() * extents_;
}

std::byte* AddressRange::data() const { return arena_->base() + offset().count; }

Status AddressRange::commit(std::int64_t first, std::int64_t count) {
  CAUSEWAY_CHECK(has(first, count), "extents out of their range");
  for (std::int64_t e = first; e < first + count; ++e) {
    CAUSEWAY_CHECK(!committed(e, 1), "an extent is committed twice");
  }
  return arena_->map(ExtentId(first_.value + first), count, ArenaMemory::Fill::kAsIs);
}

Status AddressRange::alias(std::int64_t first, std::int64_t source, std::int64_t count) {
  CAUSEWAY_CHECK(has(first, count), "extents out of their range");
  CAUSEWAY_CHECK(committed(source, count), "an alias of an extent without memory");
  for (std::int64_t e = first; e < first + count; ++e) {
    CAUSEWAY_CHECK(!committed(e, 1), "an extent is committed twice");
  }
  return arena_->alias(ExtentId(first_.value + first), ExtentId(first_.value + source), count);
}

void AddressRange::decommit(std::int64_t first, std::int64_t count) {
  CAUSEWAY_CHECK(committed(first, count), "an extent is decommitted that has no memory");
  arena_->unmap(ExtentId(first_.value + first), count);
}

bool AddressRange::committed(std::int64_t first, std::int64_t count) const {
  CAUSEWAY_CHECK(has(first, count), "extents out of their range");
  for (std::int64_t e = first; e < first + count; ++e) {
    if (!arena_->backed(first_.value + e)) return false;
  }
  return true;
}

void Arena::FairMutex::lock() {
  std::unique_lock lock(mutex_);
  const std::uint64_t mine = next_++;
  changed_.wait(lock, [&] { return serving_ == mine; });
}

void Arena::FairMutex::unlock() {
  const std::lock_guard lock(mutex_);
  ++serving_;
  changed_.notify_all();
}

Arena::Arena(std::unique_ptr<ArenaMemory> memory, std::int64_t extents, Bytes extent_bytes)
    : memory_(std::move(memory)),
      extents_(extents),
      extent_bytes_(extent_bytes),
      backed_(static_cast<std::size_t>(std::max<std::int64_t>(extents, 0))),
      free_(extents) {
  CAUSEWAY_CHECK(extents >= 0 && extent_bytes.count > 0);
  if (extents > 0) runs_[0] = extents;
}

Arena::~Arena() { CAUSEWAY_CHECK(free_ == extents_, "extents outlive their arena"); }

Result<Extents> Arena::allocate(std::int64_t count, End end) {
  CAUSEWAY_ASSIGN(const ExtentId first, book(count, end));
  if (Status mapped = map(first, count, ArenaMemory::Fill::kZeroed); !mapped.ok()) {
    unbook(first, count);
    return mapped.error();
  }
  return Extents(this, first, count);
}

Result<AddressRange> Arena::reserve(std::int64_t extents, End end) {
  CAUSEWAY_ASSIGN(const ExtentId first, book(extents, end));
  return AddressRange(this, first, extents);
}

Result<ExtentId> Arena::book(std::int64_t count, End end) {
  CAUSEWAY_CHECK(count >= 1, "an allocation without an extent");
  const auto fits = [&](const auto& run) { return run.second >= count; };
  const std::lock_guard lock(mutex_);
  auto found = runs_.end();
  if (end == End::kLow) {
    found = std::find_if(runs_.begin(), runs_.end(), fits);
  } else if (const auto last = std::find_if(runs_.rbegin(), runs_.rend(), fits);
             last != runs_.rend()) {
    found = std::prev(last.base());
  }
  if (found == runs_.end()) {
    return exhausted("the device's arena has no " + std::to_string(count) +
                     " neighbouring free extents of " + std::to_string(extent_bytes_.count >> 20) +
                     " MiB; " + std::to_string(free_) + " of " + std::to_string(extents_) +
                     " are free");
  }
  const auto [begin, length] = *found;
  const std::int64_t rest = length - count;
  runs_.erase(found);
  if (rest > 0) runs_[end == End::kLow ? begin + count : begin] = rest;
  free_ -= count;
  return ExtentId(end == End::kLow ? begin : begin + rest);
}

void Arena::unbook(ExtentId first, std::int64_t count) {
  const std::lock_guard lock(mutex_);
  free_ += count;
  auto [run, added] = runs_.emplace(first.value, count);
  CAUSEWAY_CHECK(added, "extents are given back twice");
  if (const auto next = std::next(run);
      next != runs_.end() && next->first == run->first + run->second) {
    run->second += next->second;
    runs_.erase(next);
  }
  if (run == runs_.begin()) return;
  const auto previous = std::prev(run);
  if (previous->first + previous->second != run->first) return;
  previous->second += run->second;
  runs_.erase(run);
}

Status Arena::map(ExtentId first, std::int64_t count, ArenaMemory::Fill fill) {
  const std::int64_t end = first.value + count;
  for (std::int64_t at = first.value; at < end; at += kMapBatch) {
    const std::int64_t now = std::min(kMapBatch, end - at);
    Status mapped;
    {
      const std::lock_guard lock(mapping_);
      mapped = memory_->map(extent_bytes_ * at, extent_bytes_ * now, fill);
    }
    if (mapped.ok()) continue;
    unmap_in_batches(first.value, at - first.value);
    trim();  // others may need that memory more
    return mapped.error().with_context("memory for " + std::to_string(count) + " extents, " +
                                       std::to_string((extent_bytes_ * count).count >> 20) +
                                       " MiB in all");
  }
  mark(first, count, true);
  return {};
}

Status Arena::alias(ExtentId first, ExtentId source, std::int64_t count) {
  for (std::int64_t done = 0; done < count; done += kMapBatch) {
    const std::int64_t now = std::min(kMapBatch, count - done);
    Status aliased;
    {
      const std::lock_guard lock(mapping_);
      aliased = memory_->alias(extent_bytes_ * (first.value + done), extent_bytes_ * now,
                               extent_bytes_ * (source.value + done));
    }
    if (aliased.ok()) continue;
    unmap_in_batches(first.value, done);
    return aliased.error().with_context("an alias of " + std::to_string(count) + " extents");
  }
  mark(first, count, true);
  return {};
}

void Arena::unmap(ExtentId first, std::int64_t count) {
  mark(first, count, false);
  unmap_in_batches(first.value, count);
}

void Arena::unmap_in_batches(std::int64_t first, std::int64_t count) {
  for (std::int64_t done = 0; done < count; done += kMapBatch) {
    const std::lock_guard lock(mapping_);
    memory_->unmap(extent_bytes_ * (first + done),
                   extent_bytes_ * std::min(kMapBatch, count - done));
  }
}

void Arena::mark(ExtentId first, std::int64_t count, bool backed) {
  for (std::int64_t e = first.value; e < first.value + count; ++e) {
    backed_[static_cast<std::size_t>(e)].store(backed, std::memory_order_release);
  }
}

void Arena::trim() {
  const std::lock_guard lock(mapping_);
  memory_->trim();
}

std::int64_t Arena::extents_for(Bytes bytes) const {
  CAUSEWAY_CHECK(bytes.count >= 0, "a negative size");
  // Written without rounding up, which would overflow near the largest size.
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
  const std::int64_t last = (offset + bytes - Bytes(1)) / extent_bytes_;
  for (std::int64_t extent = offset / extent_bytes_; extent <= last; ++extent) {
    if (!backed(extent)) return false;
  }
  return true;
}

}  // namespace causeway::device
