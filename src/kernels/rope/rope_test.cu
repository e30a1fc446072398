// The table of sines and cosines on a GPU against the host's: equal to a rounding of f32.
//   rope_gpu_test [--seed S]
#include "base/testing/arguments.h"
#include "kernels/rope/rope.h"
#include "kernels/rope/rope_cuda.h"
#include "kernels/testing/gpu.cuh"

namespace causeway::kernels::rope {
namespace {

using testing::Device;
using testing::must;

// Heads of `size` elements, of which RoPE rotates the first `rotated`.
void run_case(Random& random, std::int64_t size, std::int64_t rotated, testing::Report& report) {
  const std::vector<double> f = frequencies(rotated, 500000);
  const double amplitude = rotated == size ? 1 : 1.19;
  std::vector<std::int32_t> position;
  std::vector<std::int64_t> wide;
  for (int i = 0; i < 37; ++i) {
    position.push_back(static_cast<std::int32_t>(random.below(i < 3 ? 4 : 131072)));
    wide.push_back(position.back());
  }
  position[5] = -1;
  std::vector<float> exact(wide.size() * static_cast<std::size_t>(size));
  fill_table(TableParams{.frequencies = f, .size = size, .amplitude = amplitude}, wide,
             exact.data());
  Device<double> d_f(f);
  Device<std::int32_t> d_position(position);
  Device<float> out(exact.size());
  must(fill_table(TableCuda{.tokens = 37,
                            .size = size,
                            .frequencies = d_f.get(),
                            .pairs = rotated / 2,
                            .amplitude = amplitude,
                            .position = d_position.get(),
                            .out = out.get()},
                  nullptr));
  must(cudaDeviceSynchronize(), "rope table");
  const auto got = out.fetch();
  double worst = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const bool empty = i / static_cast<std::size_t>(size) == 5;
    if (empty != std::isnan(got[i])) worst = INFINITY;
    if (!empty) worst = std::max(worst, std::abs(double{got[i]} - exact[i]));
  }
  report.error_at_most(worst, 1.2e-7,
                       "size " + std::to_string(size) + ", rotated " + std::to_string(rotated));
}

int run_all(std::uint64_t seed) {
  if (!testing::has_gpu()) return testing::kSkipped;
  std::printf("seed %lu\n", seed);
  Random random(seed);
  testing::Report report;
  for (const std::int64_t size : {2, 8, 64, 80, 128, 256}) {
    run_case(random, size, size, report);
    if (size >= 8) run_case(random, size, size / 8 * 6, report);
  }
  return report.finish();
}

}  // namespace
}  // namespace causeway::kernels::rope

int main(int argc, char** argv) {
  return causeway::kernels::rope::run_all(causeway::seed_of(argc, argv));
}
