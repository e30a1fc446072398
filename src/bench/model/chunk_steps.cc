#include "bench/model/chunk_steps.h"

#include <algorithm>
#include <new>

#include "base/quantile.h"
#include "bench/model/host_steps.h"

namespace causeway::model {

std::vector<BatchPart> parts_of(const ChunkBenchOptions& options, Tokens chunk, bool beside) {
  std::vector<BatchPart> parts;
  if (beside) parts.push_back({.sequences = options.decodes, .context = options.decode_context});
  const std::int64_t longest = std::max<std::int64_t>(1, options.config.max_position.count);
  if (chunk.count / longest > 0) {
    parts.push_back({.sequences = chunk.count / longest, .tokens = longest});
  }
  if (chunk.count % longest > 0) parts.push_back({.tokens = chunk.count % longest});
  return parts;
}

ChunkBenchLimits limits_of(const ChunkBenchOptions& options, const kv::BlockLayout& layout) {
  ChunkBenchLimits limits;
  for (const Tokens chunk : options.chunks) {
    const auto parts = parts_of(options, chunk, true);
    std::int64_t sequences = 0;
    for (const BatchPart& part : parts) sequences += part.sequences;
    limits.rows = std::max(limits.rows, chunk.count + options.decodes);
    limits.sequences = std::max(limits.sequences, sequences);
    limits.frames = std::max(limits.frames, frames_of(parts, layout));
  }
  return limits;
}

Result<std::vector<ChunkSteps>> measure_chunks(const ChunkBenchOptions& options,
                                               const kv::BlockLayout& layout,
                                               const TimeStep& time_step,
                                               const ChunkBenchProgress& progress) {
  std::vector<ChunkSteps> measured;
  for (const Tokens chunk : options.chunks) {
    if (progress) progress(chunk);
    const auto batch_of = [&](bool beside) {
      return make_bench_batch(parts_of(options, chunk, beside), layout, options.config.vocab);
    };
    const request::Batch alone = batch_of(false), beside = batch_of(true);
    std::vector<Nanos> alone_took, beside_took;
    for (std::int64_t run = 0; run < options.runs + 1; ++run) {
      CAUSEWAY_ASSIGN(const Nanos first, time_step(alone));
      CAUSEWAY_ASSIGN(const Nanos second, time_step(beside));
      if (run == 0) continue;
      alone_took.push_back(first);
      beside_took.push_back(second);
    }
    measured.push_back({.tokens = chunk,
                        .alone = median(std::move(alone_took)),
                        .beside = median(std::move(beside_took))});
  }
  return measured;
}

Result<std::vector<ChunkSteps>> bench_host_chunks(const ChunkBenchOptions& options,
                                                  device::HostMemory& memory, const Clock& clock,
                                                  const ChunkBenchProgress& progress) {
  CAUSEWAY_ASSIGN(const auto layout, bench_layout(options.config));
  const ChunkBenchLimits limits = limits_of(options, layout);
  CAUSEWAY_ASSIGN(
      const auto steps,
      HostSteps::create(options.config, {.sequences = limits.sequences, .frames = limits.frames},
                        memory));
  const auto time_step = [&](const request::Batch& batch) -> Result<Nanos> {
    const Nanos start = clock.now();
    CAUSEWAY_TRY(steps->run(batch));
    return clock.now() - start;
  };
  try {
    return measure_chunks(options, layout, time_step, progress);
  } catch (const std::bad_alloc&) {
    return exhausted("no memory for the activations of such a step: measure smaller steps");
  }
}

}  // namespace causeway::model
