// Chooses the slices that `--slices auto` divides GPUs into. Pure.
//
// On one slice models are interleaved: a request that decodes waits for another model's step with
// prompts. On slices of their own models do not wait for each other, but each has a part of the
// processors, so a model that is alone starts and decodes more slowly
// (docs/measurements/fleet-h100.md: 52 ms between tokens beside prompts of 8,192 tokens on one
// slice, 7.5 ms on two; 5.5 and 6.3 ms without them). So a GPU is divided only where some model
// could not keep its target beside another's prompts, and its own prompts fit then.
#pragma once

#include <span>
#include <string>

#include "base/units.h"
#include "slice/slice_layout.h"

namespace causeway::slice {

// The largest share of a GPU's memory that its slices may have for weights; the rest is for KV.
inline constexpr double kWeightsShare = 0.75;

struct SliceDemand {
  std::string model;
  double flops_per_token = 0;  // for each token of a prompt
  Bytes bytes_per_step;        // of weights, in a step of one token
  Nanos tpot;                  // the target between tokens
};

struct ChosenSlices {
  std::string text;  // for parse_slices()
  std::string why;   // for the log
};

// `prompt_tokens`: the most of a step. GPUs are not divided when the speed of a processor is
// unknown, or when half of a GPU would not hold the weights of the largest model.
ChosenSlices choose_slices(const SliceFacts& facts, std::span<const SliceDemand> models,
                           Tokens prompt_tokens);

}  // namespace causeway::slice
