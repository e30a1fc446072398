// Qwen3-30B-A3B's experts beside their limit, same run: reading the weights of the experts that
// were chosen once, at the rate of a plain read of the HBM. Six layers in turn, with their own
// weights and routing, so that the L2 holds none.
#include "kernels/moe/moe.h"
#include "kernels/moe/moe_cuda.h"
#include "kernels/testing/gpu.cuh"

namespace causeway::kernels::moe {
namespace {

using testing::Device;
using testing::must;

int bench() {
  if (!testing::has_gpu()) return testing::kSkipped;
  cudaStream_t stream;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  constexpr ShapeCuda s{2048, 768, 128, 8};
  constexpr std::int64_t kLayers = 6, kMatrix = s.hidden * s.intermediate;
  Device<BFloat16> weights(static_cast<std::size_t>(kLayers * s.experts * 3 * kMatrix));
  testing::fill(weights, 1);
  const double hbm = testing::hbm_read_gb_per_s(stream, weights.get(), std::int64_t{6} << 30);
  std::vector<const void*> table;
  for (std::int64_t i = 0; i < kLayers * s.experts * 3; ++i) {
    table.push_back(weights.get() + i * kMatrix);
  }
  Device<const void*> tables(table);
  Random random(3);
  std::printf(
      "HBM read %.0f GB/s; Qwen3-30B-A3B, a layer\n\ntokens  experts  us/layer  floor us  "
      "x floor  TFLOP/s\n",
      hbm);
  for (const std::int64_t tokens : {1, 8, 32, 128, 1024, 8192}) {
    std::vector<float> scores(static_cast<std::size_t>(kLayers * tokens * s.experts));
    for (float& score : scores) score = static_cast<float>(random.normal());
    std::int64_t chosen_experts = 0;
    for (std::int64_t layer = 0; layer < kLayers; ++layer) {
      std::vector<bool> used(s.experts);
      for (std::int64_t t = 0; t < tokens; ++t) {
        std::int32_t chosen[8];
        float weight[8];
        route({scores.data() + (layer * tokens + t) * s.experts, s.experts, 8, true}, chosen,
              weight);
        for (const std::int32_t e : chosen) used[static_cast<std::size_t>(e)] = true;
      }
      chosen_experts += std::count(used.begin(), used.end(), true);
    }
    Device<float> d_scores(scores);
    Device<BFloat16> x(static_cast<std::size_t>(tokens * s.hidden)), out(x.size());
    testing::fill(x, 2);
    Device<char> workspace(to_size(workspace_bytes(s, tokens)));
    const double us = testing::graph_us(stream, [&](cudaStream_t capture) {
      for (std::int64_t layer = 0; layer < kLayers; ++layer) {
        const void* const* first = tables.get() + layer * 3 * s.experts;
        must(run(ParamsCuda{.shape = s,
                            .tokens = tokens,
                            .x = x.get(),
                            .scores = d_scores.get() + layer * tokens * s.experts,
                            .gate = first,
                            .up = first + s.experts,
                            .down = first + 2 * s.experts,
                            .out = out.get(),
                            .workspace = workspace.get()},
                 capture));
      }
    });
    const double floor = static_cast<double>(chosen_experts * 3 * kMatrix * 2) / hbm * 1e-3;
    const double flop = static_cast<double>(kLayers * tokens * 8 * 3 * kMatrix) * 2;
    std::printf("%6ld %8.1f %9.1f %9.1f %8.2f %8.0f\n", tokens,
                static_cast<double>(chosen_experts) / kLayers, us / kLayers, floor / kLayers,
                us / floor, flop / us * 1e-6);
  }
  return 0;
}

}  // namespace
}  // namespace causeway::kernels::moe

int main() { return causeway::kernels::moe::bench(); }
