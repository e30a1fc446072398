// Sampling beside reading its logits once at the rate of a plain read of the HBM, same run. Sixteen
// sets of logits in turn, so that the L2 holds none.
#include "kernels/sampling/sampling_cuda.h"
#include "kernels/testing/gpu.cuh"
#include "kernels/testing/random.cuh"

namespace causeway::kernels::sampling {
namespace {

using testing::Device;
using testing::must;

__global__ void fill_logits(float* x, int64_t count) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * blockDim.x) {
    // A sum of uniforms: bell-shaped, spread 3.
    const std::uint64_t h = testing::mix(static_cast<std::uint64_t>(i));
    float sum = -2;
    for (int j = 0; j < 4; ++j) sum += static_cast<float>((h >> (16 * j)) & 0xFFFF) / 65536.0f;
    x[i] = sum * 5.2f;
  }
}

int bench() {
  if (!testing::has_gpu()) return testing::kSkipped;
  cudaStream_t stream;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  constexpr std::int64_t kVocab = 128256, kSets = 16;
  Device<float> logits(static_cast<std::size_t>(kSets * 256 * kVocab));
  fill_logits<<<1056, 256>>>(logits.get(), static_cast<int64_t>(logits.size()));
  must(cudaDeviceSynchronize(), "fill");
  const double hbm = testing::hbm_read_gb_per_s(stream, logits.get(), std::int64_t{1} << 30);
  std::printf(
      "HBM read %.0f GB/s; vocabulary %ld\n\nwhat                 rows       us  floor us\n", hbm,
      kVocab);
  struct What {
    const char* name;
    RowCuda row;
    bool greedy;
  };
  const What whats[] = {
      {"greedy", {.temperature = 0}, true},
      {"temperature", {.temperature = 0.8f}, false},
      {"top-p", {.temperature = 0.8f, .top_p = 0.95f}, false},
      {"top-k, top-p", {.temperature = 0.8f, .top_p = 0.95f, .top_k = 40}, false},
      {"min-p", {.temperature = 0.8f, .min_p = 0.05f}, false},
      {"logprobs 20", {.temperature = 0.8f, .top_logprobs = 20}, false},
  };
  for (const What& what : whats) {
    for (const std::int64_t rows : {1, 32, 256}) {
      Device<RowCuda> row(std::vector<RowCuda>(static_cast<std::size_t>(rows), what.row));
      Device<TokenId> token(row.size()), top(row.size() * 20);
      Device<float> logprob(row.size()), top_logprob(top.size());
      const double us = testing::graph_us(stream, [&](cudaStream_t s) {
        for (std::int64_t i = 0; i < kSets; ++i) {
          must(run({.rows = rows,
                    .vocab = kVocab,
                    .logits = logits.get() + i * 256 * kVocab,
                    .logits_stride = kVocab,
                    .row = row.get(),
                    .token = token.get(),
                    .logprob = logprob.get(),
                    .top_token = top.get(),
                    .top_logprob = top_logprob.get(),
                    .top_stride = 20,
                    .all_greedy = what.greedy,
                    .penalties = false},
                   s));
        }
      });
      std::printf("%-18s %6ld %8.2f %9.2f\n", what.name, rows, us / kSets,
                  static_cast<double>(rows * kVocab * 4) / hbm * 1e-3);
    }
  }
  return 0;
}

}  // namespace
}  // namespace causeway::kernels::sampling

int main() { return causeway::kernels::sampling::bench(); }
