#include "text/bpe_vocabulary.h"

#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/random.h"

namespace causeway::text {

std::uint64_t hash_bytes(std::string_view bytes) {
  std::uint64_t hash = bytes.size();
  while (bytes.size() >= sizeof(hash)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof(word));
    hash = mix64(hash ^ word);
    bytes.remove_prefix(sizeof(word));
  }
  std::uint64_t tail = 0;
  if (!bytes.empty()) std::memcpy(&tail, bytes.data(), bytes.size());
  return mix64(hash ^ tail);
}

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
  const std::uint64_t hash = hash_bytes(content);
  Slot& slot = slots_[slot_for(content, hash)];
  if (slot.id >= 0) return false;
  slot = {static_cast<std::uint32_t>(hash >> 32), id};
  if (static_cast<std::size_t>(id) >= spans_.size()) spans_.resize(id + 1);
  spans_[id] = {bytes_.size(), static_cast<std::int32_t>(content.size())};
  bytes_.append(content);
  ++entries_;
  return true;
}

std::optional<TokenId> Vocabulary::find(std::string_view content, std::uint64_t hash) const {
  if (slots_.empty()) return std::nullopt;
  const TokenId id = slots_[slot_for(content, hash)].id;
  if (id < 0) return std::nullopt;
  return id;
}

std::size_t Vocabulary::slot_for(std::string_view content, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  std::size_t at = hash & mask;
  // Ends: the table is at most half full.
  while (slots_[at].id >= 0 &&
         (slots_[at].hash != tag || this->content(slots_[at].id) != content)) {
    at = (at + 1) & mask;
  }
  return at;
}

void Vocabulary::grow(std::size_t slots) {
  std::vector<Slot> old = std::move(slots_);
  slots_.assign(slots, Slot{});
  for (const Slot& slot : old) {
    if (slot.id < 0) continue;
    const std::string_view text = content(slot.id);
    slots_[slot_for(text, hash_bytes(text))] = slot;
  }
}

}  // namespace causeway::text
