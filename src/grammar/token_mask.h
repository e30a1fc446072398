// Sets of tokens, as request::TokenMatcher::mask() tells them: bit t % 32 of word t / 32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace causeway::grammar {

using TokenMask = std::vector<std::uint32_t>;

// `token` is one of those that the mask has room for.
inline void set_bit(TokenMask& mask, TokenId token, bool allowed) {
  const auto at = static_cast<std::size_t>(token);
  const std::uint32_t bit = std::uint32_t{1} << (at % 32);
  mask[at / 32] = allowed ? mask[at / 32] | bit : mask[at / 32] & ~bit;
}

// Masks of a vocabulary of `count` tokens.
inline TokenMask no_tokens(std::size_t count) { return TokenMask((count + 31) / 32); }
inline TokenMask all_tokens(std::size_t count) {
  TokenMask mask((count + 31) / 32, ~std::uint32_t{0});
  if (count % 32 != 0) mask.back() = (std::uint32_t{1} << (count % 32)) - 1;
  return mask;
}

}  // namespace causeway::grammar
