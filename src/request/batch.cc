#include "request/batch.h"

namespace causeway::request {
namespace {

void resolve(std::span<TokenId> tokens, std::span<const SampledToken> before) {
  for (TokenId& token : tokens) {
    if (!is_pending(token)) continue;
    const auto row = static_cast<std::size_t>(pending_row(token));
    token = row < before.size() ? before[row].token.token : 0;
  }
}

}  // namespace

void resolve_pending(Batch& batch, std::span<const SampledToken> before) {
  resolve(batch.tokens, before);
  for (BatchEntry& entry : batch.entries) resolve(entry.history, before);
}

}  // namespace causeway::request
