// Mixture of experts on a GPU against sums in double precision over the host's routing: the
// catalogue's shapes (fewer, smaller experts where the host would take long) and generated ones,
// from one token to prompts, all tokens on one expert too, with and without the norm and router in
// front. What a kernel in front may write is poison until just before it must be there
// (testing/late.cuh).                                          moe_gpu_test [--seed S] [--small]
#include <numeric>

#include "base/testing/arguments.h"
#include "kernels/moe/cuda_one_token_layout.h"
#include "kernels/moe/moe.h"
#include "kernels/moe/moe_cuda.h"
#include "kernels/testing/gpu.cuh"
#include "kernels/testing/late.cuh"

namespace causeway::kernels::moe {
namespace {

using testing::Device;
using testing::Late;
using testing::must;

// Rows of the router that are others' again, so that their scores are equal to the bit.
enum class Equals {
  kSome,      // in every other case, some, anywhere
  kAll,       // one row for all experts
  kFarApart,  // row e is row e % 32: equals are never in one warp of those that choose
};

struct Case {
  ShapeCuda shape;
  std::int64_t tokens = 0;
  bool normalise = true;
  bool crowded = false;           // every token prefers the same experts
  int sms = 132;                  // CTAs of the kernel that needs all its CTAs at once
  Equals equals = Equals::kSome;  // with front
};

std::string name_of(const Case& c, const char* way) {
  const ShapeCuda& s = c.shape;
  return std::to_string(s.experts_per_token) + " of " + std::to_string(s.experts) + " experts " +
         std::to_string(s.hidden) + "×" + std::to_string(s.intermediate) + ", " +
         std::to_string(c.tokens) + " tokens" + (c.crowded ? ", crowded" : "") +
         (c.equals == Equals::kAll ? ", all equal" : "") +
         (c.equals == Equals::kFarApart ? ", equals far apart" : "") + ", " +
         std::to_string(c.sms) + " CTAs" + way;
}

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

// What goes in, on the host.
struct Inputs {
  std::vector<float> x, scores, residual;  // residual: empty when there is none
};

// A token's way through its experts.
std::vector<float> mixed(const Case& c, const Inputs& in, const HostWeights& w, std::int64_t t) {
  const ShapeCuda& s = c.shape;
  const std::int64_t matrix = s.hidden * s.intermediate, k = s.experts_per_token;
  std::vector<std::int32_t> chosen(static_cast<std::size_t>(k));
  std::vector<float> weights(chosen.size()), active(static_cast<std::size_t>(s.intermediate));
  route({in.scores.data() + t * s.experts, s.experts, k, c.normalise}, chosen.data(),
        weights.data());
  std::vector<float> sum(static_cast<std::size_t>(s.hidden), 0.0f);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const std::int64_t at = (s.experts - 1 - chosen[i]) * matrix;
    const float* row = in.x.data() + t * s.hidden;
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
  if (in.residual.empty()) return sum;
  for (std::int64_t h = 0; h < s.hidden; ++h) {
    sum[static_cast<std::size_t>(h)] += in.residual[static_cast<std::size_t>(t * s.hidden + h)];
  }
  return sum;
}

// Another rounding of the scores could choose otherwise. Not among equals: their rows of the router
// are the same, and so are their scores on both sides.
bool nearly_tied(const Case& c, const Inputs& in, std::int64_t token) {
  const auto begin = in.scores.begin() + token * c.shape.experts;
  std::vector<float> sorted(begin, begin + c.shape.experts);
  std::sort(sorted.begin(), sorted.end(), std::greater<float>());
  const auto k = static_cast<std::size_t>(c.shape.experts_per_token);
  if (k >= sorted.size()) return false;
  const float last = sorted[k - 1];
  if (last - sorted[k] >= 5e-3f) return false;
  return last != sorted[k] || std::any_of(sorted.begin(), sorted.end(), [last](float score) {
           return score != last && std::abs(score - last) < 5e-3f;
         });
}

// Seven tokens or all, computed on the host; at least one that is not nearly tied.
void compare_some(const Case& c, const Inputs& in, const HostWeights& w, bool exact_scores,
                  const std::vector<BFloat16>& got, const std::string& name,
                  testing::Report& report) {
  std::vector<float> mine, exact;
  for (std::int64_t t = 0; t < c.tokens; t += std::max<std::int64_t>(1, c.tokens / 7)) {
    if (!exact_scores && nearly_tied(c, in, t)) continue;
    const std::vector<float> wanted = mixed(c, in, w, t);
    exact.insert(exact.end(), wanted.begin(), wanted.end());
    for (std::int64_t h = 0; h < c.shape.hidden; ++h) {
      mine.push_back(to_float(got[static_cast<std::size_t>(t * c.shape.hidden + h)]));
    }
  }
  report.check(!exact.empty(), name + ": every token nearly tied, nothing compared");
  report.error_at_most(testing::relative_error(mine, exact), 8e-3, name);
}

// A case's memory on the device.
struct Memory {
  Device<BFloat16> gate, up, down;
  Device<const void*> gates, ups, downs;
  Device<char> workspace;
  Device<std::uint64_t> experts_read;
  Device<std::uint32_t> chosen;

  Memory(const Case& c, const testing::BothTypes& g, const testing::BothTypes& u,
         const testing::BothTypes& d)
      : gate(g.bf16),
        up(u.bf16),
        down(d.bf16),
        gates(table_of(gate, c.shape.experts)),
        ups(table_of(up, c.shape.experts)),
        downs(table_of(down, c.shape.experts)),
        workspace(to_size(workspace_bytes(c.shape, c.tokens))),
        experts_read(1),
        chosen(static_cast<std::size_t>(c.shape.experts)) {
    must(prepare(workspace.get(), nullptr));
  }

  ParamsCuda params(const Case& c) const {
    return {.shape = c.shape,
            .tokens = c.tokens,
            .sm_count = c.sms,
            .normalise_top_k = c.normalise,
            .gate = gates.get(),
            .up = ups.get(),
            .down = downs.get(),
            .workspace = workspace.get(),
            .experts_read = experts_read.get(),
            .chosen = chosen.get()};
  }
};

// How many tokens choose each expert.
std::vector<std::uint32_t> choices(const Case& c, const std::vector<float>& scores) {
  const ShapeCuda& s = c.shape;
  std::vector<std::uint32_t> used(static_cast<std::size_t>(s.experts));
  std::vector<std::int32_t> chosen(static_cast<std::size_t>(s.experts_per_token));
  std::vector<float> weights(chosen.size());
  for (std::int64_t t = 0; t < c.tokens; ++t) {
    route({scores.data() + t * s.experts, s.experts, s.experts_per_token, true}, chosen.data(),
          weights.data());
    for (const std::int32_t e : chosen) ++used[static_cast<std::size_t>(e)];
  }
  return used;
}

std::uint64_t experts_chosen(const Case& c, const std::vector<float>& scores) {
  const auto used = choices(c, scores);
  return used.size() - static_cast<std::uint64_t>(std::count(used.begin(), used.end(), 0u));
}

// Twice, the first bits kept.
template <typename Run>
std::vector<BFloat16> run_twice(const std::string& name, const ParamsCuda& p, std::size_t size,
                                testing::Report& report, Run once) {
  Device<BFloat16> out(size), again(size);
  ParamsCuda q = p;
  q.out = out.get();
  must(once(q, nullptr));
  q.out = again.get();
  must(once(q, nullptr));
  must(cudaDeviceSynchronize(), name.c_str());
  const auto got = out.fetch(), second = again.fetch();
  report.check(std::memcmp(got.data(), second.data(), got.size() * 2) == 0,
               name + ": differs between runs");
  return got;
}

// What all cases use.
struct Bench {
  Random random;
  testing::Report report;
  Late late;
  cudaStream_t stream = nullptr;

  explicit Bench(std::uint64_t seed) : random(seed) {
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  }
  ~Bench() { (void)cudaStreamDestroy(stream); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
};

// Once more, `renew` first, with inputs that come late: what p.out is, with the same bits.
template <typename Renew, typename Run>
void run_late(Bench& bench, const std::string& name, const ParamsCuda& p, Renew renew,
              const Device<BFloat16>& out, const std::vector<BFloat16>& wanted, Run once) {
  const auto attempt = [&] {
    renew();
    bench.late.poison(bench.stream);
    bench.late.write([&] { must(once(p, bench.stream)); }, bench.stream, name.c_str());
  };
  bench.report.check(bench.late.repeat(attempt),
                     name + ": inputs came before all was enqueued, each time");
  bench.report.check(std::memcmp(out.fetch().data(), wanted.data(), wanted.size() * 2) == 0,
                     name + ": differs when inputs come late");
}

struct Weights {
  testing::BothTypes gate, up, down;
};

Weights random_weights(Random& random, const ShapeCuda& s) {
  const std::int64_t all = s.experts * s.hidden * s.intermediate;
  const double scale = 2 / std::sqrt(static_cast<double>(s.hidden));
  return {testing::random_bf16(random, all, scale), testing::random_bf16(random, all, scale),
          testing::random_bf16(random, all, scale)};
}

// Scores given.
void run_plain(Bench& bench, const Case& c, const Weights& weights, Memory& memory) {
  const ShapeCuda& s = c.shape;
  Random& random = bench.random;
  const std::string name = name_of(c, "");
  const auto x = testing::random_bf16(random, c.tokens * s.hidden);
  const auto residual = testing::random_bf16(random, c.tokens * s.hidden, 0.1);
  const bool adds = random.chance(0.5);
  Inputs in{x.f32, std::vector<float>(static_cast<std::size_t>(c.tokens * s.experts)), {}};
  if (adds) in.residual = residual.f32;
  for (std::size_t i = 0; i < in.scores.size(); ++i) {
    in.scores[i] = static_cast<float>(2 * random.normal());
    if (c.crowded) in.scores[i] += static_cast<float>(i % static_cast<std::size_t>(s.experts));
    if (random.chance(0.02)) in.scores[i] = in.scores[i > 0 ? i - 1 : 0];  // equals
  }
  Device<BFloat16> d_x(x.bf16), d_residual(residual.bf16);
  Device<float> d_scores(in.scores);
  ParamsCuda p = memory.params(c);
  p.x = d_x.get();
  p.scores = d_scores.get();
  if (adds) p.residual = d_residual.get();
  memory.experts_read.zero();
  memory.chosen.zero();
  const auto got = run_twice(name, p, x.bf16.size(), bench.report, run);
  auto twice = choices(c, in.scores);
  for (std::uint32_t& count : twice) count *= 2;
  bench.report.check(memory.chosen.fetch() == twice, name + ": how many chose each");
  bench.report.check(c.tokens > kSmallBatchTokens ||
                         memory.experts_read.fetch()[0] == 2 * experts_chosen(c, in.scores),
                     name + ": experts read");
  compare_some(c, in, {weights.gate.f32, weights.up.f32, weights.down.f32}, true, got, name,
               bench.report);
  bench.late.clear();
  bench.late.add(d_x, testing::kNan);
  bench.late.add(d_residual, testing::kNan);
  bench.late.add(d_scores, testing::kNan);
  Device<BFloat16> out(got.size());
  p.out = out.get();
  run_late(
      bench, name, p, [&out] { out.poison(); }, out, got, run);
}

void copy_row(testing::BothTypes& router, std::int64_t hidden, std::int64_t from, std::int64_t to) {
  std::copy_n(router.bf16.begin() + from * hidden, hidden, router.bf16.begin() + to * hidden);
  std::copy_n(router.f32.begin() + from * hidden, hidden, router.f32.begin() + to * hidden);
}

// Many experts' rows of the router are others', next to them and far away.
void make_equals(Random& random, const ShapeCuda& s, testing::BothTypes& router) {
  for (std::int64_t e = 1; e < s.experts; ++e) {
    if (random.chance(0.4)) continue;
    copy_row(router, s.hidden, random.chance(0.5) ? e - 1 : random.between(0, e - 1), e);
  }
}

struct HostFront {
  testing::BothTypes norm, router;
};

HostFront random_front(Random& random, const Case& c) {
  const ShapeCuda& s = c.shape;
  HostFront front = {
      testing::random_bf16(random, s.hidden),
      testing::random_bf16(random, s.experts * s.hidden, 2 / std::sqrt(double(s.hidden)))};
  if (c.equals == Equals::kSome) {
    if (random.chance(0.5)) make_equals(random, s, front.router);
    return front;
  }
  const std::int64_t rows = c.equals == Equals::kAll ? 1 : 32;
  for (std::int64_t e = rows; e < s.experts; ++e) copy_row(front.router, s.hidden, e % rows, e);
  return front;
}

constexpr float kEpsilon = 1e-5f;

Inputs behind_front(const Case& c, const HostFront& front, const testing::BothTypes& residual) {
  const ShapeCuda& s = c.shape;
  Inputs in{residual.f32, {}, residual.f32};
  for (std::int64_t t = 0; t < c.tokens; ++t) {
    float* row = in.x.data() + t * s.hidden;
    const double mean = double{dot(row, row, s.hidden)} / static_cast<double>(s.hidden);
    const auto factor = static_cast<float>(1 / std::sqrt(mean + kEpsilon));
    for (std::int64_t h = 0; h < s.hidden; ++h) {
      const float weight = front.norm.f32[static_cast<std::size_t>(h)];
      row[h] = to_float(to_bfloat16(row[h] * (factor * weight)));
    }
    for (std::int64_t e = 0; e < s.experts; ++e) {
      in.scores.push_back(dot(row, front.router.f32.data() + e * s.hidden, s.hidden));
    }
  }
  return in;
}

testing::BothTypes random_residual(Random& random, const Case& c) {
  return testing::random_bf16(random, c.tokens * c.shape.hidden, 0.5);
}

struct Drawn {
  testing::BothTypes residual;
  Inputs in;
};

// Again where the first token is nearly tied, so that there is one to compare; compare_some says if
// that was in vain.
Drawn draw(Random& random, const Case& c, const HostFront& front) {
  Drawn drawn;
  for (int i = 0; i < 30; ++i) {
    drawn.residual = random_residual(random, c);
    drawn.in = behind_front(c, front, drawn.residual);
    if (!nearly_tied(c, drawn.in, 0)) break;
  }
  return drawn;
}

// The norm and the router's product too.
void run_front(Bench& bench, const Case& c, const Weights& weights, Memory& memory) {
  const ShapeCuda& s = c.shape;
  Random& random = bench.random;
  if (!front_fits(s, c.tokens, c.sms)) return;
  const std::string name = name_of(c, ", with front");
  const HostFront host = random_front(random, c);
  const Drawn drawn = draw(random, c, host);
  const std::vector<BFloat16>& residual = drawn.residual.bf16;
  Device<BFloat16> d_residual(residual), d_norm(host.norm.bf16), d_router(host.router.bf16);
  ParamsCuda p = memory.params(c);
  p.residual = d_residual.get();
  const FrontCuda front{d_norm.get(), d_router.get(), kEpsilon};
  memory.experts_read.zero();
  memory.chosen.zero();
  const auto once = [&front](const ParamsCuda& q, cudaStream_t stream) {
    return run_with_front(front, q, stream);
  };
  const auto got = run_twice(name, p, residual.size(), bench.report, once);
  const auto chose = memory.chosen.fetch();
  // Which of nearly equal ones may differ, how many not.
  const auto all = static_cast<std::uint64_t>(2 * c.tokens * s.experts_per_token);
  bench.report.check(std::accumulate(chose.begin(), chose.end(), std::uint64_t{0}) == all,
                     name + ": how many chose each");
  bench.report.check(c.tokens > 1 || memory.experts_read.fetch()[0] ==
                                         2 * static_cast<std::uint64_t>(s.experts_per_token),
                     name + ": experts read");
  compare_some(c, drawn.in, {weights.gate.f32, weights.up.f32, weights.down.f32}, false, got, name,
               bench.report);
  // What a launch leaves in the workspace would be right for the next one of the same residual: who
  // takes it for its own, is seen between others.
  const Device<BFloat16> d_other(random_residual(random, c).bf16);
  ParamsCuda other = p;
  other.residual = d_other.get();
  run_twice(name + ", another residual", other, residual.size(), bench.report, once);
  // In place, as the model does it.
  bench.late.clear();
  bench.late.add(d_residual, testing::kNan);
  p.out = d_residual.get();
  run_late(
      bench, name, p, [&] { d_residual.put(residual); }, d_residual, got, once);
}

// With front an odd number of launches, so that what the one in front left of its counts would be
// found by the one behind.
void run_case(Bench& bench, const Case& c) {
  const Weights weights = random_weights(bench.random, c.shape);
  Memory memory(c, weights.gate, weights.up, weights.down);
  run_plain(bench, c, weights, memory);
  run_front(bench, c, weights, memory);
  run_plain(bench, c, weights, memory);
}

// One token with front, whose shape decides which kernel it goes through: that it is the one
// wanted, and shares that do not come out even, few CTAs, CTAs without a part in down or in gate
// and up.
void run_one_token_shapes(Bench& bench, bool small) {
  const auto run = [&](const Case& c, bool one_token) {
    bench.report.check(front_fits(c.shape, 1, c.sms), name_of(c, ": front does not fit"));
    bench.report.check(one_token_fits(c.shape, 1, c.sms) == one_token,
                       name_of(c, ": which kernel"));
    run_case(bench, c);
  };
  run({{512, 256, 16, 8}, 1}, true);
  run({{512, 96, 9, 8}, 1, false, false, 7}, true);
  run({{256, 32, 2, 1}, 1, true, false, 131}, true);
  run({{96, 64, 5, 3}, 1, true, true, 1}, true);
  run({{256, 64, 160, 8}, 1}, false);  // more experts than threads multiply
  // The choice's border lies among equals, in one warp and across warps: the lower ones.
  run({{256, 64, 128, 8}, 1, true, false, 132, Equals::kAll}, true);
  run({{256, 64, 128, 6}, 1, true, false, 132, Equals::kFarApart}, true);
  run({{2048, 768, 8, 8}, 1}, true);  // the instance for Qwen3-30B-A3B
  if (small) return;
  // Qwen3-30B-A3B's sizes with fewer experts take the instance for them; not normalised: another.
  for (const int sms : {132, 16, 8}) run({{2048, 768, 9, 8}, 1, true, sms == 16, sms}, true);
  run({{2048, 768, 9, 8}, 1, false}, true);
  run({{1024, 768, 12, 8}, 1, true, false, 50}, true);
  run({{2048, 768, 8, 1}, 1}, true);
  run({{2048, 736, 8, 2}, 1, false, false, 33}, true);
  run({{256, 768, 33, 32}, 1}, true);
  run({{256, 256, 128, 32}, 1, false}, true);
  run({{2048, 832, 8, 2}, 1}, false);  // a lane's columns of active
  run({{4096, 64, 8, 2}, 1}, false);   // four stages
  run({{512, 8704, 4, 2}, 1}, false);
  run({{1024, 64, 240, 8}, 1, true, false, 4}, false);
  run({{1024, 64, 120, 8}, 1, true, false, 2}, false);  // the CTA's rows of the router
}

// One token and three with front in turns on one workspace, as a model's steps may be: two kernels,
// each behind what the other left, of other inputs. All twice: the same bits.
void run_in_turns(Bench& bench, const ShapeCuda& s) {
  Random& random = bench.random;
  const Case one{s, 1}, three{s, 3};
  bench.report.check(one_token_fits(s, 1, one.sms) && !one_token_fits(s, 3, three.sms),
                     name_of(three, ", in turns with one: which kernels"));
  const Weights weights = random_weights(random, s);
  const Memory memory(three, weights.gate, weights.up, weights.down);
  const HostFront host = random_front(random, three);
  const Device<BFloat16> d_norm(host.norm.bf16), d_router(host.router.bf16);
  const FrontCuda front{d_norm.get(), d_router.get(), kEpsilon};
  struct Turn {
    Case c;
    Drawn drawn;
    Device<BFloat16> residual, out, again;
  };
  std::vector<Turn> turns;
  for (int i = 0; i < 6; ++i) {
    const Case& c = i % 2 == 0 ? one : three;
    Drawn drawn = draw(random, c, host);
    Device<BFloat16> residual(drawn.residual.bf16);
    const std::size_t size = residual.size();
    turns.push_back(
        {c, std::move(drawn), std::move(residual), Device<BFloat16>(size), Device<BFloat16>(size)});
  }
  for (const auto out : {&Turn::out, &Turn::again}) {
    for (const Turn& turn : turns) {
      ParamsCuda p = memory.params(turn.c);
      p.residual = turn.residual.get();
      p.out = (turn.*out).get();
      must(run_with_front(front, p, nullptr));
    }
  }
  must(cudaDeviceSynchronize(), "in turns");
  for (const Turn& turn : turns) {
    const std::string name = name_of(turn.c, ", with front, in turns");
    const auto got = turn.out.fetch(), again = turn.again.fetch();
    bench.report.check(std::memcmp(got.data(), again.data(), got.size() * 2) == 0,
                       name + ": differs between runs");
    compare_some(turn.c, turn.drawn.in, {weights.gate.f32, weights.up.f32, weights.down.f32}, false,
                 got, name, bench.report);
  }
}

// A token alone and among others, on the same way: the same bits.
void run_neighbours(Bench& bench, const ShapeCuda& s, std::int64_t few, std::int64_t many) {
  Random& random = bench.random;
  Case c{s, many};
  const Weights weights = random_weights(random, s);
  Memory memory(c, weights.gate, weights.up, weights.down);
  const auto x = testing::random_bf16(random, many * s.hidden);
  std::vector<float> scores(static_cast<std::size_t>(many * s.experts));
  for (float& score : scores) score = static_cast<float>(2 * random.normal());
  Device<BFloat16> d_x(x.bf16);
  Device<float> d_scores(scores);
  ParamsCuda p = memory.params(c);
  p.x = d_x.get();
  p.scores = d_scores.get();
  const auto all = run_twice(name_of(c, ""), p, x.bf16.size(), bench.report, run);
  p.tokens = few;
  const auto alone = run_twice(name_of(c, ""), p, x.bf16.size(), bench.report, run);
  bench.report.check(
      std::memcmp(all.data(), alone.data(), static_cast<std::size_t>(few * s.hidden * 2)) == 0,
      name_of(c, "") + ": bits depend on other tokens");
}

// Host memory that the device reads in place.
class Mapped {
 public:
  explicit Mapped(const std::vector<BFloat16>& values) {
    const std::size_t bytes = values.size() * sizeof(BFloat16);
    must(cudaHostAlloc(&data_, bytes, cudaHostAllocMapped | cudaHostAllocPortable), "host memory");
    std::memcpy(data_, values.data(), bytes);
  }
  ~Mapped() { (void)cudaFreeHost(data_); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  const BFloat16* get() const { return static_cast<const BFloat16*>(data_); }

 private:
  void* data_ = nullptr;
};

// Some experts at home, others not, and all moved between steps: the bits of all in HBM.
void run_at_home(Bench& bench, const Case& c) {
  const ShapeCuda& s = c.shape;
  Random& random = bench.random;
  const std::string name = name_of(c, ", some experts at home");
  const Weights weights = random_weights(random, s);
  Memory memory(c, weights.gate, weights.up, weights.down);
  const Mapped gate(weights.gate.bf16), up(weights.up.bf16), down(weights.down.bf16);
  const auto x = testing::random_bf16(random, c.tokens * s.hidden);
  const HostFront host = random_front(random, c);
  const Device<BFloat16> d_x(x.bf16), d_norm(host.norm.bf16), d_router(host.router.bf16);
  std::vector<float> scores(static_cast<std::size_t>(c.tokens * s.experts));
  for (float& score : scores) score = static_cast<float>(2 * random.normal());
  const Device<float> d_scores(scores);
  const FrontCuda front{d_norm.get(), d_router.get(), kEpsilon};
  const auto once = [&](const ParamsCuda& p, cudaStream_t stream) {
    return front_fits(s, c.tokens, c.sms) ? run_with_front(front, p, stream) : run(p, stream);
  };
  ParamsCuda p = memory.params(c);
  p.x = p.residual = d_x.get();
  p.scores = d_scores.get();
  const auto wanted = run_twice(name, p, x.bf16.size(), bench.report, once);
  const std::size_t each = weights.gate.bf16.size() / static_cast<std::size_t>(s.experts);
  for (int step = 0; step < 4; ++step) {
    auto gates = table_of(memory.gate, s.experts), ups = table_of(memory.up, s.experts),
         downs = table_of(memory.down, s.experts);
    for (std::size_t e = 0; e < gates.size(); ++e) {
      if (step == 0 || random.chance(0.5)) {
        const std::size_t at = (gates.size() - 1 - e) * each;
        gates[e] = gate.get() + at;
        ups[e] = up.get() + at;
        downs[e] = down.get() + at;
      }
    }
    memory.gates.put(gates);
    memory.ups.put(ups);
    memory.downs.put(downs);
    const auto got = run_twice(name, p, x.bf16.size(), bench.report, once);
    bench.report.check(std::memcmp(got.data(), wanted.data(), got.size() * 2) == 0,
                       name + ": other bits than with all in HBM");
  }
}

int run_all(std::uint64_t seed, bool small) {
  if (!testing::has_gpu()) return testing::kSkipped;
  std::printf("seed %lu\n", seed);
  Bench bench(seed);
  Random& random = bench.random;
  const ShapeCuda qwen{2048, 768, 32, 8}, few{256, 384, 128, 8}, mixtral{512, 1792, 8, 2};
  run_one_token_shapes(bench, small);
  // One token and several on few CTAs, so that each goes around its ring often.
  run_case(bench, {{1024, 256, 4, 2}, 1, true, false, 3});
  run_case(bench, {{1024, 256, 8, 2}, 5, true, false, 5});
  run_case(bench, {{320, 96, 24, 4}, 9, false, false, 7});
  run_case(bench, {{768, 768, 4, 2}, 3});    // stages of three rounds
  run_case(bench, {{64, 64, 200, 8}, 100});  // more than 128 experts and 64 tokens
  if (!small) {
    run_case(bench, {qwen, 1});
    run_case(bench, {qwen, 32});
    run_case(bench, {{4096, 1024, 8, 2}, 2});
    run_case(bench, {{256, 64, 512, 32}, 1});
    run_case(bench, {{256, 64, 512, 32}, 5});
    run_case(bench, {{256, 64, 512, 32}, 64, true, true});
    run_case(bench, {{256, 64, 1, 1}, 40});
    for (const std::int64_t tokens : {1, 2, 7, 8, 9, 33, 64, 65, 257, 1000, 3001}) {
      run_case(bench, {few, tokens, random.chance(0.5), random.chance(0.3)});
      run_case(bench, {mixtral, tokens, random.chance(0.5), random.chance(0.3)});
    }
  }
  for (int i = 0; i < (small ? 2 : 30); ++i) {
    Case c;
    c.shape.hidden = 32 * random.between(1, 12);
    c.shape.intermediate = 32 * random.between(1, 12);
    c.shape.experts = random.between(1, random.chance(0.2) ? 300 : 40);
    c.shape.experts_per_token = random.between(1, std::min<std::int64_t>(c.shape.experts, 32));
    c.tokens = random.chance(0.3) ? 1 : random.between(1, small ? 70 : 300);
    c.normalise = random.chance(0.5);
    c.crowded = random.chance(0.3);
    c.sms = static_cast<int>(random.chance(0.5) ? 132 : random.between(1, 132));
    run_case(bench, c);
  }
  run_at_home(bench, {{2048, 768, 9, 8}, 1});
  run_at_home(bench, {{256, 64, 160, 8}, 1});
  for (const std::int64_t tokens : {5, 40, 200}) run_at_home(bench, {{512, 256, 24, 4}, tokens});
  run_in_turns(bench, {512, 256, 16, 4});
  run_neighbours(bench, {512, 256, 32, 4}, 1, 64);
  run_neighbours(bench, {256, 384, 16, 4}, 9, 33);
  const auto refuses = [&bench](const ParamsCuda& p, const char* what) {
    bench.report.check(!run(p, nullptr).ok(), what);
  };
  refuses({.shape = {48, 32, 4, 2}, .tokens = 1, .sm_count = 132}, "hidden 48");
  refuses({.shape = {64, 32, 4, 5}, .tokens = 1, .sm_count = 132}, "5 of 4");
  refuses({.shape = {64, 32, 4, 2}, .tokens = 1}, "no SMs");
  return bench.report.finish();
}

}  // namespace
}  // namespace causeway::kernels::moe

int main(int argc, char** argv) {
  causeway::Arguments arguments(argc, argv);
  const auto seed = arguments.number("--seed", std::uint64_t{20260101});
  const bool small = arguments.flag("--small");
  arguments.finish();
  return causeway::kernels::moe::run_all(seed, small);
}
