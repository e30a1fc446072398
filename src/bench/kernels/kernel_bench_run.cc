#include "bench/kernels/kernel_bench.h"

#include <algorithm>
#include <array>
#include <new>

#include "base/quantile.h"
#include "bench/kernels/machine_limits.h"
#include "kernels/attention/attention.h"
#include "kernels/parallel.h"
#include "kernels/testing/random_bf16.h"

namespace causeway::kernels::bench {
namespace {

constexpr double kGiga = 1e-9;

// Products of a 1B-parameter Llama: [n, k] of each of its weights.
struct WeightShape {
  const char* name;
  std::int64_t n;
  std::int64_t k;
};
constexpr std::array<WeightShape, 5> kWeights{{{"qkv", 3072, 2048},
                                               {"o", 2048, 2048},
                                               {"gate_up", 16384, 2048},
                                               {"down", 2048, 8192},
                                               {"lm_head", 128256, 2048}}};
constexpr std::array<std::int64_t, 3> kDecodeRows{1, 4, 15};
constexpr std::int64_t kPrefillRows = 512;

// Everything that the rows share: one large buffer of random bf16, read as weights and as KV.
class KernelBench {
 public:
  KernelBench(const KernelBenchOptions& options, std::span<std::byte> buffer, const Clock& clock)
      : options_(options), buffer_(buffer), clock_(clock) {}

  std::vector<KernelBenchRow> run(const BenchProgress& progress) {
    testing::fill_random_bf16(buffer_, 7, 0.02f);
    total_ = 2 + std::ssize(kWeights) * (std::ssize(kDecodeRows) + 1) - 1 + 4;
    announce_ = &progress;
    limits();
    for (const WeightShape& shape : kWeights) {
      for (const std::int64_t m : kDecodeRows) few_rows(shape, m);
      many_rows(shape);
    }
    attention_decode(1, 8192);
    attention_decode(8, 4096);
    attention_decode(32, 512);
    attention_prefill(512);
    return std::move(rows_);
  }

 private:
  template <typename Measure>
  void add(KernelBenchRow row, int warm_up, Measure measure) {
    if (*announce_) (*announce_)(row.name + " " + row.shape, std::ssize(rows_), total_);
    for (int i = 0; i < warm_up; ++i) measure();
    std::vector<BenchSample> samples;
    for (std::int64_t i = 0; i < std::max<std::int64_t>(5, options_.runs); ++i) {
      samples.push_back(measure());
    }
    summarise(samples, kGiga, row);
    rows_.push_back(std::move(row));
  }

  // A quarter of the buffer, another one each time: no cache keeps it until its turn comes again.
  double bandwidth() {
    const std::size_t quarter = buffer_.size() / 4;
    quarter_ = (quarter_ + 1) % 4;
    return read_bandwidth(buffer_.subspan(quarter_ * quarter, quarter), clock_);
  }

  void limits() {
    add({.name = "memory_read", .shape = "all threads", .unit = "GB/s", .limit_name = "itself"}, 1,
        [&] {
          const double rate = bandwidth();
          return BenchSample{rate, rate};
        });
    add({.name = "matmul",
         .shape = "3072 x 3072 x 3072",
         .unit = "GFLOP/s",
         .limit_name = "itself"},
        1, [&] {
          const double rate = peak_.measure(clock_);
          return BenchSample{rate, rate};
        });
  }

  // The next place in the buffer with `bytes` of weights.
  WeightsRef next_weights(std::int64_t bytes) {
    if (cursor_ + bytes > std::ssize(buffer_)) cursor_ = 0;
    const WeightsRef w{buffer_.data() + cursor_, DType::kBF16};
    cursor_ += bytes;
    return w;
  }

  void product(const WeightShape& shape, std::int64_t m) {
    gemm_.run({.m = m,
               .n = shape.n,
               .k = shape.k,
               .x = x_.data(),
               .x_stride = shape.k,
               .w = next_weights(shape.n * shape.k * 2),
               .bias = {},
               .out = out_.data(),
               .out_stride = shape.n});
  }

  std::string shape_text(const WeightShape& shape, std::int64_t m) {
    return std::string(shape.name) + " " + std::to_string(m) + " x " + std::to_string(shape.n) +
           " x " + std::to_string(shape.k);
  }

  void prepare(const WeightShape& shape, std::int64_t m) {
    std::fill_n(x_.ensure(m * shape.k), m * shape.k, 0.5f);
    out_.ensure(m * shape.n);
  }

  void few_rows(const WeightShape& shape, std::int64_t m) {
    prepare(shape, m);
    const std::int64_t bytes = shape.n * shape.k * 2;
    const std::int64_t times = std::max<std::int64_t>(1, (std::int64_t{256} << 20) / bytes);
    add({.name = "gemm_few_rows",
         .shape = shape_text(shape, m),
         .unit = "GB/s",
         .limit_name = "memory_read"},
        1, [&] {
          const double limit = bandwidth();
          const Nanos start = clock_.now();
          for (std::int64_t i = 0; i < times; ++i) product(shape, m);
          const double elapsed = to_seconds(clock_.now() - start);
          return BenchSample{static_cast<double>(times * bytes) / elapsed, limit};
        });
  }

  void many_rows(const WeightShape& shape) {
    if (shape.n > 65536) return;  // a prompt's logits are wanted for its last token only
    prepare(shape, kPrefillRows);
    add({.name = "gemm_many_rows",
         .shape = shape_text(shape, kPrefillRows),
         .unit = "GFLOP/s",
         .limit_name = "matmul"},
        1, [&] {
          const double limit = peak_.measure(clock_);
          const Nanos start = clock_.now();
          product(shape, kPrefillRows);
          const double elapsed = to_seconds(clock_.now() - start);
          const double work = 2.0 * static_cast<double>(kPrefillRows * shape.n * shape.k);
          return BenchSample{work / elapsed, limit};
        });
  }

  // Sequences of one layer of a 1B Llama over frames that fill the buffer.
  struct Paged {
    attention::Heads heads{32, 8, 64};
    std::int64_t block_tokens = 64;
    Bytes token{8 * 64 * 2};
    attention::PagedKv kv;
    std::vector<FrameId> frames;
    std::vector<attention::Sequence> sequences;
  };

  Paged paged(std::int64_t sequences, std::int64_t context, std::int64_t queries) {
    Paged p;
    const Bytes frame = p.token * (2 * p.block_tokens);
    p.kv = {.base = buffer_.data(),
            .frame_bytes = frame,
            .key_offset = Bytes(0),
            .value_offset = p.token * p.block_tokens,
            .token_stride = p.token,
            .block_tokens = p.block_tokens,
            .dtype = DType::kBF16};
    for (std::int64_t f = 0; f < std::ssize(buffer_) / frame.count; ++f) p.frames.emplace_back(f);
    const std::int64_t blocks = (context + queries + p.block_tokens - 1) / p.block_tokens;
    for (std::int64_t i = 0; i < sequences; ++i) {
      p.sequences.push_back(
          {.frames = std::span(p.frames).subspan(static_cast<std::size_t>(i * blocks),
                                                 static_cast<std::size_t>(blocks)),
           .query_begin = i * queries,
           .query_count = queries,
           .context = context});
    }
    return p;
  }

  void attend(const Paged& p, std::int64_t tokens) {
    const std::int64_t row = p.heads.query * p.heads.size;
    if (x_.capacity() < tokens * row) std::fill_n(x_.ensure(tokens * row), tokens * row, 0.5f);
    attention_.run({.kv = p.kv,
                    .heads = p.heads,
                    .sequences = p.sequences,
                    .scale = 0.125f,
                    .q = x_.data(),
                    .q_stride = row,
                    .out = out_.ensure(tokens * row),
                    .out_stride = row});
  }

  void attention_decode(std::int64_t sequences, std::int64_t context) {
    Paged p = paged(sequences, context - 1, 1);
    const std::int64_t bytes = sequences * context * 2 * p.token.count;
    const std::int64_t times = std::max<std::int64_t>(1, (std::int64_t{128} << 20) / bytes);
    add({.name = "attention_decode",
         .shape = std::to_string(sequences) + " x context " + std::to_string(context) +
                  ", 32/8 heads of 64",
         .unit = "GB/s",
         .limit_name = "memory_read"},
        1, [&] {
          const double limit = bandwidth();
          const Nanos start = clock_.now();
          for (std::int64_t i = 0; i < times; ++i) {
            // Other frames each time, so that they come from memory.
            if (cursor_ + bytes > std::ssize(buffer_)) cursor_ = 0;
            p.kv.base = buffer_.data() + cursor_;
            cursor_ += bytes;
            attend(p, sequences);
          }
          const double elapsed = to_seconds(clock_.now() - start);
          return BenchSample{static_cast<double>(times * bytes) / elapsed, limit};
        });
  }

  void attention_prefill(std::int64_t tokens) {
    Paged p = paged(1, 0, tokens);
    p.kv.base = buffer_.data();
    // Causal: half of the square, two products of two operations a score and element.
    const double work = 2.0 * static_cast<double>(tokens * (tokens + 1)) *
                        static_cast<double>(p.heads.query * p.heads.size);
    add({.name = "attention_prefill",
         .shape = std::to_string(tokens) + " tokens, 32/8 heads of 64",
         .unit = "GFLOP/s",
         .limit_name = "matmul"},
        1, [&] {
          const double limit = peak_.measure(clock_);
          const Nanos start = clock_.now();
          attend(p, tokens);
          return BenchSample{work / to_seconds(clock_.now() - start), limit};
        });
  }

  const KernelBenchOptions& options_;
  std::span<std::byte> buffer_;
  const Clock& clock_;
  const BenchProgress* announce_ = nullptr;
  std::int64_t total_ = 0;
  std::vector<KernelBenchRow> rows_;
  std::size_t quarter_ = 0;
  std::int64_t cursor_ = 0;
  MatmulPeak peak_;
  gemm::Gemm gemm_;
  attention::Attention attention_;
  Buffer<float> x_;
  Buffer<float> out_;
};

}  // namespace

void summarise(const std::vector<BenchSample>& samples, double scale, KernelBenchRow& row) {
  std::vector<double> measured, limits, ratios;
  for (const BenchSample& sample : samples) {
    measured.push_back(sample.measured * scale);
    limits.push_back(sample.limit * scale);
    ratios.push_back(sample.measured / sample.limit);
  }
  row.measured = median(measured);
  row.limit = median(limits);
  row.ratio = median(ratios);
  for (std::size_t i = 0; i < row.further.size(); ++i) {
    std::vector<double> values;
    for (const BenchSample& sample : samples) values.push_back(sample.further.at(i) * scale);
    row.further[i].value = median(values);
  }
  const auto [low, high] = std::minmax_element(measured.begin(), measured.end());
  row.spread = (*high - *low) / row.measured;
  row.runs = std::ssize(samples);
}

Result<std::vector<KernelBenchRow>> run_kernel_benchmarks(const KernelBenchOptions& options,
                                                          device::HostMemory& memory,
                                                          const Clock& clock,
                                                          const BenchProgress& progress) {
  constexpr Bytes kLargest = mib(512);  // what one product reads
  const Bytes bytes = std::max(options.read_bytes, kLargest * 2);
  CAUSEWAY_ASSIGN(const RegionId region, memory.allocate({.name = "kernel-bench", .bytes = bytes}));
  const auto buffer = memory.resolve({.region = region, .offset = Bytes(0)}, bytes);
  Result<std::vector<KernelBenchRow>> rows = exhausted("no memory for the benchmark's activations");
  try {
    rows = KernelBench(options, buffer, clock).run(progress);
  } catch (const std::bad_alloc&) {
  }
  CAUSEWAY_TRY(memory.release(region));
  return rows;
}

}  // namespace causeway::kernels::bench
