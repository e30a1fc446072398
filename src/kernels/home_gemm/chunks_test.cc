#include "kernels/home_gemm/chunks.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"

namespace causeway::kernels::home_gemm::chunks_test {
namespace {

using gemm::CudaRequest;

constexpr CudaRequest kWide = {.m = 10240, .n = 16384, .k = 4096};

ChunkRates pcie(double product_seconds) {
  ChunkRates rates;
  rates.product_seconds = product_seconds;
  return rates;
}

double seconds_of(const CudaRequest& r, Bytes scratch, const ChunkRates& rates) {
  const auto chunks = cut(r, scratch, rates);
  EXPECT_TRUE(chunks.ok()) << chunks.error().message;
  return chunks.ok() ? staged_seconds(r, *chunks, rates) : 0;
}

TEST(Chunks, SmallLastPiecesWhereTheLinkIsTheLimit) {
  const ChunkRates rates = pcie(1.5e-3);  // of an H200, all SMs, beside 2.44 ms of copying
  const auto chunks = *cut(kWide, mib(256), rates);
  EXPECT_LT(chunks.back().columns, 1024);
  for (const Chunk& chunk : chunks) EXPECT_EQ(chunk.waits_for, -1);
  const double link = 16384 * 4096 * 2 / rates.link_bytes_per_s;
  EXPECT_LT(staged_seconds(kWide, chunks, rates), 1.05 * link);
}

TEST(Chunks, SmallFirstPiecesWhereMultiplyingIsTheLimit) {
  ChunkRates rates = pcie(12e-3);
  rates.sm_count = 16;
  const auto chunks = *cut(kWide, mib(256), rates);
  EXPECT_LT(chunks.front().columns, 1024);
  EXPECT_LT(staged_seconds(kWide, chunks, rates), 1.03 * 12e-3);
}

TEST(Chunks, FewRowsOfAFastProductAreFewPieces) {
  const CudaRequest r = {.m = 1, .n = 16384, .k = 4096};
  const auto chunks = *cut(r, mib(256), pcie(45e-6));
  EXPECT_LE(chunks.size(), 4u);
  EXPECT_EQ(chunks.front().product.path, gemm::CudaPath::kRows);
}

TEST(Chunks, NoWorseThanEqualPieces) {
  for (const double product : {45e-6, 0.2e-3, 1.5e-3, 2.4e-3, 6e-3}) {
    const ChunkRates rates = pcie(product);
    for (const std::int64_t pieces : {1, 2, 4, 8, 16, 32}) {
      std::vector<Chunk> equal(static_cast<std::size_t>(pieces));
      for (std::int64_t i = 0; i < pieces; ++i) {
        equal[static_cast<std::size_t>(i)].first = i * (16384 / pieces);
        equal[static_cast<std::size_t>(i)].columns = 16384 / pieces;
      }
      EXPECT_LE(seconds_of(kWide, mib(256), rates), staged_seconds(kWide, equal, rates) * 1.005)
          << product << " s, " << pieces;
    }
  }
}

TEST(Chunks, SlowerLinksAndProductsNeverEndEarlier) {
  double before = 0;
  for (double product = 10e-6; product < 20e-3; product *= 1.3) {
    const double now = seconds_of(kWide, mib(256), pcie(product));
    EXPECT_GE(now, before * 0.9999);
    before = now;
  }
}

TEST(Chunks, TooLittleScratchIsRefused) {
  const auto none = cut(kWide, mib(1), pcie(1e-3));
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kUnsupported);
  EXPECT_TRUE(cut(kWide, mib(2), pcie(1e-3)).ok());  // two pieces of 128 columns
}

// Two pieces share bytes of the scratch only if the later one waits for the earlier one's product,
// or a later one's.
void expect_ring_holds(const std::vector<Chunk>& chunks, std::int64_t a_column, Bytes scratch) {
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const std::int64_t begin = chunks[i].offset.count;
    const std::int64_t end = begin + chunks[i].columns * a_column;
    EXPECT_LE(end, scratch.count);
    EXPECT_EQ(begin % 256, 0);
    EXPECT_LT(chunks[i].waits_for, static_cast<int>(i));
    for (std::size_t j = 0; j < i; ++j) {
      const std::int64_t other = chunks[j].offset.count;
      const bool shared = other < end && begin < other + chunks[j].columns * a_column;
      EXPECT_TRUE(!shared || chunks[i].waits_for >= static_cast<int>(j));
    }
  }
}

TEST(Chunks, BiasesOfGateAndUpStayBesideEachOther) {
  const CudaRequest r = {.m = 37, .n = 2224, .k = 2368, .bias = true, .silu_mul = true};
  const auto whole = cut(r, mib(64), pcie(1e-3));
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->size(), 1u);
  EXPECT_EQ(cut(r, mib(8), pcie(1e-3)).error().code, ErrorCode::kUnsupported);
}

TEST(Chunks, GeneratedCutsCoverTheWeightOnceAndFitTheRing) {
  Random random(5);
  for (int i = 0; i < 400; ++i) {
    CudaRequest r = {.m = random.between(1, 12'000),
                     .n = random.between(1, 4'000) * 8,
                     .k = random.between(1, 160) * 64};
    r.silu_mul = random.chance(0.3);
    ChunkRates rates = pcie(random.uniform() * 5e-3);
    rates.link_bytes_per_s = random.chance(0.5) ? 55e9 : 390e9;
    rates.sm_count = static_cast<int>(random.between(1, 132));
    const Bytes scratch = mib(random.between(1, 256));
    const auto chunks = cut(r, scratch, rates);
    const std::int64_t a_column = (r.silu_mul ? 2 : 1) * r.k * 2;
    if (!chunks.ok()) {
      EXPECT_LT(scratch.count, 2 * (std::min<std::int64_t>(r.n, 128) * a_column + 512));
      continue;
    }
    std::int64_t next = 0;
    for (const Chunk& chunk : *chunks) {
      EXPECT_EQ(chunk.first, next);
      EXPECT_GT(chunk.columns, 0);
      EXPECT_EQ(chunk.first % kChunkColumns, 0);
      EXPECT_EQ(chunk.product.request.n, chunk.columns);
      next += chunk.columns;
    }
    EXPECT_EQ(next, r.n);
    expect_ring_holds(*chunks, a_column, scratch);
    const double link = static_cast<double>(r.n * a_column) / rates.link_bytes_per_s;
    EXPECT_GE(staged_seconds(r, *chunks, rates), std::max(link, rates.product_seconds) * 0.999);
  }
}

}  // namespace
}  // namespace causeway::kernels::home_gemm::chunks_test
