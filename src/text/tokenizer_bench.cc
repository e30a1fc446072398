// Encoding and decoding of a long English text, and loading. Needs the test data.
#include <benchmark/benchmark.h>

#include "base/testing/test_data.h"
#include "text/detokenizer.h"

namespace causeway::text {
namespace {

constexpr const char* kDirectories[] = {"tokenizers/llama-3", "tokenizers/qwen3",
                                        "tokenizers/llama-2", "tokenizers/qwen1"};

struct Inputs {
  std::unique_ptr<Tokenizer> tokenizer;
  std::string text;
};

Inputs load_inputs(benchmark::State& state) {
  Inputs inputs;
  const char* name = kDirectories[state.range(0)];
  const auto directory = test_data(name);
  const auto text = test_data("texts/war-and-peace.txt");
  if (!directory || !text) {
    state.SkipWithError("needs the test data: set CAUSEWAY_TEST_DATA");
    return inputs;
  }
  auto tokenizer = load_tokenizer(*directory);
  if (!tokenizer.ok()) {
    state.SkipWithError(tokenizer.error().message.c_str());
    return inputs;
  }
  state.SetLabel(name);
  inputs.tokenizer = std::move(tokenizer).value();
  inputs.text = read_bytes(*text);
  return inputs;
}

void encode_book(benchmark::State& state) {
  const Inputs inputs = load_inputs(state);
  std::size_t tokens = 0;
  for (auto _ : state) {
    const auto ids = inputs.tokenizer->encode(inputs.text, {});
    if (!ids.ok()) return state.SkipWithError(ids.error().message.c_str());
    tokens = ids->size();
    benchmark::DoNotOptimize(ids->data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(inputs.text.size()));
  state.counters["tokens"] = static_cast<double>(tokens);
}
BENCHMARK(encode_book)->DenseRange(0, 3)->Unit(benchmark::kMillisecond);

// No spaces: one word as long as the text.
void encode_one_word(benchmark::State& state) {
  Inputs inputs = load_inputs(state);
  std::erase_if(inputs.text, [](char c) { return (c | 0x20) < 'a' || (c | 0x20) > 'z'; });
  for (auto _ : state) {
    const auto ids = inputs.tokenizer->encode(inputs.text, {});
    if (!ids.ok()) return state.SkipWithError(ids.error().message.c_str());
    benchmark::DoNotOptimize(ids->data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(inputs.text.size()));
}
BENCHMARK(encode_one_word)->DenseRange(0, 3)->Unit(benchmark::kMillisecond);

void decode_book(benchmark::State& state) {
  const Inputs inputs = load_inputs(state);
  if (inputs.tokenizer == nullptr) return;
  const auto ids = inputs.tokenizer->encode(inputs.text, {});
  if (!ids.ok()) return state.SkipWithError(ids.error().message.c_str());
  for (auto _ : state) {
    Detokenizer detokenizer(*inputs.tokenizer);
    for (const TokenId id : *ids) benchmark::DoNotOptimize(detokenizer.push(id, true));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(ids->size()));
}
BENCHMARK(decode_book)->DenseRange(0, 3)->Unit(benchmark::kMillisecond);

void load(benchmark::State& state) {
  const auto directory = test_data(kDirectories[state.range(0)]);
  if (!directory) return state.SkipWithError("needs the test data: set CAUSEWAY_TEST_DATA");
  state.SetLabel(kDirectories[state.range(0)]);
  for (auto _ : state) benchmark::DoNotOptimize(load_tokenizer(*directory).ok());
}
BENCHMARK(load)->DenseRange(0, 3)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace causeway::text
