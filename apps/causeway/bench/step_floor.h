// The least time that a step can take on a GPU: what it must read, and what it must compute. Pure.
//
//   floor = max((weights + KV read) ÷ HBM read rate, operations ÷ product peak)
//
// The larger of the two, not their sum: reading and computing overlap in the best of kernels, so
// this is the stricter floor.
#pragma once

#include "kv/block_layout.h"
#include "model/config.h"
#include "request/batch.h"

namespace causeway::bench {

struct StepWork {
  Bytes read;  // weights once (of experts: those expected to be chosen), KV once a sequence
  double operations = 0;  // of products with weights, the head for what is sampled, and attention
  std::int64_t tokens = 0;
  std::int64_t sequences = 0;
  bool decode_only = false;  // a token a sequence
};

// `layout`: of the model's KV. Weights and KV are bf16.
StepWork work_of(const request::Batch& batch, const model::ModelConfig& config,
                 const kv::BlockLayout& layout);

struct GpuLimits {
  double read_bytes_per_second = 0;
  double operations_per_second = 0;
};
GpuLimits mean_of(const GpuLimits& a, const GpuLimits& b);
Nanos floor_of(const StepWork& work, const GpuLimits& limits);

}  // namespace causeway::bench
