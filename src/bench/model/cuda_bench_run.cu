#include "bench/model/cuda_bench.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "bench/kernels/cuda_chain.h"
#include "bench/kernels/cuda_limits.h"
#include "bench/kernels/cuda_timer.h"
#include "kernels/cuda_status.cuh"
#include "model/cuda_array.h"
#include "model/cuda_forward.h"
#include "model/decode_chain.h"
#include "model/step_work.h"

namespace causeway::model {
namespace {

using kernels::cuda_status;
using kernels::bench::BenchProgress;
using kernels::bench::BenchSample;
using kernels::bench::KernelBenchRow;

constexpr Bytes kFrame = mib(4);
constexpr int kChainTimes = 10;  // of each of its graphs, in a run
constexpr int kBulkTimes = 2;

struct FreeHost {
  void operator()(std::int32_t* memory) const { cudaFreeHost(memory); }
};

Result<device::Extents> take(device::Device& device, Bytes bytes, device::Arena::End end) {
  return device.arena().allocate(device.arena().extents_for(bytes), end);
}

// `batch` sequences of `context` tokens before this step and `tokens` in it, frames in a row.
request::Batch make_batch(std::int64_t batch, std::int64_t context, std::int64_t tokens,
                          std::int64_t block, std::int64_t vocab) {
  request::Batch made;
  for (std::int64_t i = 0; i < batch; ++i) {
    request::BatchEntry entry;
    entry.token_begin = static_cast<std::int32_t>(made.tokens.size());
    entry.token_count = static_cast<std::int32_t>(tokens);
    entry.frame_begin = static_cast<std::int32_t>(made.frames.size());
    entry.frame_count = static_cast<std::int32_t>((context + tokens + block - 1) / block);
    entry.context = static_cast<std::int32_t>(context);
    entry.samples = true;
    for (std::int64_t t = 0; t < tokens; ++t) {
      made.tokens.push_back(static_cast<TokenId>((i * 31 + t * 97) % vocab));
    }
    for (std::int32_t f = 0; f < entry.frame_count; ++f) {
      made.frames.emplace_back(std::ssize(made.frames));
    }
    made.entries.push_back(std::move(entry));
  }
  return made;
}

class Bench {
 public:
  Bench(const CudaBenchOptions& options, device::Device& device, kernels::CudaStream stream)
      : options_(options), device_(device), stream_(stream) {}

  Status prepare();
  Result<KernelBenchRow> decode(std::int64_t batch);
  Result<double> take_experts_read();
  Result<KernelBenchRow> prefill();

 private:
  Result<kernels::bench::CudaChain> chain_of(std::vector<kernels::bench::ChainLink> links);
  Result<kernels::bench::CudaChain> chain_of(const DecodeReads& reads);
  Status step(const request::Batch& batch, const StepShape& shape);
  template <typename Measure>
  Result<KernelBenchRow> measure(KernelBenchRow row, Measure once);

  const CudaBenchOptions& options_;
  device::Device& device_;
  kernels::CudaStream stream_;
  kv::BlockLayout layout_;
  device::Extents weights_memory_;
  device::Extents kv_memory_;
  device::Extents matmul_memory_;
  std::unique_ptr<CudaWorkspace> workspace_;
  device::Piece experts_read_;  // std::uint64_t
  std::unique_ptr<CudaForward> forward_;
  std::unique_ptr<std::int32_t, FreeHost> tables_;
  std::size_t table_elements_ = 0;
};

Status Bench::prepare() {
  const ModelConfig& c = options_.config;
  CAUSEWAY_ASSIGN(const auto placed, weights::lay_out(plan_weights(c, DType::kBF16)));
  CAUSEWAY_ASSIGN(layout_, kv::plan_block(kv_shape(c, DType::kBF16), kFrame));
  const std::int64_t block = layout_.tokens.count;
  const std::int64_t slots =
      *std::max_element(options_.decode_batches.begin(), options_.decode_batches.end());
  const std::int64_t frames =
      std::max(slots * (options_.decode_context / block + 1), options_.prefill_tokens / block + 1);
  CAUSEWAY_ASSIGN(weights_memory_, take(device_, placed.bytes, device::Arena::End::kHigh));
  CAUSEWAY_ASSIGN(kv_memory_, take(device_, kFrame * frames, device::Arena::End::kLow));
  CAUSEWAY_ASSIGN(matmul_memory_,
                  take(device_, kernels::bench::cuda_matmul_bytes(), device::Arena::End::kHigh));
  CAUSEWAY_TRY(kernels::bench::cuda_fill_random_bf16(weights_memory_.data(),
                                                     weights_memory_.bytes(), 3, 0.03f, stream_));
  CAUSEWAY_TRY(kernels::bench::cuda_fill_random_bf16(kv_memory_.data(), kv_memory_.bytes(), 5, 0.5f,
                                                     stream_));
  const CudaStepLimits limits{
      .rows = std::max(options_.prefill_tokens, slots), .slots = slots, .frames = frames};
  CAUSEWAY_ASSIGN(workspace_, CudaWorkspace::create(device_, c, limits,
                                                    device_.capabilities().processors, stream_));
  constexpr std::uint64_t kNone = 0;
  CAUSEWAY_ASSIGN(experts_read_, workspace_->constant(std::as_bytes(std::span(&kNone, 1))));
  auto* experts_read = c.moe ? reinterpret_cast<std::uint64_t*>(experts_read_.data()) : nullptr;
  CAUSEWAY_ASSIGN(forward_,
                  CudaForward::create(c, {.cached = {&placed, weights_memory_.data()}}, *workspace_,
                                      {.graphs = options_.graphs, .experts_read = experts_read}));
  table_elements_ =
      static_cast<std::size_t>(table_elements_max(limits.rows, limits.slots, limits.frames));
  void* pinned = nullptr;
  CAUSEWAY_TRY(
      cuda_status(cudaMallocHost(&pinned, 4 * table_elements_), "pinned memory for tables"));
  tables_.reset(static_cast<std::int32_t*>(pinned));
  return {};
}

// As an executor does it: tables written by the host, copied, and the step enqueued behind them.
Status Bench::step(const request::Batch& batch, const StepShape& shape) {
  const std::int64_t used = write_tables(batch, shape, {tables_.get(), table_elements_});
  CAUSEWAY_TRY(cuda_status(
      cudaMemcpyAsync(workspace_->tables(), tables_.get(), static_cast<std::size_t>(4 * used),
                      cudaMemcpyHostToDevice, stream_),
      "copying a step's tables"));
  const KvMemory kv{.base = kv_memory_.data(), .layout = layout_, .dtype = DType::kBF16};
  return forward_->run(shape, kv, stream_);
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

// How many experts all sparse layers of the steps since the last call chose; the stream is idle.
Result<double> Bench::take_experts_read() {
  std::uint64_t read = 0;
  CAUSEWAY_TRY(cuda_status(
      cudaMemcpyAsync(&read, experts_read_.data(), sizeof(read), cudaMemcpyDeviceToHost, stream_),
      "experts read"));
  CAUSEWAY_TRY(
      cuda_status(cudaMemsetAsync(experts_read_.data(), 0, sizeof(read), stream_), "experts read"));
  CAUSEWAY_TRY(cuda_status(cudaStreamSynchronize(stream_), "experts read"));
  return static_cast<double>(read);
}

// Over the weights' memory; what it writes goes where the limit of prompts is measured later.
Result<kernels::bench::CudaChain> Bench::chain_of(std::vector<kernels::bench::ChainLink> links) {
  return kernels::bench::CudaChain::create({.links = std::move(links),
                                            .memory = weights_memory_.data(),
                                            .memory_bytes = weights_memory_.bytes(),
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
  const auto steps = make_batch(batch, context, 1, layout_.tokens.count, c.vocab);
  const StepShape shape = shape_of(steps, {&batch, 1}, c.plain_context());
  const Bytes kv = layout_.token_stride * (2 * c.layers * (context + 1) * batch);
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
  CAUSEWAY_ASSIGN(auto bulk, chain_of({{weights_memory_.bytes()}}));
  CAUSEWAY_ASSIGN(
      row, measure(std::move(row), [&]() -> Result<BenchSample> {
        CAUSEWAY_ASSIGN(const double limit,
                        kernels::bench::cuda_read_bandwidth(weights_memory_.data(),
                                                            weights_memory_.bytes(), 3, stream_));
        const auto enqueue = [&]() -> Status {
          for (std::int64_t i = 0; i < options_.decode_steps; ++i) CAUSEWAY_TRY(step(steps, shape));
          return {};
        };
        CAUSEWAY_TRY(take_experts_read());
        CAUSEWAY_ASSIGN(const Nanos took, kernels::bench::time_on_gpu(enqueue, stream_));
        CAUSEWAY_ASSIGN(experts, take_experts_read());
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
             static_cast<double>(weights_memory_.bytes().count) / to_seconds(whole)}};
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
  const auto prompt = make_batch(1, 0, options_.prefill_tokens, layout_.tokens.count, c.vocab);
  const StepShape shape = shape_of(prompt, {}, c.plain_context());
  KernelBenchRow row{.name = "prefill",
                     .shape = std::to_string(options_.prefill_tokens) + " tokens",
                     .unit = "GFLOP/s",
                     .limit_name = "cublas_bf16",
                     .ratio_wanted = 1 / 1.45};
  return measure(std::move(row), [&]() -> Result<BenchSample> {
    CAUSEWAY_ASSIGN(const double limit,
                    kernels::bench::cuda_matmul_peak(matmul_memory_.data(), stream_));
    CAUSEWAY_ASSIGN(const Nanos took,
                    kernels::bench::time_on_gpu([&] { return step(prompt, shape); }, stream_));
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
