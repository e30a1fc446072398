#include "text/tokenizer_table.h"

#include "text/utf8.h"

namespace causeway::text {

bool TokenTable::add(TokenId id, std::string_view content, std::string_view bytes) {
  if (!contents_.add(id, content)) return false;
  if (static_cast<std::size_t>(id) >= spans_.size()) {
    spans_.resize(static_cast<std::size_t>(id) + 1);
    special_.resize(static_cast<std::size_t>(id) + 1);
    byte_.resize(static_cast<std::size_t>(id) + 1);
  }
  spans_[static_cast<std::size_t>(id)] = {bytes_.size(), bytes.size()};
  bytes_.append(bytes);
  return true;
}

void TokenTable::reserve(std::size_t entries, std::size_t bytes) {
  contents_.reserve(entries, bytes);
  spans_.reserve(entries);
  special_.reserve(entries);
  byte_.reserve(entries);
  bytes_.reserve(bytes);
}

void TokenTable::set_special(TokenId id) { special_[static_cast<std::size_t>(id)] = true; }
void TokenTable::set_byte(TokenId id) { byte_[static_cast<std::size_t>(id)] = true; }

std::string_view TokenTable::bytes(TokenId id) const {
  if (!contents_.contains(id)) return {};
  const Span span = spans_[static_cast<std::size_t>(id)];
  return std::string_view(bytes_).substr(span.offset, span.size);
}

Result<TokensUpTo> TableTokenizer::encode_up_to(std::string_view text, const EncodeOptions& options,
                                                std::int64_t most) const {
  if (text.size() > kTextBytesMax) {
    return invalid_argument("the text has " + std::to_string(text.size()) +
                            " bytes; at most 256 MiB can be encoded at once");
  }
  if (const auto offset = first_invalid_utf8(text)) {
    return invalid_argument("the text is not valid UTF-8 at byte " + std::to_string(*offset));
  }
  std::vector<TokenId> ids;
  if (options.add_special_tokens) ids = table_.prefix;
  const std::size_t expected = text.size() / 3 + 8;
  ids.reserve(most < std::ssize(text) ? std::min(expected, static_cast<std::size_t>(most) + 8)
                                      : expected);
  Scratch scratch{.limit = TokenLimit(most), .parse_special = options.parse_special};
  std::vector<Segment> parts;
  added_.split(text, options.parse_special, parts);
  for (const Segment& part : parts) {
    if (scratch.limit.exceeded(ids)) break;
    if (part.id >= 0) {
      ids.push_back(part.id);
    } else {
      CAUSEWAY_TRY(encode_text(part.text, part.text.data() == text.data(), scratch, ids));
    }
  }
  if (options.add_special_tokens) {
    ids.insert(ids.end(), table_.suffix.begin(), table_.suffix.end());
  }
  const std::int64_t count = std::max<std::int64_t>(std::ssize(ids), scratch.limit.known());
  return TokensUpTo{.ids = std::move(ids), .count = count};
}

}  // namespace causeway::text
