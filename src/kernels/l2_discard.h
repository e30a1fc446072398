// Memory that is not read any more (kernels/cuda_discard.cuh).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace causeway::kernels {

struct DiscardRange {
  void* data = nullptr;
  std::int64_t bytes = 0;  // less than 2^37
};

constexpr std::size_t kDiscardsMax = 3;
using DiscardList = std::array<DiscardRange, kDiscardsMax>;

constexpr std::int64_t kDiscardLineBytes = 128;  // bytes of L2 that can be dropped, so aligned

// The whole lines of a span: what shares a line with others stays.
struct DiscardLines {
  char* first = nullptr;
  int count = 0;
};

inline DiscardLines discard_lines(const DiscardRange& range) {
  constexpr auto kLine = static_cast<std::uintptr_t>(kDiscardLineBytes);
  const auto address = reinterpret_cast<std::uintptr_t>(range.data);
  const std::uintptr_t begin = (address + kLine - 1) / kLine * kLine;
  const std::uintptr_t end = (address + static_cast<std::uintptr_t>(range.bytes)) / kLine * kLine;
  if (end <= begin) return {};
  return {static_cast<char*>(range.data) + (begin - address),
          static_cast<int>((end - begin) / kLine)};
}

}  // namespace causeway::kernels
