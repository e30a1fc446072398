// Soft caps on a GPU against the host kernel.   soft_cap_gpu_test [--seed S]
#include "base/testing/arguments.h"
#include "kernels/soft_cap/soft_cap.h"
#include "kernels/soft_cap/soft_cap_cuda.h"
#include "kernels/testing/gpu.cuh"

namespace causeway::kernels::soft_cap {
namespace {

using testing::Device;
using testing::must;

int run_all(std::uint64_t seed) {
  if (!testing::has_gpu()) return testing::kSkipped;
  std::printf("seed %lu\n", seed);
  Random random(seed);
  testing::Report report;
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{1023}, std::int64_t{2'000'003}}) {
    std::vector<float> x(static_cast<std::size_t>(count));
    for (float& value : x) value = static_cast<float>(40 * random.normal());
    x[0] = 1e30f;
    Device<float> on_device(x);
    run({.x = x.data(), .count = count, .cap = 30});
    must(run(ParamsCuda{.x = on_device.get(), .count = count, .cap = 30}, nullptr));
    must(cudaDeviceSynchronize(), "soft cap");
    report.error_at_most(testing::relative_error(on_device.fetch(), x), 1e-6,
                         std::to_string(count) + " logits");
  }
  report.check(!run(ParamsCuda{.count = 1}, nullptr).ok(), "no cap");
  return report.finish();
}

}  // namespace
}  // namespace causeway::kernels::soft_cap

int main(int argc, char** argv) {
  return causeway::kernels::soft_cap::run_all(causeway::seed_of(argc, argv));
}
