// How long a step takes on a machine: the roofline of its arithmetic, its memory traffic and, when
// the model's weights have to come from home, its link traffic. Pure.
//
//   duration = overhead + max(FLOPs / rate, (weights + KV) / memory rate, link bytes / link rate)
//
// which assumes that copies overlap with computing. Mixture-of-experts layers read the experts that
// a uniform router is expected to hit.
#pragma once

#include <string>

#include "base/units.h"
#include "kv/block_layout.h"
#include "model/config.h"
#include "request/batch.h"
#include "simulate/hardware_profile.h"
#include "weights/weight_cache.h"

namespace causeway::simulate {

struct ModelShape {
  std::string name;
  Bytes weights;         // all of them
  Bytes weights_always;  // read by every step: all but experts and embedding table
  Bytes expert;          // of one expert, in all layers
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;
  double flops_per_token = 0;          // of matrix products with weights
  double flops_per_context_token = 0;  // of attention, for each pair of a token and its context
  Bytes kv_per_token;
  Tokens tokens_per_block{1};
  Tokens max_model_len{0};
  std::int64_t vocab = 0;
  weights::CachedModel cached;  // what crosses the link, in the order in which a step reads it
};

// kInvalidArgument when not even one token's KV fits a frame; kResourceExhausted for a model that
// no machine holds.
Result<ModelShape> shape_of(const std::string& name, const model::ModelConfig& config, Bytes frame);

// What a step has to move and compute.
struct StepWork {
  double flops = 0;
  Bytes weights;            // that it reads: those of every step, and of the experts that are hit
  double memory_bytes = 0;  // weights and KV
};

StepWork work_of(const request::Batch& batch, const ModelShape& shape);

// `link`: bytes that must come from home meanwhile.
Nanos step_duration(const StepWork& work, Bytes link, const HardwareProfile& profile);

// What any step of a model takes at the least, and what each of its tokens does: what an engine is
// told, so that it starts steps while weights are still on their way.
Nanos step_min(const ModelShape& shape, const HardwareProfile& profile);
double seconds_per_token(const ModelShape& shape, const HardwareProfile& profile);

}  // namespace causeway::simulate
