// What an engine's iteration asks of the KV cache. Items are sequences, or tokens matched.
#include "kv/kv_cache.h"

#include <benchmark/benchmark.h>

#include <numeric>
#include <vector>

#include "kv/prefix_hash.h"

namespace causeway::kv {
namespace {

constexpr ModelId kModel{0};
constexpr std::int64_t kBlock = 32;

std::vector<TokenId> tokens_from(std::int64_t first, std::int64_t count) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), static_cast<TokenId>(first));
  return tokens;
}

// Open, grow, commit and release of a prompt of `range` tokens that is not cached.
void prompt_life(benchmark::State& state) {
  KvCache cache({.frames = 20'000});
  cache.add_model(kModel, Tokens(kBlock));
  auto tokens = tokens_from(0, state.range(0));
  std::int64_t id = 0;
  for (auto _ : state) {
    tokens[0] = static_cast<TokenId>(id);
    cache.open(RequestId(id), kModel, tokens);
    benchmark::DoNotOptimize(cache.grow(RequestId(id), Tokens(state.range(0))));
    cache.commit(RequestId(id), tokens, StepId(id));
    cache.step_done(StepId(id));
    cache.release(RequestId(id), StepId(id));
    ++id;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(prompt_life)->Arg(32)->Arg(1'024)->Arg(32'768);

// One decode step of `range` running sequences: a token each.
void decode_step(benchmark::State& state) {
  constexpr std::int64_t kContextMax = 4'096;
  const std::int64_t running = state.range(0);
  KvCache cache({.frames = running * kContextMax / kBlock});
  cache.add_model(kModel, Tokens(kBlock));
  const auto tokens = tokens_from(0, kContextMax + running);
  std::int64_t step = 0, length = kContextMax;
  for (auto _ : state) {
    if (length == kContextMax) {
      state.PauseTiming();
      for (std::int64_t i = 0; i < running; ++i) {
        if (step > 0) cache.release(RequestId(i), StepId());
        cache.open(RequestId(i), kModel, {});
      }
      length = 0;
      state.ResumeTiming();
    }
    ++length;
    for (std::int64_t i = 0; i < running; ++i) {
      benchmark::DoNotOptimize(cache.grow(RequestId(i), Tokens(length)));
      const auto from = static_cast<std::size_t>(i);
      cache.commit(RequestId(i), std::span(tokens).subspan(from, static_cast<std::size_t>(length)),
                   StepId(step));
    }
    cache.step_done(StepId(step++));
  }
  state.SetItemsProcessed(state.iterations() * running);
}
BENCHMARK(decode_step)->Arg(10)->Arg(1'000)->Unit(benchmark::kMicrosecond);

void match_prefix(benchmark::State& state) {
  KvCache cache({.frames = 8'192});
  cache.add_model(kModel, Tokens(kBlock));
  const auto tokens = tokens_from(0, state.range(0) + 1);
  cache.open(RequestId(0), kModel, tokens);
  benchmark::DoNotOptimize(cache.grow(RequestId(0), Tokens(state.range(0) + 1)));
  cache.commit(RequestId(0), tokens, StepId());
  for (auto _ : state) benchmark::DoNotOptimize(cache.match_prefix(kModel, tokens));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(match_prefix)->Arg(32)->Arg(1'024)->Arg(131'072);

void match_nothing(benchmark::State& state) {
  KvCache cache({.frames = 8'192});
  cache.add_model(kModel, Tokens(kBlock));
  const auto tokens = tokens_from(0, 8'192);
  for (auto _ : state) benchmark::DoNotOptimize(cache.match_prefix(kModel, tokens));
}
BENCHMARK(match_nothing);

// A sequence of `range` tokens whose full blocks were copied eagerly is rotated out and in: the
// costs, both rotations, and the bookkeeping of all copies.
void rotation(benchmark::State& state) {
  const std::int64_t blocks = state.range(0) / kBlock + 1;
  KvCache cache({.frames = 2 * blocks, .twins = 2 * blocks});
  cache.add_model(kModel, Tokens(kBlock));
  const auto tokens = tokens_from(0, state.range(0) + 1);
  const RequestId id(0);
  cache.open(id, kModel, {});
  benchmark::DoNotOptimize(cache.grow(id, Tokens(std::ssize(tokens))));
  cache.commit(id, tokens, StepId());
  std::vector<KvCopy> copies;
  std::vector<RequestId> lost;
  const auto copy_all = [&] {
    copies.clear();
    cache.take_copies(blocks, copies);
    for (const KvCopy& copy : copies) cache.copy_ended(copy.id, true, lost);
  };
  copy_all();
  for (auto _ : state) {
    benchmark::DoNotOptimize(cache.rotate_out_cost(id));
    benchmark::DoNotOptimize(cache.rotate_out(id, StepId()));
    copy_all();
    benchmark::DoNotOptimize(cache.rotate_in_cost(id));
    benchmark::DoNotOptimize(cache.rotate_in(id));
    copy_all();
  }
  state.SetItemsProcessed(state.iterations() * blocks);
}
BENCHMARK(rotation)->Arg(1'024)->Arg(32'768)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace causeway::kv
