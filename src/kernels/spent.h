// Memory that nobody reads any more (kernels/cuda_discard.cuh).
#pragma once

#include <array>
#include <cstdint>

namespace causeway::kernels {

struct Spent {
  void* data = nullptr;
  std::int64_t bytes = 0;  // less than 2^37
};

constexpr std::size_t kSpentMax = 2;
using SpentList = std::array<Spent, kSpentMax>;

}  // namespace causeway::kernels
