// Pending tokens on a GPU: equal to the host's.     pending_tokens_gpu_test [--seed S]
#include "base/testing/arguments.h"
#include "kernels/pending_tokens/pending_tokens.h"
#include "kernels/testing/gpu.cuh"

namespace causeway::kernels::pending_tokens {
namespace {

using testing::Device;
using testing::must;

int run_all(std::uint64_t seed) {
  if (!testing::has_gpu()) return testing::kSkipped;
  std::printf("seed %lu\n", seed);
  Random random(seed);
  testing::Report report;
  for (const std::int64_t count : {0, 1, 2, 3, 31, 127, 256, 257, 8191, 300'001}) {
    for (const std::int64_t rows : {0, 1, 7, 256}) {
      std::vector<TokenId> tokens, chosen;
      for (std::int64_t i = 0; i < rows; ++i) {
        chosen.push_back(static_cast<TokenId>(random.below(150'000)));
      }
      for (std::int64_t i = 0; i < count; ++i) {
        const bool pending = random.chance(0.5);  // some of rows that were never chosen
        tokens.push_back(
            static_cast<TokenId>(pending ? -2 - random.below(rows + 2) : random.below(1000) - 1));
      }
      Device<TokenId> d_tokens(tokens), d_chosen(chosen);
      must(run({.tokens = d_tokens.get(), .count = count, .chosen = d_chosen.get(), .rows = rows},
               nullptr));
      must(cudaDeviceSynchronize(), "pending_tokens");
      resolve(tokens, chosen);
      report.check(d_tokens.fetch() == tokens,
                   std::to_string(count) + " tokens of " + std::to_string(rows) + " rows");
    }
  }
  return report.finish();
}

}  // namespace
}  // namespace causeway::kernels::pending_tokens

int main(int argc, char** argv) {
  return causeway::kernels::pending_tokens::run_all(causeway::seed_of(argc, argv));
}
