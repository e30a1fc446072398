// The least time that a step can take on a GPU: what it must read, and what it must compute. Pure.
//
//   floor = max((weights + KV read) ÷ HBM read rate, operations ÷ product peak)
//
// The larger of the two, not their sum: reading and computing overlap in the best of kernels, so
// this is the stricter floor.
#pragma once

#include "model/model_card.h"
#include "request/batch.h"

namespace causeway::bench {

struct StepWork {
  Bytes read;  // weights once (of experts: those expected to be chosen), KV once a sequence
  double operations = 0;  // of products with weights, the head for what is sampled, and attention
  std::int64_t tokens = 0;
  std::int64_t sequences = 0;
  bool decode_only = false;  // a token a sequence
};

StepWork work_of(const request::Batch& batch, const model::ModelCard& card);

struct DeviceLimits {
  double read_bytes_per_second = 0;
  double operations_per_second = 0;
};
DeviceLimits mean_of(const DeviceLimits& a, const DeviceLimits& b);
Nanos floor_of(const StepWork& work, const DeviceLimits& limits);

}  // namespace causeway::bench
