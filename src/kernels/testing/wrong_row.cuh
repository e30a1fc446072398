// Where an output of rows of heads is wrong: a row of a few tokens must not hide behind many.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/testing/gpu.cuh"

namespace causeway::kernels::testing {

struct WrongRow {
  std::int64_t row = -1;  // none
  double error = 0;
  std::string heads;  // numbers of the wrong ones, the first eight
};

// The first row of `got`, [rows][heads][size], whose error is above the limit.
inline WrongRow first_wrong_row(const std::vector<float>& got, const std::vector<float>& wanted,
                                std::int64_t heads, std::int64_t size, double limit) {
  const auto error_of = [&](std::int64_t begin, std::int64_t count) {
    const auto part = [&](const std::vector<float>& x) {
      return std::vector<float>(x.begin() + begin, x.begin() + begin + count);
    };
    return relative_error(part(got), part(wanted));
  };
  const std::int64_t width = heads * size;
  const std::int64_t rows = static_cast<std::int64_t>(wanted.size()) / width;
  for (std::int64_t row = 0; row < rows; ++row) {
    WrongRow wrong{.row = row, .error = error_of(row * width, width)};
    if (wrong.error <= limit) continue;
    std::int64_t count = 0;
    for (std::int64_t head = 0; head < heads; ++head) {
      if (error_of(row * width + head * size, size) <= limit) continue;
      if (++count <= 8) wrong.heads += " " + std::to_string(head);
    }
    wrong.heads += " (" + std::to_string(count) + " of " + std::to_string(heads) + ")";
    return wrong;
  }
  return {};
}

}  // namespace causeway::kernels::testing
