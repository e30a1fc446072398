// Weights from one element type to another.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"

namespace causeway::weights {

// Converts the elements of `source` to target[0 …]. Neither need be aligned; they do not overlap.
// Narrowing rounds to nearest, ties to even; NaN stays NaN, and too large becomes infinite.
void convert_elements(std::span<const std::byte> source, DType from, std::byte* target, DType to);

}  // namespace causeway::weights
