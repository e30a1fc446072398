#include "kv/block_layout.h"

#include <optional>
#include <string>

namespace causeway::kv {
namespace {

std::optional<std::int64_t> multiply(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) return std::nullopt;
  }
  return product;
}

std::string describe(const KvShape& shape) {
  return std::to_string(shape.layers) + " layers of " + std::to_string(shape.kv_heads) +
         " KV heads of " + std::to_string(shape.head_dim) + " " + std::string(name_of(shape.dtype));
}

}  // namespace

Result<BlockLayout> plan_block(const KvShape& shape, Bytes frame) {
  if (shape.layers <= 0 || shape.kv_heads <= 0 || shape.head_dim <= 0) {
    return invalid_argument("a KV block of " + describe(shape) + ": all must be positive");
  }
  const auto token_stride = multiply({shape.kv_heads, shape.head_dim, size_of(shape.dtype).count});
  const auto token_bytes = token_stride ? multiply({*token_stride, 2, shape.layers}) : std::nullopt;
  if (!token_bytes || *token_bytes > frame.count) {
    return invalid_argument(
        "the KV of one token (" + describe(shape) + ") takes " +
        (token_bytes ? std::to_string(*token_bytes) + " bytes" : "more bytes than can be counted") +
        " and does not fit a frame of " + std::to_string(frame.count) +
        " bytes; choose a larger frame");
  }
  const std::int64_t tokens = frame.count / *token_bytes;
  return BlockLayout{.tokens = Tokens(tokens),
                     .token_stride = Bytes(*token_stride),
                     .kv_stride = Bytes(*token_stride) * tokens,
                     .layer_stride = Bytes(*token_stride) * tokens * 2,
                     .frame = frame};
}

}  // namespace causeway::kv
