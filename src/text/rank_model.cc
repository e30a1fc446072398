#include "text/rank_model.h"

#include <algorithm>

namespace causeway::text {

Result<RankModel> RankModel::build(Vocabulary words) {
  RankModel model(std::move(words));
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    const auto id = model.words_.find({&text, 1});
    if (!id) return corrupt("byte " + std::to_string(byte) + " is no token; each byte must be one");
    model.byte_ids_[static_cast<std::size_t>(byte)] = *id;
  }
  return model;
}

void RankModel::encode_word(std::string_view word, MergeScratch& scratch,
                            std::vector<TokenId>& ids) const {
  if (const auto whole = word.size() <= words_.longest() ? words_.find(word) : std::nullopt) {
    ids.push_back(*whole);
    return;
  }
  auto& symbols = scratch.symbols;
  symbols.clear();
  for (std::size_t at = 0; at < word.size(); ++at) {
    symbols.push_back(
        {byte_ids_[static_cast<unsigned char>(word[at])], static_cast<std::uint32_t>(at), 1});
  }
  merge_symbols(scratch, [&](const Symbol& left, const Symbol& right) -> Merge {
    const std::size_t size = std::size_t{left.size} + right.size;
    if (size > words_.longest()) return {};
    const auto id = words_.find(word.substr(left.offset, size));
    if (!id) return {};
    return {static_cast<std::uint32_t>(*id), *id};
  });
  for (const Symbol& symbol : symbols) ids.push_back(symbol.id);
}

}  // namespace causeway::text
