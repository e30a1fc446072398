// Which steps' kernels a slice loads while nothing is asked of it, so that no first request waits
// for them (docs/design/slice.md). Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/config.h"
#include "model/step_tables.h"

namespace causeway::model {

// Shapes among whose kernels are those of nearly every step: of prompts, doubling up to `rows`; of
// single tokens, a shape a bucket (decode_buckets()); of both together. In the order in which they
// are likely to come first. `plain_context`: ModelConfig::plain_context(). Where kernels
// change between two sizes of prompts, a third may be left out.
std::vector<StepShape> first_steps(std::int64_t rows, std::span<const std::int64_t> buckets,
                                   std::int64_t plain_context);

// Whether steps of the same shape take the same kernels for both.
bool same_kernels(const ModelConfig& a, const ModelConfig& b);

}  // namespace causeway::model
