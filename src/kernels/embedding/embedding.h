// Token embeddings: rows of a table, widened to f32 and scaled.
#pragma once

#include <cstdint>
#include <span>

#include "base/units.h"
#include "kernels/weights_ref.h"

namespace causeway::kernels::embedding {

struct Params {
  WeightsRef table{};  // [vocab][size]
  std::int64_t vocab = 0;
  std::int64_t size = 0;
  std::span<const TokenId> tokens{};  // each in [0, vocab): anything else is a CHECK failure
  float scale = 1;
  float* out = nullptr;  // [tokens][size]
};

void run(const Params& params);

}  // namespace causeway::kernels::embedding
