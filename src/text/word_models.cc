#include "text/word_models.h"

#include <algorithm>

#include "base/result.h"

namespace causeway::text {
namespace {

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

Status push_unknown(const std::optional<TokenId>& unknown, std::vector<TokenId>& ids) {
  if (!unknown) {
    return unsupported("a word of the text is not in the vocabulary, nor is model.unk_token");
  }
  ids.push_back(*unknown);
  return {};
}

}  // namespace

Status WordLevelModel::encode_word(std::string_view word, std::vector<TokenId>& ids) const {
  const auto id = vocabulary_.find(word);
  if (!id) return push_unknown(unknown_, ids);
  ids.push_back(*id);
  return {};
}

WordPieceModel::Found WordPieceModel::longest(std::string_view rest, bool continues) const {
  const std::string prefixed = (continues ? options_.prefix : "") + std::string(rest);
  const std::size_t prefix = prefixed.size() - rest.size();
  for (std::size_t size = rest.size(); size > 0; --size) {
    if (size < rest.size() && continues_character(rest[size])) continue;
    if (const auto id = vocabulary_.find(std::string_view(prefixed).substr(0, prefix + size))) {
      return {*id, size};
    }
  }
  return {};
}

Status WordPieceModel::encode_word(std::string_view word, std::vector<TokenId>& ids) const {
  const auto characters =
      std::count_if(word.begin(), word.end(), [](char c) { return !continues_character(c); });
  if (characters > options_.word_characters_max) return push_unknown(options_.unknown, ids);
  const std::size_t before = ids.size();
  for (std::size_t at = 0; at < word.size();) {
    const Found found = longest(word.substr(at), at > 0);
    if (found.size == 0) {
      ids.resize(before);
      return push_unknown(options_.unknown, ids);
    }
    ids.push_back(found.id);
    at += found.size;
  }
  return {};
}

}  // namespace causeway::text
