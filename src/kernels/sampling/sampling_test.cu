// Sampling on a GPU against the host's definition: every parameter alone and mixed, vocabularies of
// the catalogue and awkward ones, ties, infinities and NaN, edits of single tokens; a row's token
// must not depend on its batch, nor on whether the kernel knows edits; draws must follow the
// distribution.     sampling_gpu_test [--seed S] [--small]
#include "base/testing/arguments.h"
#include "kernels/sampling/sampling.h"
#include "kernels/sampling/sampling_cuda.h"
#include "kernels/testing/gpu.cuh"

namespace causeway::kernels::sampling {
namespace {

using testing::Device;
using testing::must;

struct Batch {
  std::int64_t vocab = 0, stride = 0;
  std::vector<float> logits;  // [rows][stride]
  std::vector<RowCuda> rows;
  std::vector<TokenId> history;
  std::vector<RowEditsCuda> row_edits;  // a row each
  std::vector<TokenEditCuda> edits;
  std::vector<std::uint32_t> masks;
};

struct Answers {
  std::vector<TokenId> token, top_token;
  std::vector<float> logprob, top_logprob;
};

struct How {
  bool all_greedy = false;
  bool edits = true;  // the kernel that knows them
};

Answers run_on_gpu(const Batch& b, How how = {}) {
  Device<float> logits(b.logits);
  Device<RowCuda> rows(b.rows);
  Device<TokenId> history(b.history), token(b.rows.size()),
      top_token(b.rows.size() * kTopLogprobsMax);
  Device<float> logprob(b.rows.size()), top_logprob(top_token.size());
  Device<RowEditsCuda> row_edits(b.row_edits);
  Device<TokenEditCuda> edits(b.edits);
  Device<std::uint32_t> masks(b.masks);
  must(run({.rows = static_cast<std::int64_t>(b.rows.size()),
            .vocab = b.vocab,
            .logits = logits.get(),
            .logits_stride = b.stride,
            .row = rows.get(),
            .history = history.get(),
            .token = token.get(),
            .logprob = logprob.get(),
            .top_token = top_token.get(),
            .top_logprob = top_logprob.get(),
            .top_stride = kTopLogprobsMax,
            .row_edits = how.edits ? row_edits.get() : nullptr,
            .edit = how.edits ? edits.get() : nullptr,
            .mask = how.edits ? masks.get() : nullptr,
            .all_greedy = how.all_greedy,
            .penalties = !b.history.empty()},
           nullptr));
  must(cudaDeviceSynchronize(), "sampling");
  return {token.fetch(), top_token.fetch(), logprob.fetch(), top_logprob.fetch()};
}

// A row's edits as the host takes them.
struct HostEdits {
  std::vector<TokenId> allowed, banned;
  std::vector<TokenBias> bias;
  std::span<const std::uint32_t> mask;

  HostEdits(const Batch& b, const RowEditsCuda& row) {
    mask = std::span(b.masks).subspan(static_cast<std::size_t>(row.mask_begin),
                                      static_cast<std::size_t>(row.mask_words));
    const TokenEditCuda* at = b.edits.data() + row.begin;
    for (int i = 0; i < row.allowed; ++i) allowed.push_back((at++)->token);
    for (int i = 0; i < row.biased; ++i, ++at) bias.push_back({at->token, at->bias});
    for (int i = 0; i < row.banned; ++i) banned.push_back((at++)->token);
  }
};

Params host_params(const Batch& b, const RowCuda& r, const HostEdits& edits) {
  Params p;
  p.mask = edits.mask;
  p.allowed = edits.allowed;
  p.bias = edits.bias;
  p.banned = edits.banned;
  p.temperature = r.temperature;
  p.top_p = r.top_p;
  p.top_k = r.top_k;
  p.min_p = r.min_p;
  p.presence_penalty = r.presence_penalty;
  p.frequency_penalty = r.frequency_penalty;
  p.repetition_penalty = r.repetition_penalty;
  p.seed = r.seed;
  p.position = r.position;
  p.top_logprobs = r.top_logprobs;
  p.history = std::span<const TokenId>(b.history).subspan(
      static_cast<std::size_t>(r.history_begin), static_cast<std::size_t>(r.history_tokens));
  p.prompt_tokens = r.prompt_tokens;
  return p;
}

RowCuda random_row(Random& random, Batch& b) {
  RowCuda r;
  r.temperature = random.chance(0.15) ? 0.0f : static_cast<float>(0.2 + 1.5 * random.uniform());
  if (random.chance(0.4)) r.top_p = static_cast<float>(0.05 + 0.94 * random.uniform());
  if (random.chance(0.4)) {
    r.top_k = static_cast<std::int32_t>(random.chance(0.5) ? random.between(1, 60)
                                                           : random.between(1, b.vocab + 5));
  }
  if (random.chance(0.3)) r.min_p = static_cast<float>(0.3 * random.uniform());
  if (random.chance(0.4)) r.top_logprobs = static_cast<std::int32_t>(random.between(0, 20));
  r.seed = random.bits();
  r.position = random.between(0, 4000);
  if (random.chance(0.4)) {
    r.history_begin = static_cast<std::int64_t>(b.history.size());
    r.history_tokens = static_cast<std::int32_t>(random.between(0, 700));
    r.prompt_tokens = static_cast<std::int32_t>(random.between(0, r.history_tokens));
    for (int i = 0; i < r.history_tokens; ++i) {
      b.history.push_back(static_cast<TokenId>(
          random.chance(0.5) ? random.below(b.vocab) : random.below(std::min(b.vocab, 20L))));
    }
    if (random.chance(0.6)) r.presence_penalty = static_cast<float>(random.uniform());
    if (random.chance(0.6)) r.frequency_penalty = static_cast<float>(random.uniform());
    if (random.chance(0.6)) r.repetition_penalty = static_cast<float>(0.7 + random.uniform());
  }
  r.active = random.chance(0.05) ? 0 : 1;
  return r;
}

// Dense, or of a few tokens; one may end before the vocabulary does.
void random_mask(Random& random, Batch& b, RowEditsCuda& edits) {
  const std::int64_t words = (b.vocab + 31) / 32;
  edits.mask_begin = static_cast<std::int64_t>(b.masks.size());
  edits.mask_words =
      static_cast<std::int32_t>(random.chance(0.1) ? random.between(1, words) : words);
  const double density = random.chance(0.5) ? 0.5 : 0.01;
  for (int word = 0; word < edits.mask_words; ++word) {
    std::uint32_t bits = 0;
    for (int bit = 0; bit < 32; ++bit) bits |= random.chance(density) ? 1u << bit : 0u;
    b.masks.push_back(bits);
  }
}

// Ids outside the vocabulary come, too, and allowed and banned ones twice; biased ones once.
RowEditsCuda random_edits(Random& random, Batch& b) {
  RowEditsCuda edits;
  edits.begin = static_cast<std::int64_t>(b.edits.size());
  const auto any = [&] { return static_cast<TokenId>(random.between(-1, b.vocab)); };
  const auto some = [&] {
    return static_cast<std::int32_t>(random.chance(0.2) ? random.between(0, kAllowedMax)
                                                        : random.between(0, 12));
  };
  if (random.chance(0.4)) edits.allowed = some();
  for (int i = 0; i < edits.allowed; ++i) b.edits.push_back({any(), 0.0f});
  if (random.chance(0.6)) {
    const std::int64_t wanted = std::min<std::int64_t>(some(), b.vocab);
    const std::int64_t first = random.below(b.vocab);
    for (std::int64_t i = 0; i < wanted; ++i) {
      const double bias =
          random.chance(0.3) ? 100.0 * (random.chance(0.5) ? 1 : -1) : 8 * random.uniform() - 4;
      b.edits.push_back({static_cast<TokenId>((first + i) % b.vocab), static_cast<float>(bias)});
    }
    edits.biased = static_cast<std::int32_t>(wanted);
  }
  if (random.chance(0.4)) edits.banned = some();
  for (int i = 0; i < edits.banned; ++i) b.edits.push_back({any(), 0.0f});
  if (random.chance(0.4)) random_mask(random, b, edits);
  return edits;
}

Batch random_batch(Random& random, std::int64_t vocab, std::int64_t rows) {
  Batch b{.vocab = vocab, .stride = vocab + random.between(0, 3)};
  b.logits.assign(static_cast<std::size_t>(rows * b.stride), NAN);
  for (std::int64_t r = 0; r < rows; ++r) {
    const double spread = random.chance(0.5) ? 3.0 : 0.3 + 6 * random.uniform();
    const bool coarse = random.chance(0.3);  // as bf16 logits are: many equals
    for (std::int64_t i = 0; i < vocab; ++i) {
      float x = static_cast<float>(spread * random.normal());
      if (coarse) x = to_float(to_bfloat16(x));
      if (random.chance(0.01)) x = -INFINITY;
      if (random.chance(0.0005)) x = NAN;
      b.logits[static_cast<std::size_t>(r * b.stride + i)] = x;
    }
    if (random.chance(0.1)) {
      const float same = random.chance(0.3) ? NAN : random.chance(0.3) ? -INFINITY : 1.5f;
      std::fill_n(b.logits.begin() + r * b.stride, vocab, same);
    }
    b.rows.push_back(random_row(random, b));
    b.row_edits.push_back(random.chance(0.4) ? random_edits(random, b) : RowEditsCuda{});
  }
  return b;
}

struct Tally {
  int draws = 0, differ = 0;
};

void compare_row(const Batch& b, std::size_t r, const Answers& got, Tally& tally,
                 testing::Report& report) {
  const RowCuda& row = b.rows[r];
  const std::string name =
      "vocab " + std::to_string(b.vocab) + " row " + std::to_string(r) + " T " +
      std::to_string(row.temperature) + " top_k " + std::to_string(row.top_k) + " top_p " +
      std::to_string(row.top_p) + " min_p " + std::to_string(row.min_p) + " history " +
      std::to_string(row.history_tokens) + " edits " + std::to_string(b.row_edits[r].allowed) +
      "+" + std::to_string(b.row_edits[r].biased) + "+" + std::to_string(b.row_edits[r].banned) +
      " mask " + std::to_string(b.row_edits[r].mask_words);
  if (row.active == 0) {
    report.check(got.token[r] == -1, name + ": an empty place");
    return;
  }
  const float* raw = b.logits.data() + r * static_cast<std::size_t>(b.stride);
  std::vector<float> logits(raw, raw + b.vocab);
  const HostEdits edits(b, b.row_edits[r]);
  const Sample want = sample(logits, host_params(b, row, edits));
  ++tally.draws;
  report.check((got.token[r] == kNoToken) == (want.token == kNoToken),
               name + ": token " + std::to_string(got.token[r]) + ", number or none");
  if (got.token[r] != want.token) {
    ++tally.differ;
    report.check(
        row.temperature > 0 && got.token[r] >= 0 && got.token[r] < b.vocab,
        name + ": token " + std::to_string(got.token[r]) + " not " + std::to_string(want.token));
  }
  if (row.top_logprobs < 0) return;
  if (got.token[r] == want.token && std::isfinite(want.logprob)) {
    report.error_at_most(std::abs(double{got.logprob[r]} - want.logprob), 2e-5, name + ": logprob");
  }
  for (std::size_t i = 0; i < want.top.size(); ++i) {
    const std::size_t at = r * kTopLogprobsMax + i;
    report.check(got.top_token[at] == want.top[i].first, name + ": top " + std::to_string(i));
    if (!std::isfinite(want.top[i].second)) continue;
    report.error_at_most(std::abs(double{got.top_logprob[at]} - want.top[i].second), 2e-5,
                         name + ": top logprob " + std::to_string(i));
  }
  for (auto i = want.top.size(); i < static_cast<std::size_t>(row.top_logprobs); ++i) {
    report.check(got.top_token[r * kTopLogprobsMax + i] == -1,
                 name + ": no top " + std::to_string(i));
  }
}

// A row on its own gives what it gave in its batch.
void check_alone(const Batch& b, const Answers& got, std::size_t r, testing::Report& report) {
  Batch one{.vocab = b.vocab, .stride = b.stride};
  const auto begin = b.logits.begin() + static_cast<std::ptrdiff_t>(r) * b.stride;
  one.logits.assign(begin, begin + b.stride);
  one.rows = {b.rows[r]};
  one.history = b.history;
  one.row_edits = {b.row_edits[r]};
  one.edits = b.edits;
  one.masks = b.masks;
  report.check(run_on_gpu(one).token[0] == got.token[r], "a row alone differs from its batch");
}

void check_greedy(Random& random, std::int64_t vocab, std::int64_t rows, testing::Report& report) {
  Batch b = random_batch(random, vocab, rows);
  for (RowCuda& row : b.rows) row = RowCuda{.temperature = 0};
  for (RowEditsCuda& edits : b.row_edits) edits = RowEditsCuda{};
  const Answers fast = run_on_gpu(b, {.all_greedy = true}), full = run_on_gpu(b);
  report.check(fast.token == full.token, "greedy differs, vocab " + std::to_string(vocab));
}

// Rows without edits get from the kernel that knows them what they get from the other.
void check_without_edits(Random& random, std::int64_t vocab, std::int64_t rows,
                         testing::Report& report) {
  Batch b = random_batch(random, vocab, rows);
  for (RowEditsCuda& edits : b.row_edits) edits = RowEditsCuda{};
  const Answers with = run_on_gpu(b), without = run_on_gpu(b, {.edits = false});
  report.check(with.token == without.token,
               "no edits: tokens differ, vocab " + std::to_string(vocab));
  for (std::size_t r = 0; r < b.rows.size(); ++r) {
    const bool compared = b.rows[r].active == 1 && b.rows[r].top_logprobs >= 0;
    if (!compared || std::isnan(with.logprob[r])) continue;
    report.check(with.logprob[r] == without.logprob[r], "no edits: log-probabilities differ");
  }
}

// Rows of NaN alone have no token, whatever they ask for, and rows beside them, of one number that
// any thread may hold, have theirs.
void check_no_numbers(Random& random, std::int64_t vocab, testing::Report& report) {
  const auto last = static_cast<TokenId>(vocab - 1);
  const RowCuda kinds[] = {{.temperature = 0},
                           {.temperature = 0, .top_logprobs = 3},
                           {.temperature = 1},
                           {.temperature = 0.7f, .top_k = 5},
                           {.temperature = 0.7f, .top_p = 0.9f, .top_logprobs = 0},
                           {.temperature = 1, .min_p = 0.1f},
                           {.repetition_penalty = 1.5f, .history_tokens = 2}};
  for (const bool greedy : {true, false}) {
    Batch b{.vocab = vocab, .stride = vocab + 1};
    if (!greedy) b.history = {0, last};
    std::vector<TokenId> want;
    const auto add = [&](const RowCuda& row, TokenId number) {
      b.logits.insert(b.logits.end(), static_cast<std::size_t>(b.stride), NAN);
      if (number >= 0) b.logits[b.rows.size() * static_cast<std::size_t>(b.stride) +
                                static_cast<std::size_t>(number)] = -3;
      b.rows.push_back(row);
      const bool edited = !greedy && number < 0 && random.chance(0.5);
      b.row_edits.push_back({.begin = 0, .allowed = edited ? 2 : 0});
      want.push_back(number);
    };
    b.edits = {{0, 0.0f}, {last, 0.0f}};
    for (const RowCuda& row : kinds) {
      if (greedy && (row.temperature > 0 || row.top_logprobs >= 0)) continue;
      add(row, kNoToken);
      add(row, last);
      add(row, kNoToken);
      add(row, static_cast<TokenId>(random.below(vocab)));
    }
    const Answers got = run_on_gpu(b, {.all_greedy = greedy});
    report.check(got.token == want, "rows of NaN alone, vocab " + std::to_string(vocab));
    Tally tally;
    for (std::size_t r = 0; r < b.rows.size(); ++r) compare_row(b, r, got, tally, report);
  }
}

// Temperatures whose inverse is beyond f32 leave the best logits, of which a few are equal here.
void check_cold(Random& random, testing::Report& report) {
  Batch b{.vocab = 4099, .stride = 4099};
  for (const float temperature : {1e-30f, 3e-39f, 1e-39f, 1.4e-45f}) {
    for (int i = 0; i < 8; ++i) {
      for (int id = 0; id < b.vocab; ++id) {
        b.logits.push_back(static_cast<float>(random.between(-40, 4)));
      }
      b.rows.push_back({.temperature = temperature,
                        .top_p = i % 2 == 0 ? 1.0f : 0.5f,
                        .min_p = i / 2 % 2 == 0 ? 0.0f : 0.2f,
                        .top_logprobs = i < 4 ? -1 : 5,
                        .seed = random.bits(),
                        .position = i});
      b.row_edits.push_back({});
    }
  }
  const Answers got = run_on_gpu(b);
  Tally tally;
  for (std::size_t r = 0; r < b.rows.size(); ++r) compare_row(b, r, got, tally, report);
  report.check(tally.differ == 0, "tokens at temperatures near nought");
}

// 4,096 draws of one row by position: within five standard deviations of what is expected.
void check_distribution(testing::Report& report) {
  const int draws = 4096, vocab = 50;
  Batch b{.vocab = vocab, .stride = vocab};
  std::vector<double> expected(vocab);
  double total = 0;
  for (int i = 0; i < vocab; ++i)
    total += expected[static_cast<std::size_t>(i)] = std::exp(0.06 * i);
  for (int d = 0; d < draws; ++d) {
    for (int i = 0; i < vocab; ++i) b.logits.push_back(0.06f * static_cast<float>(i));
    b.rows.push_back({.seed = 7, .position = d});
    b.row_edits.push_back({});
  }
  const Answers got = run_on_gpu(b);
  std::vector<int> counts(vocab);
  for (const TokenId token : got.token) ++counts.at(static_cast<std::size_t>(token));
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double p = expected[i] / total;
    const double deviation = std::abs(counts[i] - draws * p) / std::sqrt(draws * p * (1 - p));
    report.error_at_most(deviation, 5, "distribution at " + std::to_string(i));
  }
}

int run_all(std::uint64_t seed, bool small) {
  if (!testing::has_gpu()) return testing::kSkipped;
  std::printf("seed %lu\n", seed);
  Random random(seed);
  testing::Report report;
  Tally tally;
  const std::vector<std::int64_t> few = {1, 33, 400},
                                  all = {1,    2,     7,      31,     32,     33,       1000,
                                         4099, 32000, 128256, 151936, 262208, kVocabMax};
  for (const std::int64_t vocab : small ? few : all) {
    const Batch b = random_batch(random, vocab, small ? 6 : vocab > 5000 ? 96 : 257);
    const Answers got = run_on_gpu(b);
    for (std::size_t r = 0; r < b.rows.size(); ++r) compare_row(b, r, got, tally, report);
    // racecheck takes seconds a row.
    for (int i = 0; i < (small ? vocab == few.back() : 4); ++i) {
      const auto r = static_cast<std::size_t>(random.below(static_cast<long>(b.rows.size())));
      check_alone(b, got, r, report);
    }
    check_greedy(random, vocab, small ? 3 : 9, report);
    check_without_edits(random, vocab, small ? 3 : 17, report);
    check_no_numbers(random, vocab, report);
  }
  check_cold(random, report);
  if (!small) check_distribution(report);
  std::printf("%d of %d tokens differ from the host's, by rounding\n", tally.differ, tally.draws);
  report.error_at_most(tally.differ, 2 + 0.01 * tally.draws, "tokens that differ from the host's");
  report.check(!run({.rows = 1, .vocab = kVocabMax + 1}, nullptr).ok(), "a vocabulary too large");
  return report.finish();
}

}  // namespace
}  // namespace causeway::kernels::sampling

int main(int argc, char** argv) {
  causeway::Arguments arguments(argc, argv);
  const auto seed = arguments.number("--seed", std::uint64_t{20260101});
  const bool small = arguments.flag("--small");
  arguments.finish();
  return causeway::kernels::sampling::run_all(seed, small);
}
