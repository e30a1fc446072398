// Mixture of experts on a GPU against sums in double precision over the host's routing: the
// catalogue's shapes (fewer, smaller experts where the host would take long) and generated ones,
// from one token to prompts, all tokens on one expert too.     moe_gpu_test [--seed S] [--small]
#include "kernels/moe/moe.h"
#include "kernels/moe/moe_cuda.h"
#include "kernels/testing/gpu.cuh"

namespace causeway::kernels::moe {
namespace {

using testing::Device;
using testing::must;

struct Case {
  ShapeCuda shape;
  std::int64_t tokens = 0;
  bool normalise = true;
  bool crowded = false;  // every token prefers the same experts
};

std::vector<const void*> table_of(const Device<BFloat16>& all, std::int64_t experts) {
  std::vector<const void*> table;
  const std::size_t each = all.size() / static_cast<std::size_t>(experts);
  for (std::int64_t e = 0; e < experts; ++e) {
    // Backwards: nothing may rely on neighbours.
    table.push_back(all.get() + static_cast<std::size_t>(experts - 1 - e) * each);
  }
  return table;
}

float dot(const float* a, const float* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += double{a[i]} * b[i];
  return static_cast<float>(sum);
}

struct HostWeights {
  const std::vector<float>&gate, &up, &down;
};

// Seven tokens or all, computed on the host.
void compare_some(const Case& c, const std::vector<float>& x, const HostWeights& w,
                  const std::vector<float>& scores, const std::vector<BFloat16>& got,
                  const std::string& name, testing::Report& report) {
  const ShapeCuda& s = c.shape;
  const std::int64_t matrix = s.hidden * s.intermediate;
  std::vector<float> mine, exact;
  const std::int64_t k = s.experts_per_token;
  for (std::int64_t t = 0; t < c.tokens; t += std::max<std::int64_t>(1, c.tokens / 7)) {
    std::vector<std::int32_t> chosen(static_cast<std::size_t>(k));
    std::vector<float> weights(chosen.size()), active(static_cast<std::size_t>(s.intermediate));
    route({scores.data() + t * s.experts, s.experts, k, c.normalise}, chosen.data(),
          weights.data());
    std::vector<float> sum(static_cast<std::size_t>(s.hidden), 0.0f);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const std::int64_t at = (s.experts - 1 - chosen[i]) * matrix;
      const float* row = x.data() + t * s.hidden;
      for (std::int64_t f = 0; f < s.intermediate; ++f) {
        const float g = dot(w.gate.data() + at + f * s.hidden, row, s.hidden);
        const float u = dot(w.up.data() + at + f * s.hidden, row, s.hidden);
        active[static_cast<std::size_t>(f)] = g / (1 + std::exp(-g)) * u;
      }
      for (std::int64_t h = 0; h < s.hidden; ++h) {
        const float* column = w.down.data() + at + h * s.intermediate;
        sum[static_cast<std::size_t>(h)] += weights[i] * dot(column, active.data(), s.intermediate);
      }
    }
    exact.insert(exact.end(), sum.begin(), sum.end());
    for (std::int64_t h = 0; h < s.hidden; ++h) {
      mine.push_back(to_float(got[static_cast<std::size_t>(t * s.hidden + h)]));
    }
  }
  report.error_at_most(testing::relative_error(mine, exact), 8e-3, name);
}

void run_case(Random& random, const Case& c, testing::Report& report) {
  const ShapeCuda& s = c.shape;
  const std::int64_t matrix = s.hidden * s.intermediate;
  const std::string name = std::to_string(s.experts_per_token) + " of " +
                           std::to_string(s.experts) + " experts " + std::to_string(s.hidden) +
                           "×" + std::to_string(s.intermediate) + ", " + std::to_string(c.tokens) +
                           " tokens" + (c.crowded ? ", crowded" : "");
  const auto x = testing::random_bf16(random, c.tokens * s.hidden);
  const double scale = 1 / std::sqrt(static_cast<double>(s.hidden));
  const auto gate = testing::random_bf16(random, s.experts * matrix, 2 * scale);
  const auto up = testing::random_bf16(random, s.experts * matrix, 2 * scale);
  const auto down = testing::random_bf16(random, s.experts * matrix, 2 * scale);
  std::vector<float> scores(static_cast<std::size_t>(c.tokens * s.experts));
  for (std::size_t i = 0; i < scores.size(); ++i) {
    scores[i] = static_cast<float>(2 * random.normal());
    if (c.crowded) scores[i] += static_cast<float>(i % static_cast<std::size_t>(s.experts));
    if (random.chance(0.02)) scores[i] = scores[i > 0 ? i - 1 : 0];  // equals
  }
  Device<BFloat16> d_x(x.bf16), d_gate(gate.bf16), d_up(up.bf16), d_down(down.bf16);
  Device<float> d_scores(scores);
  Device<const void*> gates(table_of(d_gate, s.experts)), ups(table_of(d_up, s.experts)),
      downs(table_of(d_down, s.experts));
  Device<BFloat16> out(static_cast<std::size_t>(c.tokens * s.hidden)), again(out.size());
  Device<char> workspace(to_size(workspace_bytes(s, c.tokens)));
  ParamsCuda p{.shape = s,
               .tokens = c.tokens,
               .normalise_top_k = c.normalise,
               .x = d_x.get(),
               .scores = d_scores.get(),
               .gate = gates.get(),
               .up = ups.get(),
               .down = downs.get(),
               .out = out.get(),
               .workspace = workspace.get()};
  must(run(p, nullptr));
  p.out = again.get();
  must(run(p, nullptr));
  must(cudaDeviceSynchronize(), name.c_str());
  const auto got = out.fetch(), second = again.fetch();
  report.check(std::memcmp(got.data(), second.data(), got.size() * 2) == 0,
               name + ": differs between runs");

  compare_some(c, x.f32, {gate.f32, up.f32, down.f32}, scores, got, name, report);
}

int run_all(std::uint64_t seed, bool small) {
  if (!testing::has_gpu()) return testing::kSkipped;
  std::printf("seed %lu\n", seed);
  Random random(seed);
  testing::Report report;
  const ShapeCuda qwen{2048, 768, 128, 8}, few{512, 768, 128, 8}, mixtral{512, 1792, 8, 2};
  if (!small) {
    run_case(random, {qwen, 1}, report);
    run_case(random, {qwen, 32}, report);
    for (const std::int64_t tokens : {1, 2, 7, 8, 9, 33, 64, 65, 257, 1000, 3001}) {
      run_case(random, {few, tokens, random.chance(0.5), random.chance(0.3)}, report);
      run_case(random, {mixtral, tokens, random.chance(0.5), random.chance(0.3)}, report);
    }
  }
  for (int i = 0; i < (small ? 6 : 30); ++i) {
    Case c;
    c.shape.hidden = 32 * random.between(1, 12);
    c.shape.intermediate = 32 * random.between(1, 12);
    c.shape.experts = random.between(1, random.chance(0.2) ? 300 : 40);
    c.shape.experts_per_token = random.between(1, std::min<std::int64_t>(c.shape.experts, 32));
    c.tokens = random.chance(0.3) ? 1 : random.between(1, small ? 70 : 300);
    c.normalise = random.chance(0.5);
    c.crowded = random.chance(0.3);
    run_case(random, c, report);
  }
  report.check(!run(ParamsCuda{.shape = {48, 32, 4, 2}, .tokens = 1}, nullptr).ok(), "hidden 48");
  report.check(!run(ParamsCuda{.shape = {64, 32, 4, 5}, .tokens = 1}, nullptr).ok(), "5 of 4");
  return report.finish();
}

}  // namespace
}  // namespace causeway::kernels::moe

int main(int argc, char** argv) {
  std::uint64_t seed = 20260101;
  bool small = false;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--small") small = true;
    if (std::string(argv[i]) == "--seed" && i + 1 < argc)
      seed = std::strtoull(argv[++i], nullptr, 10);
  }
  return causeway::kernels::moe::run_all(seed, small);
}
