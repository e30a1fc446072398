#include "text/bpe_vocabulary.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/random.h"

namespace causeway::text {

namespace {

template <typename T>
std::uint64_t load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// The first 8 bytes. For fewer, a number that differs for different bytes of the same size; loads
// that overlap spare a loop.
std::uint64_t head_of(std::string_view bytes) {
  const char* data = bytes.data();
  const std::size_t size = bytes.size();
  if (size >= 8) return load<std::uint64_t>(data);
  if (size >= 4) {
    return load<std::uint32_t>(data) | (load<std::uint32_t>(data + size - 4) << 32);
  }
  if (size == 0) return 0;
  return load<std::uint8_t>(data) | (load<std::uint8_t>(data + size / 2) << 8) |
         (load<std::uint8_t>(data + size - 1) << 16);
}

std::uint64_t hash_of(std::string_view bytes, std::uint64_t head) {
  std::uint64_t hash = mix64(head ^ (std::uint64_t{bytes.size()} << 56));
  while (bytes.size() > 8) {
    bytes.remove_prefix(8);
    hash = mix64(hash ^ head_of(bytes));
  }
  return hash;
}

}  // namespace

void Vocabulary::reserve(std::size_t entries, std::size_t bytes) {
  spans_.reserve(entries);
  bytes_.reserve(bytes);
  const std::size_t slots = std::bit_ceil(entries * 2 + 16);
  if (slots > slots_.size()) grow(slots);
}

bool Vocabulary::add(TokenId id, std::string_view content) {
  CAUSEWAY_CHECK(id >= 0 && id < kVocabularyIdsMax, "an id outside the vocabulary's range");
  if (contains(id)) return false;
  if (slots_.size() < (entries_ + 1) * 2) grow(std::bit_ceil(entries_ * 4 + 16));
  Slot& slot = slots_[slot_for(content)];
  if (slot.id >= 0) return false;
  slot = {head_of(content), static_cast<std::uint32_t>(content.size()), id};
  if (static_cast<std::size_t>(id) >= spans_.size()) spans_.resize(id + 1);
  spans_[id] = {bytes_.size(), static_cast<std::int32_t>(content.size())};
  bytes_.append(content);
  ++entries_;
  longest_ = std::max(longest_, content.size());
  return true;
}

std::optional<TokenId> Vocabulary::find(std::string_view content) const {
  if (slots_.empty()) return std::nullopt;
  const TokenId id = slots_[slot_for(content)].id;
  if (id < 0) return std::nullopt;
  return id;
}

// Where `content` is, or the empty slot where it would be.
std::size_t Vocabulary::slot_for(std::string_view content) const {
  const std::size_t mask = slots_.size() - 1;
  const std::uint64_t head = head_of(content);
  std::size_t at = hash_of(content, head) & mask;
  // Ends: the table is at most half full.
  for (;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.id < 0) return at;
    if (slot.head != head || slot.size != content.size()) continue;
    if (slot.size <= kHeadBytes || this->content(slot.id) == content) return at;
  }
}

void Vocabulary::grow(std::size_t slots) {
  std::vector<Slot> old = std::move(slots_);
  slots_.assign(slots, Slot{});
  for (const Slot& slot : old) {
    if (slot.id >= 0) slots_[slot_for(content(slot.id))] = slot;
  }
}

}  // namespace causeway::text
