// Rotary position embedding, in the half-split form of Hugging Face checkpoints: with h = size / 2,
// elements (i, i + h) of a head rotate by position × frequency[i].
//
// Angles, sines and cosines are computed in double precision, once a step for all layers: at
// position 100,000 a float angle would be off by 4e-3.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu.h"

namespace causeway::kernels::rope {

// theta^(-2i / size) for i in [0, size / 2). `size` is even.
std::vector<double> frequencies(std::int64_t size, double theta);

// How heads of `size` elements are rotated: pair i by position × frequencies[i], and multiplied by
// `amplitude`. Pairs for which there is no frequency stay as they are.
struct TableParams {
  std::span<const double> frequencies{};  // at most size / 2
  std::int64_t size = 0;
  double amplitude = 1;
};

// out [positions][cosines of size / 2, sines of size / 2], for the given positions.
void fill_table(const TableParams& params, std::span<const std::int64_t> positions, float* out);

struct Params {
  std::int64_t tokens = 0;
  std::int64_t heads = 0;        // q heads and k heads, one after the other
  std::int64_t size = 0;         // of a head; even
  const float* table = nullptr;  // [tokens][size], of fill_table
  float* x = nullptr;            // [tokens][heads][size], rotated in place
  std::int64_t x_stride = 0;     // floats from token to token
  Variant variant = best_variant();
};

void run(const Params& params);

}  // namespace causeway::kernels::rope
