#include "bench/kernels/kernel_bench.h"

#include <gtest/gtest.h>

namespace causeway::kernels::bench::kernel_bench_test {
namespace {

TEST(KernelBench, SummarisesRunsByTheirMedians) {
  KernelBenchRow row;
  row.name = "x";
  row.further = {{"chain_read"}, {"bulk_read"}};
  // The median of the ratios, run by run, is not the ratio of the medians.
  summarise({{3e9, 6e9, {3.5e9, 5e9}}, {1e9, 1e9, {1.5e9, 6e9}}, {8e9, 9e9, {2.5e9, 4e9}}}, 1e-9,
            row);
  EXPECT_EQ(row.name, "x");
  EXPECT_DOUBLE_EQ(row.measured, 3);
  EXPECT_DOUBLE_EQ(row.limit, 6);
  EXPECT_DOUBLE_EQ(row.ratio, 8.0 / 9);
  EXPECT_DOUBLE_EQ(row.spread, 7.0 / 3);
  EXPECT_EQ(row.runs, 3);
  ASSERT_EQ(row.further.size(), 2u);
  EXPECT_EQ(row.further[0].name, "chain_read");
  EXPECT_DOUBLE_EQ(row.further[0].value, 2.5);
  EXPECT_EQ(row.further[1].name, "bulk_read");
  EXPECT_DOUBLE_EQ(row.further[1].value, 5);
}

}  // namespace
}  // namespace causeway::kernels::bench::kernel_bench_test
