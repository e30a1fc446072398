// Rows of a table on a GPU: equal to the bit; what is outside gives zeros.
//   embedding_gpu_test [--seed S]
#include "base/testing/arguments.h"
#include "kernels/embedding/embedding_cuda.h"
#include "kernels/testing/gpu.cuh"

namespace causeway::kernels::embedding {
namespace {

using testing::Device;
using testing::must;

int run_all(std::uint64_t seed) {
  if (!testing::has_gpu()) return testing::kSkipped;
  std::printf("seed %lu\n", seed);
  Random random(seed);
  testing::Report report;
  for (const std::int64_t size : {8, 1024, 2048, 2560, 3584, 4096, 5120, 8192}) {
    const std::int64_t rows = 97;
    const float scale = size % 1024 == 512 ? 55.5f : 1;
    const auto table = testing::random_bf16(random, rows * size);
    std::vector<std::int32_t> index = {0, 96, -1, 97, 1 << 30};
    for (int i = 0; i < 50; ++i) index.push_back(static_cast<std::int32_t>(random.below(rows)));
    Device<BFloat16> d_table(table.bf16), out(index.size() * static_cast<std::size_t>(size));
    Device<std::int32_t> d_index(index);
    must(run({.table = d_table.get(),
              .table_rows = rows,
              .size = size,
              .index = d_index.get(),
              .count = static_cast<std::int64_t>(index.size()),
              .out = out.get(),
              .scale = scale},
             nullptr));
    must(cudaDeviceSynchronize(), "embedding");
    const auto got = out.fetch();
    bool equal = true;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::int64_t row = index[i / static_cast<std::size_t>(size)];
      const auto column = i % static_cast<std::size_t>(size);
      const bool inside = row >= 0 && row < rows;
      const auto at = static_cast<std::size_t>(row * size) + column;
      const float wanted = inside ? scale * to_float(table.bf16[at]) : 0;
      equal &= got[i].bits == to_bfloat16(wanted).bits;
    }
    report.check(equal, "rows of " + std::to_string(size));
  }
  return report.finish();
}

}  // namespace
}  // namespace causeway::kernels::embedding

int main(int argc, char** argv) {
  return causeway::kernels::embedding::run_all(causeway::seed_of(argc, argv));
}
