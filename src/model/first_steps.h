// Which steps' kernels a slice loads while nothing is asked of it, so that no first request waits
// for them (docs/design/slice.md). Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/config.h"
#include "model/step_tables.h"

namespace causeway::model {

// The shapes of steps whose kernels include those of nearly every step: prompts, doubling up to
// `rows`; single tokens, one shape for each bucket (decode_buckets()); and both together. The
// likeliest come first. `plain_context`: ModelConfig::plain_context(). A kernel that is used only
// between two of the prompts' sizes may be missing.
std::vector<StepShape> first_steps(std::int64_t rows, std::span<const std::int64_t> buckets,
                                   std::int64_t plain_context);

// Whether steps of the same shape use the same kernels for both models.
bool same_kernels(const ModelConfig& a, const ModelConfig& b);

}  // namespace causeway::model
