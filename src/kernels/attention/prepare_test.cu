// The scale of queries of logn attention in prepare(): queries beyond the context against double
// precision; those within, and all keys and values, the same to the bit as without it.
//   prepare_gpu_test [--seed S]
#include "base/testing/arguments.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/rope/rope.h"
#include "kernels/testing/gpu.cuh"

namespace causeway::kernels::attention {
namespace {

using testing::Device;
using testing::must;

constexpr std::int64_t kTokens = 37, kBlock = 16, kFrames = 12;

// One sequence whose tokens stand five apart; one row is of no token.
struct Rows {
  std::vector<std::int32_t> position;
  std::vector<float> table;  // [tokens][size]

  explicit Rows(std::int64_t size) {
    std::vector<std::int64_t> wide;
    for (std::int64_t i = 0; i < kTokens; ++i) wide.push_back(5 * i);
    position.assign(wide.begin(), wide.end());
    position[7] = -1;
    table.resize(static_cast<std::size_t>(kTokens * size));
    const std::vector<double> frequencies = rope::frequencies(size, 1e4);
    rope::fill_table({.frequencies = frequencies, .size = size}, wide, table.data());
  }
};

struct Prepared {
  std::vector<BFloat16> qkv, kv;
};

Prepared run(const Heads& heads, const Rows& rows, const std::vector<BFloat16>& values,
             std::int64_t logn_context) {
  std::vector<std::int32_t> frames;
  for (std::int32_t i = 0; i < kFrames; ++i) frames.push_back(kFrames - 1 - i);
  const std::int64_t token = heads.kv * heads.size;
  const Device<BFloat16> qkv(values), kv(static_cast<std::size_t>(2 * kFrames * kBlock * token));
  const Device<std::int32_t> position(rows.position), d_frames(frames);
  const Device<std::int32_t> sequence(std::vector<std::int32_t>(kTokens, 0));
  const Device<std::int32_t> frame_begin(std::vector<std::int32_t>{0, kFrames});
  const Device<float> table(rows.table);
  must(prepare({.kv = {.base = reinterpret_cast<std::byte*>(kv.get()),
                       .frame_bytes = Bytes(2 * kBlock * token * 2),
                       .value_offset = Bytes(kBlock * token * 2),
                       .token_stride = Bytes(token * 2),
                       .block_tokens = kBlock},
                .heads = heads,
                .tokens = kTokens,
                .sequences = 1,
                .position = position.get(),
                .sequence = sequence.get(),
                .frames = d_frames.get(),
                .frame_begin = frame_begin.get(),
                .rope_table = table.get(),
                .qkv = qkv.get(),
                .qkv_stride = (heads.query + 2 * heads.kv) * heads.size,
                .logn_context = logn_context},
               nullptr),
       "prepare");
  must(cudaDeviceSynchronize(), "prepare");
  return {qkv.fetch(), kv.fetch()};
}

// An element of a query, rotated and scaled.
double exact(const std::vector<float>& row, const float* table, std::int64_t i, double factor) {
  const auto half = std::ssize(row) / 2, pair = i % half;
  const double low = row[static_cast<std::size_t>(pair)];
  const double high = row[static_cast<std::size_t>(pair + half)];
  const double cosine = table[pair], sine = table[pair + half];
  return factor * (i < half ? low * cosine - high * sine : high * cosine + low * sine);
}

void check(Random& random, const Heads& heads, std::int64_t context, testing::Report& report) {
  const Rows rows(heads.size);
  const std::int64_t stride = (heads.query + 2 * heads.kv) * heads.size;
  const auto values = testing::random_bf16(random, kTokens * stride);
  const Prepared plain = run(heads, rows, values.bf16, 0);
  const Prepared scaled = run(heads, rows, values.bf16, context);
  const std::string name = "heads of " + std::to_string(heads.size) + ", context " +
                           std::to_string(context) + ", token ";
  report.check(std::memcmp(plain.kv.data(), scaled.kv.data(), plain.kv.size() * 2) == 0,
               name + "any: another key or value");
  for (std::int64_t t = 0; t < kTokens; ++t) {
    const std::int32_t position = rows.position[static_cast<std::size_t>(t)];
    const std::size_t begin = static_cast<std::size_t>(t * stride);
    const std::size_t count =
        position < context ? static_cast<std::size_t>(stride) * 2 : 0;  // bytes that stay
    report.check(std::memcmp(&plain.qkv[begin], &scaled.qkv[begin], count) == 0,
                 name + std::to_string(t) + ": changed within the context");
    if (position < context) continue;
    const double factor = std::log(position + 1.0) / std::log(static_cast<double>(context));
    for (std::int64_t i = 0; i < heads.query * heads.size; ++i) {
      const auto head = values.f32.begin() + t * stride + i / heads.size * heads.size;
      const double want =
          exact({head, head + heads.size}, &rows.table[t * heads.size], i % heads.size, factor);
      const double got = to_float(scaled.qkv[begin + static_cast<std::size_t>(i)]);
      report.error_at_most(std::abs(got - want), std::abs(want) / 256 + 1e-6,
                           name + std::to_string(t));
    }
  }
}

int run_all(std::uint64_t seed) {
  if (!testing::has_gpu()) return testing::kSkipped;
  std::printf("seed %lu\n", seed);
  Random random(seed);
  testing::Report report;
  for (const std::int64_t size : {8, 64, 80, 128, 256}) {
    for (const std::int64_t context : {2, 50, 180, 1000}) {
      check(random, {4, 4, size}, context, report);
      check(random, {6, 2, size}, context, report);
    }
  }
  return report.finish();
}

}  // namespace
}  // namespace causeway::kernels::attention

int main(int argc, char** argv) {
  return causeway::kernels::attention::run_all(causeway::seed_of(argc, argv));
}
