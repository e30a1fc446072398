// Tokens that the step before chose on the device, put where the next step reads them.
//
//   tokens  │ 17 │ -2 │  5 │ -4 │      chosen │ 90 │ 91 │ 92 │
//   becomes │ 17 │ 90 │  5 │ 92 │      -2 - r stands for chosen[r]
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/units.h"
#include "kernels/cuda_stream.h"

namespace causeway::kernels::pending_tokens {

// In place. A row beyond `chosen` gives token 0; what is not below -1 stays.
void resolve(std::span<TokenId> tokens, std::span<const TokenId> chosen);

// The same on a GPU: enqueued; all in device memory.
struct ParamsCuda {
  TokenId* tokens = nullptr;  // [count]
  std::int64_t count = 0;
  const TokenId* chosen = nullptr;  // [rows]
  std::int64_t rows = 0;
};
Status run(const ParamsCuda& params, CudaStream stream);

}  // namespace causeway::kernels::pending_tokens
