// Bounds logits softly: x becomes cap · tanh(x / cap) (Gemma 2, arXiv 2408.00118, section 2).
#pragma once

#include <cstdint>

namespace causeway::kernels::soft_cap {

struct Params {
  float* x = nullptr;  // [count], in place
  std::int64_t count = 0;
  float cap = 0;  // above 0
};

void run(const Params& params);

}  // namespace causeway::kernels::soft_cap
