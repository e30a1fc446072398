// silu(gate) × up on a GPU against the host kernel.   activation_gpu_test [--seed S]
#include "kernels/activation/activation.h"

#include <algorithm>

#include "base/testing/arguments.h"
#include "kernels/activation/activation_cuda.h"
#include "kernels/testing/gpu.cuh"

namespace causeway::kernels::activation {
namespace {

using testing::Device;
using testing::must;

int run_all(std::uint64_t seed) {
  if (!testing::has_gpu()) return testing::kSkipped;
  std::printf("seed %lu\n", seed);
  Random random(seed);
  testing::Report report;
  for (const std::int64_t size : {8, 768, 3072, 9728, 14336, 18944, 27648, 28672}) {
    const std::int64_t rows = random.between(1, 19);
    // Gates of -300 too, whose exponential is beyond f32.
    const auto gate_up = testing::random_bf16(random, rows * 2 * size, size == 9728 ? 300 : 6);
    std::vector<float> exact(static_cast<std::size_t>(rows * size));
    const Gate gate = size % 3 == 0 ? Gate::kGeluTanh : Gate::kSilu;
    run({.rows = rows,
         .size = size,
         .gate_up = gate_up.f32.data(),
         .out = exact.data(),
         .gate = gate});
    Device<BFloat16> d_gate_up(gate_up.bf16);
    for (const std::int64_t stride : {size, size + 8 * random.between(1, 40)}) {
      Device<BFloat16> out(static_cast<std::size_t>(rows * stride));
      out.zero();
      must(run(ParamsCuda{.rows = rows,
                          .size = size,
                          .gate_up = d_gate_up.get(),
                          .out = out.get(),
                          .out_stride = stride == size ? 0 : stride,
                          .gate = gate},
               nullptr));
      must(cudaDeviceSynchronize(), "silu_mul");
      std::vector<float> padded(static_cast<std::size_t>(rows * stride));
      for (std::int64_t row = 0; row < rows; ++row) {
        std::copy_n(exact.begin() + row * size, size, padded.begin() + row * stride);
      }
      report.error_at_most(
          testing::relative_error(testing::to_floats(out.fetch()), padded), 3e-3,
          std::to_string(rows) + "×" + std::to_string(size) + " of " + std::to_string(stride));
    }
  }
  report.check(!run(ParamsCuda{.rows = 2, .size = 16, .out_stride = 8}, nullptr).ok(), "overlap");
  report.check(!run(ParamsCuda{.rows = 1, .size = 4}, nullptr).ok(), "a row of 4");
  return report.finish();
}

}  // namespace
}  // namespace causeway::kernels::activation

int main(int argc, char** argv) {
  return causeway::kernels::activation::run_all(causeway::seed_of(argc, argv));
}
