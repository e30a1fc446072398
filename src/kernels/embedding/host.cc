#include "kernels/embedding/embedding.h"

#include "kernels/parallel.h"

namespace causeway::kernels::embedding {
namespace {

void widen(WeightsRef row, std::int64_t size, float scale, float* out) {
  if (!row.is_bf16()) {
    for (std::int64_t i = 0; i < size; ++i) out[i] = scale * row.f32()[i];
    return;
  }
  const BFloat16* source = row.bf16();
  for (std::int64_t i = 0; i < size; ++i) out[i] = scale * to_float(source[i]);
}

}  // namespace

void run(const Params& p) {
  for (const TokenId token : p.tokens) {
    CAUSEWAY_CHECK(token >= 0 && token < p.vocab, "a token id outside the vocabulary");
  }
  const auto count = static_cast<std::int64_t>(p.tokens.size());
  parallel_ranges(count, 1 + (16 << 10) / p.size, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t token = p.tokens[static_cast<std::size_t>(t)];
      widen(p.table.from(token * p.size), p.size, p.scale, p.out + t * p.size);
    }
  });
}

}  // namespace causeway::kernels::embedding
