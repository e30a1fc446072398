// Models that tests of slices serve on the CPU: of some hundred kilobytes, with weights that
// differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/config.h"

namespace causeway::slice::testing {

// Layers of several extents of 64 KiB, in f32. `tied`: the head is the embedding.
model::ModelConfig small_model(std::int64_t layers, bool tied);

// The same with a mixture of eight experts a layer, of which a token chooses two.
model::ModelConfig small_sparse_model(std::int64_t layers, bool tied);

// Numbers of f32 in [-scale / 2, scale / 2).
void fill_random(std::span<std::byte> memory, std::uint64_t seed, float scale = 0.3f);

}  // namespace causeway::slice::testing
