#include "text/charsmap.h"

#include <utf8proc.h>

#include <cstring>
#include <optional>

#include "text/base64.h"
#include "text/utf8.h"

namespace causeway::text {
namespace {

constexpr std::size_t kClusterBytesMax = 6;

// A unit of darts-clone's double array.
bool has_leaf(std::uint32_t unit) { return unit >> 8 & 1; }
std::uint32_t value(std::uint32_t unit) { return unit & 0x7FFFFFFFu; }
std::uint32_t label(std::uint32_t unit) { return unit & 0x800000FFu; }
std::uint32_t offset(std::uint32_t unit) { return unit >> 10 << ((unit & 0x200u) >> 6); }

}  // namespace

Result<Charsmap> Charsmap::parse(std::string_view base64) {
  const auto bytes = bytes_of_base64(base64);
  if (!bytes) return corrupt("precompiled_charsmap is not base64");
  return parse_bytes(*bytes);
}

Result<Charsmap> Charsmap::parse_bytes(std::string_view bytes) {
  std::uint32_t trie_bytes = 0;
  if (bytes.size() < sizeof(trie_bytes)) return corrupt("precompiled_charsmap is empty");
  std::memcpy(&trie_bytes, bytes.data(), sizeof(trie_bytes));
  const std::size_t units = trie_bytes / sizeof(std::uint32_t);
  const std::size_t trie_end = sizeof(trie_bytes) + units * sizeof(std::uint32_t);
  if (units == 0 || trie_end > bytes.size()) {
    return corrupt("precompiled_charsmap: a trie of " + std::to_string(trie_bytes) + " bytes in " +
                   std::to_string(bytes.size()));
  }
  Charsmap map;
  map.units_.resize(units);
  std::memcpy(map.units_.data(), bytes.data() + sizeof(trie_bytes), trie_end - sizeof(trie_bytes));
  map.texts_ = bytes.substr(trie_end);
  if (first_invalid_utf8(map.texts_)) return corrupt("precompiled_charsmap: texts are not UTF-8");
  return map;
}

template <typename Visit>
void Charsmap::each_key(std::string_view text, const Visit& visit) const {
  std::uint32_t node = offset(units_[0]);
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte == 0) return;
    node ^= byte;
    if (node >= units_.size() || label(units_[node]) != byte) return;
    const std::uint32_t unit = units_[node];
    node ^= offset(unit);
    if (!has_leaf(unit)) continue;
    if (node >= units_.size() || value(units_[node]) >= texts_.size()) return;
    const std::string_view rest = std::string_view(texts_).substr(value(units_[node]));
    // Texts that a hostile index starts within a character are none.
    if ((static_cast<unsigned char>(rest[0]) & 0xC0) == 0x80) return;
    if (!visit(Found{rest.substr(0, rest.find('\0')), at + 1})) return;
  }
}

std::optional<std::string_view> Charsmap::replacement(std::string_view part) const {
  std::optional<std::string_view> text;
  each_key(part, [&](const Found& found) {
    text = found.text;
    return false;
  });
  return text;
}

std::optional<Charsmap::Found> Charsmap::longest(std::string_view text) const {
  std::optional<Found> longest;
  each_key(text, [&](const Found& found) {
    // A hostile key may end within a character.
    const bool whole =
        found.size == text.size() || (static_cast<unsigned char>(text[found.size]) & 0xC0) != 0x80;
    if (whole) longest = found;
    return true;
  });
  return longest;
}

void Charsmap::apply_cluster(std::string_view cluster, std::size_t bytes_max,
                             std::string& out) const {
  if (cluster.size() < kClusterBytesMax) {
    if (const auto whole = replacement(cluster)) {
      out.append(*whole);
      return;
    }
  }
  while (!cluster.empty() && out.size() <= bytes_max) {
    const std::size_t size = utf8_length(static_cast<unsigned char>(cluster[0]));
    const std::string_view character = cluster.substr(0, size);
    out.append(replacement(character).value_or(character));
    cluster.remove_prefix(size);
  }
}

void Charsmap::apply(std::string_view text, std::size_t bytes_max, std::string& out) const {
  utf8proc_int32_t state = 0;
  utf8proc_int32_t last = 0;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size() && out.size() <= bytes_max;) {
    const Utf8Unit unit = first_unit(text.substr(at, 4));
    const auto code = static_cast<utf8proc_int32_t>(unit.code);
    if (at > 0 && utf8proc_grapheme_break_stateful(last, code, &state)) {
      apply_cluster(text.substr(begin, at - begin), bytes_max, out);
      begin = at;
    }
    last = code;
    at += unit.size;
  }
  if (out.size() <= bytes_max) apply_cluster(text.substr(begin), bytes_max, out);
}

}  // namespace causeway::text
