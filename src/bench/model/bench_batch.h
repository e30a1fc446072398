// The steps that benchmarks of forward passes run: sequences of made-up tokens, KV in frames of
// their own.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "kv/block_layout.h"
#include "model/config.h"
#include "request/batch.h"

namespace causeway::model {

// Sequences that are alike.
struct BatchPart {
  std::int64_t sequences = 1;
  std::int64_t context = 0;  // tokens of each that are there already
  std::int64_t tokens = 1;   // of each in this step
};

// A layout with frames of 4 MiB, in bf16. kInvalidArgument when not even a token fits.
Result<kv::BlockLayout> bench_layout(const ModelConfig& config);

// Frames that the step takes.
std::int64_t frames_of(std::span<const BatchPart> parts, const kv::BlockLayout& layout);

// Sequence by sequence, in the parts' order; frames in a row from 0. Each samples a token.
request::Batch make_bench_batch(std::span<const BatchPart> parts, const kv::BlockLayout& layout,
                                std::int64_t vocab);

}  // namespace causeway::model
