// rms_norm on a GPU against the host kernel: rows of the catalogue's sizes and generated ones, all
// and only the rows wanted; what a kernel in front may write is poison until just before it must be
// there (testing/late.cuh).   rms_norm_gpu_test [--seed S]
#include "kernels/rms_norm/rms_norm.h"

#include <algorithm>

#include "base/testing/arguments.h"
#include "kernels/rms_norm/rms_norm_cuda.h"
#include "kernels/testing/gpu.cuh"
#include "kernels/testing/late.cuh"
#include "kernels/testing/partly.cuh"

namespace causeway::kernels::rms_norm {
namespace {

using testing::Device;
using testing::Late;
using testing::must;
using testing::Partly;

enum class Way { kPlain, kWanted };

// Parts to be added to x, which becomes what the sums round to.
std::vector<float> draw_parts(Random& random, std::vector<float>& x) {
  std::vector<float> values(kParts * x.size());
  for (float& value : values) value = static_cast<float>(random.between(-4000, 4000)) * 0x1p-12f;
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t p = 0; p < kParts; ++p) x[i] += values[p * x.size() + i];
    x[i] = to_float(to_bfloat16(x[i]));
  }
  return values;
}

// A row at a time: one that is wrong would hide among many. Half a step of bf16 is 2⁻⁸ at most.
void compare(const std::vector<float>& got, const std::vector<float>& exact, std::int64_t size,
             const std::string& name, testing::Report& report) {
  double worst = 0;
  for (auto row = got.begin(), want = exact.begin(); row != got.end(); row += size, want += size) {
    worst = std::max(worst, testing::relative_error({row, row + size}, {want, want + size}));
  }
  report.error_at_most(worst, 4e-3, name);
}

void keep_one_of_each(std::vector<std::int32_t>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

// The rows wanted, by the host's kernel.
std::vector<float> by_host(const std::vector<float>& x, const std::vector<std::int32_t>& wanted,
                           const std::vector<BFloat16>& weight, float offset = 0) {
  const std::int64_t size = std::ssize(weight);
  std::vector<float> rows(wanted.size() * weight.size()), out(rows.size());
  auto row = rows.begin();
  for (const std::int32_t token : wanted) row = std::copy_n(x.begin() + token * size, size, row);
  run({.outer = std::ssize(wanted),
       .size = size,
       .x = rows.data(),
       .x_outer_stride = size,
       .weight = {reinterpret_cast<const std::byte*>(weight.data()), DType::kBF16},
       .offset = offset,
       .epsilon = 1e-5f,
       .out = out.data(),
       .out_outer_stride = size});
  return out;
}

// Returns how many lines it has dropped.
std::int64_t run_case(Random& random, std::int64_t rows, std::int64_t size, Way way, bool adds,
                      testing::Report& report, Late& late, cudaStream_t stream) {
  const std::string name = std::to_string(rows) + "×" + std::to_string(size) + " way " +
                           std::to_string(static_cast<int>(way)) + (adds ? " with parts" : "");
  auto x = testing::random_bf16(random, rows * size, 3);
  const auto weight = testing::random_bf16(random, size);
  Device<BFloat16> d_x(x.bf16);
  const std::vector<float> before = x.f32;
  const std::vector<float> parts = adds ? draw_parts(random, x.f32) : std::vector<float>(1);
  std::vector<std::int32_t> wanted;
  for (std::int64_t r = 0; r < (way == Way::kWanted ? rows / 2 + 1 : rows); ++r) {
    wanted.push_back(static_cast<std::int32_t>(way == Way::kWanted ? random.below(rows) : r));
  }
  if (adds) keep_one_of_each(wanted);  // a token's x changes
  const auto count = static_cast<std::int64_t>(wanted.size());
  const std::vector<float> exact = by_host(x.f32, wanted, weight.bf16);

  Device<BFloat16> d_weight(weight.bf16);
  Device<float> d_parts(parts);
  Device<BFloat16> out(exact.size());
  Device<std::int32_t> d_wanted(wanted);
  std::vector<Partly> partly;
  while (partly.size() < kDiscardsMax) partly.emplace_back(random);
  const bool parts_stay = adds && random.chance(0.5);
  const ParamsCuda params{.rows = count,
                          .size = size,
                          .x = d_x.get(),
                          .weight = d_weight.get(),
                          .epsilon = 1e-5f,
                          .out = out.get(),
                          .rows_wanted = way == Way::kWanted ? d_wanted.get() : nullptr,
                          .parts = adds ? d_parts.get() : nullptr,
                          .parts_stay = parts_stay,
                          .tokens = rows,
                          .sum = adds ? d_x.get() : nullptr,
                          .discards = {partly[0].range(), partly[1].range(), partly[2].range()}};
  late.clear();  // all but the weight
  late.add(d_x, testing::kNan);
  late.add(d_parts, testing::kNan);
  late.add(d_wanted, 0);
  const auto attempt = [&] {
    d_x.put(x.bf16);
    out.poison();
    for (Partly& memory : partly) memory.write(stream);
    late.poison(stream);
    late.write([&] { must(run(params, stream)); }, stream, name.c_str());
  };
  report.check(late.repeat(attempt), name + ": inputs came before all was enqueued, each time");
  compare(testing::to_floats(out.fetch()), exact, size, name, report);
  std::vector<float> after = before;
  for (const std::int32_t row : wanted) {
    std::copy_n(x.f32.begin() + row * size, size, after.begin() + row * size);
  }
  report.check(testing::to_floats(d_x.fetch()) == after, name + ": x is left alone or the sum");
  std::int64_t dropped = 0;
  for (const Partly& memory : partly) {
    const Partly::Outcome outcome = memory.outcome();
    report.check(outcome.rest_is_kept, name + ": what is not to be discarded is kept");
    dropped += outcome.dropped;
  }
  report.check(!parts_stay || d_parts.fetch() == parts, name + ": parts that stay");
  return dropped;
}

// x += norm(added), and its norm if `whole`.
void run_join(Random& random, std::int64_t rows, std::int64_t size, Way way, bool whole,
              testing::Report& report, Late& late, cudaStream_t stream) {
  const std::string name = std::to_string(rows) + "×" + std::to_string(size) + " way " +
                           std::to_string(static_cast<int>(way)) + (whole ? " joins" : " sums");
  const float offset = random.chance(0.5) ? 1 : 0;
  auto x = testing::random_bf16(random, rows * size, 3);
  const auto added = testing::random_bf16(random, rows * size, 50);
  const auto weight = testing::random_bf16(random, size);
  const auto added_weight = testing::random_bf16(random, size);
  std::vector<std::int32_t> wanted;
  for (std::int64_t r = 0; r < (way == Way::kWanted ? rows / 2 + 1 : rows); ++r) {
    wanted.push_back(static_cast<std::int32_t>(way == Way::kWanted ? random.below(rows) : r));
  }
  keep_one_of_each(wanted);
  const std::vector<float> normed = by_host(added.f32, wanted, added_weight.bf16, offset);
  std::vector<float> sums = x.f32;
  for (std::size_t r = 0; r < wanted.size(); ++r) {
    for (std::int64_t i = 0; i < size; ++i) {
      float& sum = sums[static_cast<std::size_t>(wanted[r] * size + i)];
      sum = to_float(to_bfloat16(
          sum + normed[r * static_cast<std::size_t>(size) + static_cast<std::size_t>(i)]));
    }
  }
  const std::vector<float> exact = by_host(sums, wanted, weight.bf16, offset);
  Device<BFloat16> d_x(x.bf16), d_added(added.bf16), d_weight(weight.bf16);
  Device<BFloat16> d_added_weight(added_weight.bf16), out(exact.size());
  Device<std::int32_t> d_wanted(wanted);
  const ParamsCuda params{.rows = static_cast<std::int64_t>(wanted.size()),
                          .size = size,
                          .x = d_x.get(),
                          .weight = d_weight.get(),
                          .offset = offset,
                          .epsilon = 1e-5f,
                          .out = whole ? out.get() : nullptr,
                          .rows_wanted = way == Way::kWanted ? d_wanted.get() : nullptr,
                          .tokens = rows,
                          .sum = d_x.get(),
                          .added = d_added.get(),
                          .added_weight = d_added_weight.get()};
  late.clear();  // all but the weights
  late.add(d_x, testing::kNan);
  late.add(d_added, testing::kNan);
  late.add(d_wanted, 0);
  const auto attempt = [&] {
    d_x.put(x.bf16);
    d_added.put(added.bf16);
    out.poison();
    late.poison(stream);
    late.write([&] { must(run(params, stream)); }, stream, name.c_str());
  };
  report.check(late.repeat(attempt), name + ": inputs came before all was enqueued, each time");
  compare(testing::to_floats(d_x.fetch()), sums, size, name + ", the sum", report);
  if (whole) compare(testing::to_floats(out.fetch()), exact, size, name, report);
}

int run_all(std::uint64_t seed) {
  if (!testing::has_gpu()) return testing::kSkipped;
  std::printf("seed %lu\n", seed);
  Random random(seed);
  testing::Report report;
  cudaStream_t stream;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  Late late;
  std::int64_t dropped = 0;
  for (const std::int64_t size :
       {8, 24, 128, 1024, 2048, 2560, 3072, 3584, 4096, 5120, 8192, 8200, 16392, 32768}) {
    for (const Way way : {Way::kPlain, Way::kWanted}) {
      for (const bool adds : {false, true}) {
        if (size <= kPartsSizeMax) {
          run_join(random, random.between(1, 33), size, way, adds, report, late, stream);
        }
        if (adds && size > kPartsSizeMax) continue;
        dropped += run_case(random, random.between(1, 33), size, way, adds, report, late, stream);
      }
    }
  }
  report.check(dropped > 0, "what is not read again is dropped");
  report.check(!run(ParamsCuda{.rows = 1, .size = 12}, nullptr).ok(), "a row of 12");
  float part = 0;
  BFloat16 sum;
  ParamsCuda wide{.rows = 1, .size = 8200, .parts = &part, .tokens = 1, .sum = &sum};
  report.check(!run(wide, nullptr).ok(), "parts of a row of 8200");
  wide.size = 8192;
  wide.sum = nullptr;
  report.check(!run(wide, nullptr).ok(), "parts without a place for the sum");
  const ParamsCuda nowhere{.rows = 1, .size = 8, .added = &sum, .added_weight = &sum};
  report.check(!run(nowhere, nullptr).ok(), "what is added, without a place for the sum");
  must(cudaStreamDestroy(stream), "stream");
  return report.finish();
}

}  // namespace
}  // namespace causeway::kernels::rms_norm

int main(int argc, char** argv) {
  return causeway::kernels::rms_norm::run_all(causeway::seed_of(argc, argv));
}
