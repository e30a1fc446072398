#include "bench/model/forward_bench.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "bench/kernels/machine_limits.h"
#include "kernels/testing/random_bf16.h"
#include "model/forward.h"
#include "model/step_work.h"

namespace causeway::model {
namespace {

using kernels::bench::BenchProgress;
using kernels::bench::BenchSample;
using kernels::bench::KernelBenchRow;

std::int64_t sequences_max(const ForwardBenchOptions& options) {
  std::int64_t most = 1;
  for (const std::int64_t batch : options.decode_batches) most = std::max(most, batch);
  return most;
}

std::int64_t frames_of(std::int64_t tokens, const kv::BlockLayout& layout) {
  return (tokens + layout.tokens.count - 1) / layout.tokens.count;
}

class ForwardBench {
 public:
  ForwardBench(const ForwardBenchOptions& options, const weights::WeightLayout& placed,
               std::span<std::byte> weights, std::span<std::byte> kv, const kv::BlockLayout& layout,
               const Clock& clock)
      : options_(options),
        weights_(weights),
        clock_(clock),
        kv_{.base = kv.data(), .layout = layout, .dtype = DType::kBF16},
        forward_(options.config, weights::PlacedWeights{&placed, weights.data()}),
        logits_(static_cast<std::size_t>(options.config.vocab * sequences_max(options))) {
    kernels::testing::fill_random_bf16(weights, 3, 0.01f);
    kernels::testing::fill_random_bf16(kv, 5, 0.5f);
  }

  Result<KernelBenchRow> decode(std::int64_t batch) {
    const ModelConfig& c = options_.config;
    const Bytes kv_token = kv_.layout.token_stride * (2 * c.layers);
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
      const double limit = kernels::bench::read_bandwidth(weights_, clock_);
      const Nanos start = clock_.now();
      for (std::int64_t i = 0; i < options_.decode_steps; ++i) {
        CAUSEWAY_TRY(step_of(batch, options_.decode_context, 1));
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
      CAUSEWAY_TRY(step_of(1, 0, options_.prefill_tokens));
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

  // A step of `sequences`, each with `tokens` behind `context`, in frames of its own.
  Status step_of(std::int64_t sequences, std::int64_t context, std::int64_t tokens) {
    const std::int64_t frames = frames_of(context + tokens, kv_.layout);
    request::Batch batch;
    batch.tokens.resize(static_cast<std::size_t>(sequences * tokens));
    for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
      batch.tokens[i] =
          static_cast<TokenId>(i * 97 % static_cast<std::size_t>(options_.config.vocab));
    }
    for (std::int64_t i = 0; i < sequences * frames; ++i) batch.frames.emplace_back(i);
    for (std::int64_t s = 0; s < sequences; ++s) {
      request::BatchEntry entry;
      entry.token_begin = static_cast<std::int32_t>(s * tokens);
      entry.token_count = static_cast<std::int32_t>(tokens);
      entry.frame_begin = static_cast<std::int32_t>(s * frames);
      entry.frame_count = static_cast<std::int32_t>(frames);
      entry.context = static_cast<std::int32_t>(context);
      entry.samples = true;
      batch.entries.push_back(std::move(entry));
    }
    return forward_.run(
        batch, kv_,
        std::span(logits_).first(static_cast<std::size_t>(sequences * options_.config.vocab)));
  }

  const ForwardBenchOptions& options_;
  std::span<std::byte> weights_;
  const Clock& clock_;
  KvMemory kv_;
  HostForward forward_;
  std::vector<float> logits_;
  kernels::bench::MatmulPeak peak_;
};

Result<std::vector<KernelBenchRow>> run_in(const ForwardBenchOptions& options,
                                           const weights::WeightLayout& placed,
                                           std::span<std::byte> weights, std::span<std::byte> kv,
                                           const kv::BlockLayout& layout, const Clock& clock,
                                           const BenchProgress& progress) {
  std::vector<KernelBenchRow> rows;
  ForwardBench bench(options, placed, weights, kv, layout, clock);
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
  const ModelConfig& c = options.config;
  CAUSEWAY_ASSIGN(const auto placed, weights::lay_out(plan_weights(c, host_dtype(c.dtype))));
  const Bytes weight_bytes = round_up(placed.bytes, weights::kGroupAlignment);
  CAUSEWAY_ASSIGN(const auto layout, kv::plan_block(kv_shape(c, DType::kBF16), mib(4)));
  const std::int64_t frames =
      std::max(sequences_max(options) * frames_of(options.decode_context + 1, layout),
               frames_of(options.prefill_tokens, layout));
  const Bytes kv_bytes = layout.frame * frames;
  CAUSEWAY_ASSIGN(const RegionId region,
                  memory.allocate({.name = "forward-bench", .bytes = weight_bytes + kv_bytes}));
  const auto all = memory.resolve({.region = region, .offset = Bytes(0)}, weight_bytes + kv_bytes);
  Result<std::vector<KernelBenchRow>> rows = exhausted("no memory for the benchmark's activations");
  try {
    rows = run_in(options, placed, all.first(to_size(weight_bytes)),
                  all.subspan(to_size(weight_bytes)), layout, clock, progress);
  } catch (const std::bad_alloc&) {
  }
  CAUSEWAY_TRY(memory.release(region));
  return rows;
}

}  // namespace causeway::model
