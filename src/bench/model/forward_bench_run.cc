#include "bench/model/forward_bench.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "bench/kernels/machine_limits.h"
#include "bench/model/bench_batch.h"
#include "bench/model/host_steps.h"
#include "model/step_work.h"

namespace causeway::model {
namespace {

using kernels::bench::BenchProgress;
using kernels::bench::BenchSample;
using kernels::bench::KernelBenchRow;

BatchPart decode_of(const ForwardBenchOptions& options, std::int64_t batch) {
  return {.sequences = batch, .context = options.decode_context};
}

BatchPart prompt_of(const ForwardBenchOptions& options) {
  return {.tokens = options.prefill_tokens};
}

HostSteps::Limits forward_limits(const ForwardBenchOptions& options,
                                 const kv::BlockLayout& layout) {
  std::int64_t most = 1;
  for (const std::int64_t batch : options.decode_batches) most = std::max(most, batch);
  const BatchPart decode = decode_of(options, most), prompt = prompt_of(options);
  return {.sequences = most,
          .frames = std::max(frames_of({&decode, 1}, layout), frames_of({&prompt, 1}, layout))};
}

class ForwardBench {
 public:
  ForwardBench(const ForwardBenchOptions& options, HostSteps& steps, const Clock& clock)
      : options_(options), steps_(steps), clock_(clock) {}

  Result<KernelBenchRow> decode(std::int64_t batch) {
    const ModelConfig& c = options_.config;
    const Bytes kv_token = steps_.layout().token_stride * (2 * c.layers);
    const Bytes step = decode_weight_bytes(c, host_dtype(c.dtype), batch) +
                       kv_token * (batch * (options_.decode_context + 1));
    const double bytes = static_cast<double>(step.count * options_.decode_steps);
    KernelBenchRow row{
        .name = "decode",
        .shape = "batch " + std::to_string(batch) + ", context " +
                 std::to_string(options_.decode_context),
        .unit = "GB/s",
        .limit_name = "memory_read",
        .ratio_wanted = batch == 1 ? 0.7 : 0,
        .per_token = static_cast<double>(step.count) * 1e-9 / static_cast<double>(batch)};
    return measure(std::move(row), [&]() -> Result<BenchSample> {
      const double limit = kernels::bench::read_bandwidth(steps_.weights(), clock_);
      const Nanos start = clock_.now();
      for (std::int64_t i = 0; i < options_.decode_steps; ++i) {
        CAUSEWAY_TRY(step_of(decode_of(options_, batch)));
      }
      return BenchSample{bytes / to_seconds(clock_.now() - start), limit};
    });
  }

  Result<KernelBenchRow> prefill() {
    const double work = prefill_operations(options_.config, options_.prefill_tokens);
    KernelBenchRow row{.name = "prefill",
                       .shape = std::to_string(options_.prefill_tokens) + " tokens",
                       .unit = "GFLOP/s",
                       .limit_name = "matmul",
                       .ratio_wanted = 0.6,
                       .per_token = work * 1e-9 / static_cast<double>(options_.prefill_tokens)};
    return measure(std::move(row), [&]() -> Result<BenchSample> {
      double limit = 0;
      for (int i = 0; i < 4; ++i) limit += peak_.measure(clock_) / 4;
      const Nanos start = clock_.now();
      CAUSEWAY_TRY(step_of(prompt_of(options_)));
      return BenchSample{work / to_seconds(clock_.now() - start), limit};
    });
  }

 private:
  template <typename Measure>
  Result<KernelBenchRow> measure(KernelBenchRow row, Measure once) {
    std::vector<BenchSample> samples;
    const std::int64_t runs = std::max<std::int64_t>(5, options_.runs);
    for (std::int64_t i = 0; i < runs + 1; ++i) {
      CAUSEWAY_ASSIGN(const BenchSample sample, once());
      if (i > 0) samples.push_back(sample);  // the first warms up
    }
    kernels::bench::summarise(samples, 1e-9, row);
    return row;
  }

  Status step_of(const BatchPart& part) {
    return steps_.run(make_bench_batch({&part, 1}, steps_.layout(), options_.config.vocab));
  }

  const ForwardBenchOptions& options_;
  HostSteps& steps_;
  const Clock& clock_;
  kernels::bench::MatmulPeak peak_;
};

Result<std::vector<KernelBenchRow>> run_on(const ForwardBenchOptions& options, HostSteps& steps,
                                           const Clock& clock, const BenchProgress& progress) {
  std::vector<KernelBenchRow> rows;
  ForwardBench bench(options, steps, clock);
  const auto total = static_cast<std::int64_t>(options.decode_batches.size()) + 1;
  for (const std::int64_t batch : options.decode_batches) {
    if (progress) progress("decode", static_cast<std::int64_t>(rows.size()), total);
    CAUSEWAY_ASSIGN(rows.emplace_back(), bench.decode(batch));
  }
  if (progress) progress("prefill", total - 1, total);
  CAUSEWAY_ASSIGN(rows.emplace_back(), bench.prefill());
  return rows;
}

}  // namespace

ModelConfig llama_1b_shape() {
  ModelConfig c;
  c.hidden = 2048;
  c.intermediate = 8192;
  c.layers = 16;
  c.heads = 32;
  c.kv_heads = 8;
  c.head_dim = 64;
  c.vocab = 128256;
  c.max_position = Tokens(131072);
  c.rope_theta = 500000;
  c.rope_scaling = RopeScaling{.type = RopeType::kLlama3,
                               .factor = 32,
                               .original_max_position = 8192,
                               .low_freq_factor = 1,
                               .high_freq_factor = 4};
  c.tied_embeddings = true;
  return c;
}

Result<std::vector<KernelBenchRow>> run_forward_benchmarks(const ForwardBenchOptions& options,
                                                           device::HostMemory& memory,
                                                           const Clock& clock,
                                                           const BenchProgress& progress) {
  CAUSEWAY_ASSIGN(const auto layout, bench_layout(options.config));
  CAUSEWAY_ASSIGN(const auto steps,
                  HostSteps::create(options.config, forward_limits(options, layout), memory));
  try {
    return run_on(options, *steps, clock, progress);
  } catch (const std::bad_alloc&) {
    return exhausted("no memory for the benchmark's activations");
  }
}

}  // namespace causeway::model
