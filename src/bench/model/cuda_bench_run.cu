#include "bench/model/cuda_bench.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "bench/kernels/cuda_chain.h"
#include "bench/kernels/cuda_limits.h"
#include "bench/kernels/cuda_timer.h"
#include "bench/model/bench_batch.h"
#include "bench/model/cuda_steps.h"
#include "model/decode_chain.h"
#include "model/step_work.h"

namespace causeway::model {
namespace {

using kernels::bench::BenchProgress;
using kernels::bench::BenchSample;
using kernels::bench::KernelBenchRow;

constexpr int kChainTimes = 10;  // of each of its graphs, in a run
constexpr int kBulkTimes = 2;

class Bench {
 public:
  Bench(const CudaBenchOptions& options, device::Device& device, kernels::CudaStream stream)
      : options_(options),
        device_(device),
        stream_(stream),
        steps_(options.config, device, stream) {}

  Status prepare();
  Result<KernelBenchRow> decode(std::int64_t batch);
  Result<KernelBenchRow> prefill();

 private:
  Result<kernels::bench::CudaChain> chain_of(std::vector<kernels::bench::ChainLink> links);
  Result<kernels::bench::CudaChain> chain_of(const DecodeReads& reads);
  template <typename Measure>
  Result<KernelBenchRow> measure(KernelBenchRow row, Measure once);

  const CudaBenchOptions& options_;
  device::Device& device_;
  kernels::CudaStream stream_;
  CudaSteps steps_;
  device::Extents matmul_memory_;
};

BatchPart decode_of(const CudaBenchOptions& options, std::int64_t batch) {
  return {.sequences = batch, .context = options.decode_context};
}

BatchPart prompt_of(const CudaBenchOptions& options) { return {.tokens = options.prefill_tokens}; }

Status Bench::prepare() {
  CAUSEWAY_ASSIGN(const kv::BlockLayout layout, bench_layout(options_.config));
  const std::int64_t slots =
      *std::max_element(options_.decode_batches.begin(), options_.decode_batches.end());
  const BatchPart decode = decode_of(options_, slots), prompt = prompt_of(options_);
  CAUSEWAY_TRY(steps_.prepare(
      {.rows = std::max(options_.prefill_tokens, slots),
       .slots = slots,
       .frames = std::max(frames_of({&decode, 1}, layout), frames_of({&prompt, 1}, layout)),
       .graphs = options_.graphs}));
  device::Arena& arena = device_.arena();
  const auto extents = arena.extents_for(kernels::bench::cuda_matmul_bytes());
  CAUSEWAY_ASSIGN(matmul_memory_, arena.allocate(extents, device::Arena::End::kHigh));
  return {};
}

template <typename Measure>
Result<KernelBenchRow> Bench::measure(KernelBenchRow row, Measure once) {
  std::vector<BenchSample> samples;
  for (std::int64_t i = 0; i < options_.runs + 1; ++i) {
    CAUSEWAY_ASSIGN(const BenchSample sample, once());
    if (i > 0) samples.push_back(sample);  // the first warms up, and captures
  }
  kernels::bench::summarise(samples, 1e-9, row);
  return row;
}

// Over the weights' memory; what it writes goes where the limit of prompts is measured later.
Result<kernels::bench::CudaChain> Bench::chain_of(std::vector<kernels::bench::ChainLink> links) {
  return kernels::bench::CudaChain::create({.links = std::move(links),
                                            .memory = steps_.weights().data(),
                                            .memory_bytes = steps_.weights().bytes(),
                                            .scratch = matmul_memory_.data(),
                                            .vector = Bytes(2 * options_.config.hidden)},
                                           stream_);
}

Result<kernels::bench::CudaChain> Bench::chain_of(const DecodeReads& reads) {
  std::vector<kernels::bench::ChainLink> links;
  for (const ChainStage& stage : decode_chain(options_.config, reads)) {
    links.push_back({stage.bytes, stage.early});
  }
  return chain_of(std::move(links));
}

Result<KernelBenchRow> Bench::decode(std::int64_t batch) {
  const ModelConfig& c = options_.config;
  const std::int64_t context = options_.decode_context;
  const BatchPart part = decode_of(options_, batch);
  const auto step = make_bench_batch({&part, 1}, steps_.layout(), c.vocab);
  const StepShape shape = shape_of(step, {&batch, 1}, c.plain_context());
  const Bytes kv = steps_.layout().token_stride * (2 * c.layers * (context + 1) * batch);
  KernelBenchRow row{
      .name = "decode",
      .shape = "batch " + std::to_string(batch) + ", context " + std::to_string(context),
      .unit = "GB/s",
      .limit_name = "hbm_read",
      .further = {{"chain_read"}, {"bulk_read"}},
      .ratio_wanted = c.moe        ? 1 / 1.5
                      : batch == 1 ? 1 / 1.20
                                   : 1 / 1.15};
  double experts = 0;  // of a step, as the device counted them
  std::optional<kernels::bench::CudaChain> chain;
  double chained = 0;  // the experts that `chain` reads
  CAUSEWAY_ASSIGN(auto bulk, chain_of({{steps_.weights().bytes()}}));
  CAUSEWAY_ASSIGN(
      row, measure(std::move(row), [&]() -> Result<BenchSample> {
        CAUSEWAY_ASSIGN(const double limit,
                        kernels::bench::cuda_read_bandwidth(steps_.weights().data(),
                                                            steps_.weights().bytes(), 3, stream_));
        const auto enqueue = [&]() -> Status {
          for (std::int64_t i = 0; i < options_.decode_steps; ++i) {
            CAUSEWAY_TRY(steps_.enqueue(step, shape));
          }
          return {};
        };
        CAUSEWAY_TRY(steps_.take_experts_read());
        CAUSEWAY_ASSIGN(const Nanos took, kernels::bench::time_on_gpu(enqueue, stream_));
        CAUSEWAY_ASSIGN(experts, steps_.take_experts_read());
        experts /= static_cast<double>(options_.decode_steps);
        const Bytes bytes = decode_weight_bytes_of(c, DType::kBF16, experts) + kv;
        const auto read = static_cast<double>(bytes.count * options_.decode_steps);
        if (!chain || chained != experts) {
          chained = experts;
          CAUSEWAY_ASSIGN(chain, chain_of({.storage = DType::kBF16, .experts = experts, .kv = kv}));
        }
        CAUSEWAY_ASSIGN(const Nanos linked, chain->time(kChainTimes, stream_));
        CAUSEWAY_ASSIGN(const Nanos whole, bulk.time(kBulkTimes, stream_));
        return BenchSample{
            read / to_seconds(took),
            limit,
            {static_cast<double>(bytes.count) / to_seconds(linked),
             static_cast<double>(steps_.weights().bytes().count) / to_seconds(whole)}};
      }));
  if (c.moe) {
    const auto tenths = std::llround(10 * experts / static_cast<double>(sparse_layers(c)));
    row.shape +=
        ", " + std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " experts a layer";
  }
  return row;
}

Result<KernelBenchRow> Bench::prefill() {
  const ModelConfig& c = options_.config;
  const BatchPart part = prompt_of(options_);
  const auto prompt = make_bench_batch({&part, 1}, steps_.layout(), c.vocab);
  const StepShape shape = shape_of(prompt, {}, c.plain_context());
  KernelBenchRow row{.name = "prefill",
                     .shape = std::to_string(options_.prefill_tokens) + " tokens",
                     .unit = "GFLOP/s",
                     .limit_name = "cublas_bf16",
                     .ratio_wanted = 1 / 1.45};
  return measure(std::move(row), [&]() -> Result<BenchSample> {
    CAUSEWAY_ASSIGN(const double limit,
                    kernels::bench::cuda_matmul_peak(matmul_memory_.data(), stream_));
    const auto enqueue = [&] { return steps_.enqueue(prompt, shape); };
    CAUSEWAY_ASSIGN(const Nanos took, kernels::bench::time_on_gpu(enqueue, stream_));
    return BenchSample{prefill_operations(c, options_.prefill_tokens) / to_seconds(took), limit};
  });
}

}  // namespace

Result<std::vector<KernelBenchRow>> run_cuda_benchmarks(const CudaBenchOptions& options,
                                                        device::Device& device,
                                                        kernels::CudaStream stream,
                                                        const BenchProgress& progress) {
  if (options.decode_batches.empty()) return invalid_argument("no batch sizes to measure");
  std::vector<KernelBenchRow> rows;
  Bench bench(options, device, stream);
  CAUSEWAY_TRY(bench.prepare());
  const std::int64_t total = std::ssize(options.decode_batches) + 1;
  for (const std::int64_t batch : options.decode_batches) {
    if (progress) progress("decode, batch " + std::to_string(batch), std::ssize(rows), total);
    CAUSEWAY_ASSIGN(rows.emplace_back(), bench.decode(batch));
  }
  if (progress) progress("prefill", std::ssize(rows), total);
  CAUSEWAY_ASSIGN(rows.emplace_back(), bench.prefill());
  return rows;
}

}  // namespace causeway::model
