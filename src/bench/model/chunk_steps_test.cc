#include "bench/model/chunk_steps.h"

#include <gtest/gtest.h>

#include <map>

#include "base/testing/must.h"

namespace causeway::model::chunk_steps_test {
namespace {

ChunkBenchOptions tiny() {
  ChunkBenchOptions options;
  ModelConfig& c = options.config;
  c.hidden = 64;
  c.intermediate = 96;
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 16;
  c.vocab = 128;
  c.max_position = Tokens(100);
  options.chunks = {Tokens(1), Tokens(64), Tokens(250)};
  options.decodes = 3;
  options.decode_context = 20;
  options.runs = 3;
  return options;
}

std::int64_t tokens_of(const std::vector<BatchPart>& parts) {
  std::int64_t tokens = 0;
  for (const BatchPart& part : parts) tokens += part.sequences * part.tokens;
  return tokens;
}

TEST(ChunkBench, AChunkIsOnePromptOrAsManyAsTheContextAsksFor) {
  const ChunkBenchOptions options = tiny();
  EXPECT_EQ(parts_of(options, Tokens(64), false).size(), 1u);
  const auto parts = parts_of(options, Tokens(250), false);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].sequences, 2);
  EXPECT_EQ(parts[0].tokens, 100);
  EXPECT_EQ(parts[1].tokens, 50);
  EXPECT_EQ(parts_of(options, Tokens(200), false).size(), 1u);
  EXPECT_EQ(tokens_of(parts_of(options, Tokens(250), true)), 253);
}

// Ten microseconds a token, of which the first runs tell too many, and one a token of context.
TEST(ChunkBench, TellsTheMedianOfWhatRunsBehindTheFirst) {
  const ChunkBenchOptions options = tiny();
  const auto layout = must(bench_layout(options.config));
  const ChunkBenchLimits limits = limits_of(options, layout);
  EXPECT_EQ(limits.rows, 253);
  EXPECT_EQ(limits.sequences, 6);
  std::map<std::size_t, int> seen;  // by tokens
  std::vector<Tokens> told;
  const auto time_step = [&](const request::Batch& batch) -> Result<Nanos> {
    EXPECT_LE(std::ssize(batch.frames), limits.frames);
    EXPECT_LE(std::ssize(batch.entries), limits.sequences);
    std::int64_t context = 0;
    for (const auto& entry : batch.entries) context += entry.context;
    const int run = seen[batch.tokens.size()]++;
    const Nanos took = micros(10 * std::ssize(batch.tokens) + context);
    return run == 0 ? seconds(9) : run == 1 ? took / 2 : run == 2 ? took * 7 : took;
  };
  const auto measured = must(
      measure_chunks(options, layout, time_step, [&](Tokens chunk) { told.push_back(chunk); }));
  ASSERT_EQ(measured.size(), 3u);
  EXPECT_EQ(told, options.chunks);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(measured[i].tokens, options.chunks[i]);
    EXPECT_EQ(measured[i].alone, micros(10 * options.chunks[i].count));
    EXPECT_EQ(measured[i].beside, measured[i].alone + micros(3 * 10 + 3 * 20));
  }
  EXPECT_FALSE(measure_chunks(options, layout,
                              [](const auto&) -> Result<Nanos> { return unavailable("x"); }, {})
                   .ok());
}

TEST(ChunkBench, RunsOnTheCpu) {
  ChunkBenchOptions options = tiny();
  options.chunks = {Tokens(1), Tokens(8), Tokens(120)};
  device::HostMemory memory;
  const RealClock clock;
  const auto measured = must(bench_host_chunks(options, memory, clock, {}));
  ASSERT_EQ(measured.size(), 3u);
  for (const ChunkSteps& steps : measured) {
    EXPECT_GT(steps.alone, Nanos(0));
    EXPECT_GT(steps.beside, Nanos(0));
  }
  EXPECT_GT(measured[2].alone, measured[0].alone);
}

}  // namespace
}  // namespace causeway::model::chunk_steps_test
