#include "bench/step_floor.h"

#include <algorithm>

#include "model/step_work.h"

namespace causeway::bench {

StepWork work_of(const request::Batch& batch, const model::ModelCard& card) {
  const model::ModelConfig& config = card.config;
  StepWork work;
  work.tokens = std::ssize(batch.tokens);
  work.sequences = std::ssize(batch.entries);
  work.decode_only = work.tokens == work.sequences;
  std::int64_t context = 0, sampled = 0;
  double pairs = 0;  // of a query and a key
  for (const request::BatchEntry& entry : batch.entries) {
    context += entry.context + entry.token_count;
    sampled += entry.samples ? 1 : 0;
    const double count = entry.token_count;
    pairs += count * entry.context + count * (count + 1) / 2;
  }
  work.read = model::decode_weight_bytes(config, card.storage, work.tokens) +
              card.kv.token_stride * (2 * config.layers * context);
  // What prefill_operations() says of one token, without its head and its one pair.
  const auto head = 2 * static_cast<double>(config.vocab * config.hidden);
  const auto width = 4 * static_cast<double>(config.heads * config.head_dim * config.layers);
  const double token = model::prefill_operations(config, 1) - head - width;
  work.operations = token * static_cast<double>(work.tokens) + head * static_cast<double>(sampled) +
                    width * pairs;
  return work;
}

DeviceLimits mean_of(const DeviceLimits& a, const DeviceLimits& b) {
  return {(a.read_bytes_per_second + b.read_bytes_per_second) / 2,
          (a.operations_per_second + b.operations_per_second) / 2};
}

Nanos floor_of(const StepWork& work, const DeviceLimits& limits) {
  return nanos_from_seconds(
      std::max(static_cast<double>(work.read.count) / limits.read_bytes_per_second,
               work.operations / limits.operations_per_second));
}

}  // namespace causeway::bench
