// Strings with ids, both ways. One string holds all contents; a flat table with linear probing
// finds an id by content, which is what encoding spends its time on: contents of up to 8 bytes are
// compared within the slot, so that most lookups touch one cache line.
//
//   bytes_  | the | Ġ | Ġthe | ...                    spans_[id] = {offset, size}
//   slots_  | head, size, id | - | head, size, id |   a power of two, at most half full
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace causeway::text {

// Ids at or above this are refused at load: 16 times the largest vocabulary in use.
inline constexpr std::int64_t kVocabularyIdsMax = std::int64_t{1} << 22;

class Vocabulary {
 public:
  // Makes room, so that no growth follows. Both may be exceeded.
  void reserve(std::size_t entries, std::size_t bytes);
  // False, and nothing changes, when the id or the content is taken. 0 <= id < kVocabularyIdsMax.
  bool add(TokenId id, std::string_view content);

  std::optional<TokenId> find(std::string_view content) const;
  bool contains(TokenId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < spans_.size() && spans_[id].size >= 0;
  }
  // "" when there is no such id.
  std::string_view content(TokenId id) const {
    if (!contains(id)) return {};
    return std::string_view(bytes_).substr(spans_[id].offset, spans_[id].size);
  }
  // One more than the largest id.
  std::int64_t ids_end() const { return static_cast<std::int64_t>(spans_.size()); }
  std::size_t entries() const { return entries_; }
  // Bytes of the longest content.
  std::size_t longest() const { return longest_; }

 private:
  struct Span {
    std::uint64_t offset = 0;
    std::int32_t size = -1;  // -1: no such id
  };
  struct Slot {
    std::uint64_t head = 0;  // the content's first 8 bytes; of shorter ones all, mixed (head_of)
    std::uint32_t size = 0;
    TokenId id = -1;
  };
  static constexpr std::size_t kHeadBytes = sizeof(std::uint64_t);

  void grow(std::size_t slots);
  std::size_t slot_for(std::string_view content) const;

  std::string bytes_;
  std::vector<Span> spans_;
  std::vector<Slot> slots_;
  std::size_t entries_ = 0;
  std::size_t longest_ = 0;
};

}  // namespace causeway::text
