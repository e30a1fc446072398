#include "kernels/pending_tokens/pending_tokens.h"

namespace causeway::kernels::pending_tokens {

void resolve(std::span<TokenId> tokens, std::span<const TokenId> chosen) {
  for (TokenId& token : tokens) {
    if (token >= -1) continue;
    const auto row = static_cast<std::size_t>(-2 - std::int64_t{token});
    token = row < chosen.size() ? chosen[row] : 0;
  }
}

}  // namespace causeway::kernels::pending_tokens
