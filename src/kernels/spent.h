// Memory that is not read any more (kernels/cuda_discard.cuh).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace causeway::kernels {

struct Spent {
  void* data = nullptr;
  std::int64_t bytes = 0;  // less than 2^37
};

constexpr std::size_t kSpentMax = 3;
using SpentList = std::array<Spent, kSpentMax>;

constexpr std::int64_t kSpentLine = 128;  // bytes of L2 that can be dropped, so aligned

// The whole lines of a span: what shares a line with others stays.
struct SpentLines {
  char* first = nullptr;
  int count = 0;
};

inline SpentLines spent_lines(const Spent& spent) {
  constexpr auto kLine = static_cast<std::uintptr_t>(kSpentLine);
  const auto address = reinterpret_cast<std::uintptr_t>(spent.data);
  const std::uintptr_t begin = (address + kLine - 1) / kLine * kLine;
  const std::uintptr_t end = (address + static_cast<std::uintptr_t>(spent.bytes)) / kLine * kLine;
  if (end <= begin) return {};
  return {static_cast<char*>(spent.data) + (begin - address),
          static_cast<int>((end - begin) / kLine)};
}

}  // namespace causeway::kernels
