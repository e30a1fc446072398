#include "slice/testing/bf16_models.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "kernels/testing/random_bf16.h"
#include "model/random_model.h"

namespace causeway::slice::testing {
namespace {

model::ModelConfig shape(bool large, bool tied) {
  model::ModelConfig config = model::random_model_config(model::Family::kLlama);
  config.layers = large ? 28 : 6;
  config.hidden = large ? 3072 : 1024;
  config.intermediate = large ? 8192 : 4096;
  config.heads = large ? 24 : 8;
  config.kv_heads = 8;
  config.head_dim = 128;
  config.vocab = large ? 128'256 : 16'000;
  config.tied_embeddings = tied;
  return config;
}

void fill(std::span<std::byte> memory, ModelId model) {
  constexpr std::size_t kPeriod = 37 * 1024 * 1024 + 512;
  const std::size_t first = std::min(kPeriod, memory.size());
  kernels::testing::fill_random_bf16(memory.first(first),
                                     100 + static_cast<std::uint64_t>(model.value), 0.03f);
  for (std::size_t at = kPeriod; at < memory.size(); at += kPeriod) {
    std::memcpy(memory.data() + at, memory.data(), std::min(kPeriod, memory.size() - at));
  }
}

}  // namespace

Catalogue bf16_catalogue(std::int64_t models, bool large, Tokens max_model_len) {
  return {.models = models,
          .max_model_len = max_model_len,
          .config = [large](ModelId model) { return shape(large, model.value % 2 == 0); },
          .fill = fill};
}

std::vector<CudaCandidate> candidates_of(const Catalogue& catalogue) {
  std::vector<CudaCandidate> candidates;
  for (std::int64_t m = 0; m < catalogue.models; ++m) {
    const ModelId id(m);
    candidates.push_back({.id = id,
                          .name = "model " + std::to_string(m),
                          .config = catalogue.config(id),
                          .max_model_len = catalogue.max_model_len,
                          .max_resident = catalogue.share(id)});
  }
  return candidates;
}

}  // namespace causeway::slice::testing
