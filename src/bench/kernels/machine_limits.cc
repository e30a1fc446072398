#include "bench/kernels/machine_limits.h"

#include <atomic>
#include <cmath>

#include "kernels/parallel.h"
#include "kernels/testing/random_bf16.h"

#define CAUSEWAY_SIMD_BODY "bench/kernels/read_body.inc"
#include "kernels/simd/each_variant.inc"

namespace causeway::kernels::bench {

double read_bandwidth(std::span<const std::byte> memory, const Clock& clock) {
  auto* read_all = CAUSEWAY_SELECT(best_variant(), read_all);
  const auto words = static_cast<std::int64_t>(memory.size() / sizeof(float));
  std::atomic<float> total{0};
  const Nanos start = clock.now();
  parallel_ranges(words, 1 << 20, [&](std::int64_t begin, std::int64_t end) {
    const float* first = reinterpret_cast<const float*>(memory.data()) + begin;
    total.store(read_all(first, end - begin), std::memory_order_relaxed);
  });
  const double elapsed = to_seconds(clock.now() - start);
  return static_cast<double>(memory.size()) / elapsed;
}

MatmulPeak::MatmulPeak(std::int64_t size) : size_(size) {
  const auto bytes = static_cast<std::size_t>(size * size);
  testing::fill_random_bf16(std::as_writable_bytes(std::span(w_.ensure(size * size), bytes)), 1,
                            1.0f);
  float* x = x_.ensure(size * size);
  for (std::int64_t i = 0; i < size * size; ++i) x[i] = to_float(w_.data()[i]);
  out_.ensure(size * size);
}

double MatmulPeak::measure(const Clock& clock) {
  // x holds the same numbers.
  const WeightsRef w = is_available(Variant::kAvx512Bf16)
                           ? WeightsRef{reinterpret_cast<const std::byte*>(w_.data()), DType::kBF16}
                           : WeightsRef{reinterpret_cast<const std::byte*>(x_.data()), DType::kF32};
  const Nanos start = clock.now();
  gemm_.run({.m = size_,
             .n = size_,
             .k = size_,
             .x = x_.data(),
             .x_stride = size_,
             .w = w,
             .bias = {},
             .out = out_.data(),
             .out_stride = size_});
  return 2 * std::pow(static_cast<double>(size_), 3) / to_seconds(clock.now() - start);
}

}  // namespace causeway::kernels::bench
