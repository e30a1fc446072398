#include "grammar/token_table.h"

#include <algorithm>

namespace causeway::grammar {

Result<std::shared_ptr<const TokenTable>> make_token_table(const ModelTokens& model) {
  auto table = std::make_shared<TokenTable>();
  for (const TokenId id : model.end) {
    if (id >= 0 && id < model.vocab) table->end.push_back(id);
  }
  if (table->end.empty()) {
    return invalid_argument("the model has no token that would end an answer of a given form");
  }
  table->bytes.resize(static_cast<std::size_t>(model.vocab));
  const std::int64_t known = std::min(model.vocab, model.tokenizer->vocab_size());
  for (TokenId id = 0; id < known; ++id) {
    const std::string_view bytes = model.tokenizer->token_bytes(id);
    const bool mark = std::find(model.marks.begin(), model.marks.end(), bytes) != model.marks.end();
    const bool text = !model.tokenizer->is_special(id) || mark;
    if (text) table->bytes[static_cast<std::size_t>(id)] = bytes;
  }
  for (const TokenId id : table->end) table->bytes[static_cast<std::size_t>(id)].clear();
  return std::shared_ptr<const TokenTable>(std::move(table));
}

}  // namespace causeway::grammar
