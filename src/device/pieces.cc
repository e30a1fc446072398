#include "device/pieces.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace causeway::device {

Piece::Piece(Piece&& other) noexcept
    : pieces_(std::exchange(other.pieces_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, Bytes(0))) {}

Piece& Piece::operator=(Piece&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  pieces_ = std::exchange(other.pieces_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, Bytes(0));
  return *this;
}

Piece::~Piece() { give_back(); }

void Piece::give_back() {
  if (pieces_ != nullptr) pieces_->put_back(data_, bytes_);
}

Pieces::~Pieces() {
  for (const auto& run : runs_) {
    const bool whole =
        run->free.size() == 1 && run->free.begin()->second == run->extents.bytes().count;
    CAUSEWAY_CHECK(whole, "pieces outlive what they were cut from");
  }
}

Result<Piece> Pieces::take(Bytes bytes) {
  CAUSEWAY_CHECK(bytes.count >= 0, "a piece of a negative size");
  if (bytes.count == 0) return Piece();
  // No arena has this much; larger sums would overflow below.
  if (bytes > arena_.extent_bytes() * arena_.extents()) {
    return exhausted("the device's arena of " +
                     std::to_string((arena_.extent_bytes() * arena_.extents()).count) +
                     " bytes cannot hold a piece of " + std::to_string(bytes.count));
  }
  bytes = round_up(bytes, kAlignment);
  const std::lock_guard lock(mutex_);
  for (const auto& run : runs_) {
    if (std::byte* const data = cut(*run, bytes)) return Piece(this, data, bytes);
  }
  CAUSEWAY_ASSIGN(Extents extents, arena_.allocate(arena_.extents_for(bytes), Arena::End::kHigh));
  auto run = std::make_unique<Run>();
  run->free.emplace(0, extents.bytes().count);
  run->extents = std::move(extents);
  std::byte* const data = cut(*run, bytes);
  runs_.push_back(std::move(run));
  return Piece(this, data, bytes);
}

std::byte* Pieces::cut(Run& run, Bytes bytes) {
  const auto found = std::find_if(run.free.begin(), run.free.end(),
                                  [&](const auto& place) { return place.second >= bytes.count; });
  if (found == run.free.end()) return nullptr;
  const auto [offset, size] = *found;
  run.free.erase(found);
  if (size > bytes.count) run.free.emplace(offset + bytes.count, size - bytes.count);
  return run.extents.data() + offset;
}

void Pieces::put_back(std::byte* data, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  const auto holds = [&](const auto& run) {
    return data >= run->extents.data() && data < run->extents.data() + run->extents.bytes().count;
  };
  const auto at = std::find_if(runs_.begin(), runs_.end(), holds);
  CAUSEWAY_CHECK(at != runs_.end(), "a piece of none of the runs");
  auto& free = (*at)->free;
  auto place = free.emplace(data - (*at)->extents.data(), bytes.count).first;
  if (const auto next = std::next(place);
      next != free.end() && place->first + place->second == next->first) {
    place->second += next->second;
    free.erase(next);
  }
  if (place != free.begin()) {
    const auto previous = std::prev(place);
    if (previous->first + previous->second == place->first) {
      previous->second += place->second;
      free.erase(place);
    }
  }
  const bool whole = free.begin()->second == (*at)->extents.bytes().count;
  if (whole && at != runs_.begin()) runs_.erase(at);
}

Bytes Pieces::bytes() const {
  const std::lock_guard lock(mutex_);
  Bytes sum;
  for (const auto& run : runs_) sum += run->extents.bytes();
  return sum;
}

}  // namespace causeway::device
