#include "bench/chunk_profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/must.h"
#include "model/shape_text.h"

namespace causeway::bench::chunk_profiler_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

model::ModelConfig config_of(std::int64_t layers) {
  model::ModelConfig c;
  c.hidden = 256;
  c.intermediate = 512;
  c.layers = layers;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 64;
  c.vocab = 1000;
  c.max_position = Tokens(100);
  return c;
}

// Microseconds: a thousand tokens on as many processors take one, for each layer; twice that beside
// others.
class FakeGpu final : public ChunkMachine {
 public:
  FakeGpu() { facts_.gpus = {{.processors = 132, .unit = 8, .units = 16}}; }
  std::string name() const override { return "a GPU"; }
  const slice::SliceFacts& facts() const override { return facts_; }
  bool on_gpu() const override { return true; }
  DType storage(const model::ModelConfig&) const override { return DType::kBF16; }
  Result<std::vector<model::ChunkSteps>> measure(
      const slice::SlicePart& part, const model::ChunkBenchOptions& options,
      const model::ChunkBenchProgress& progress) override {
    if (part.processors == fails_at) return exhausted("no room");
    asked.push_back(options);
    std::vector<model::ChunkSteps> measured;
    for (const Tokens chunk : options.chunks) {
      progress(chunk);
      const Nanos took = micros(1000 * chunk.count * options.config.layers / part.processors);
      measured.push_back({.tokens = chunk, .alone = took, .beside = took * 2});
    }
    return measured;
  }

  std::vector<model::ChunkBenchOptions> asked;
  int fails_at = 0;

 private:
  slice::SliceFacts facts_;
};

ChunkProfileSettings settings() {
  ChunkProfileSettings settings;
  settings.models = {{"two", config_of(2)}, {"also", config_of(2)}, {"three", config_of(3)}};
  settings.slices = {"all", "2x56", "1x56,1x32"};
  settings.most = Tokens(128);
  settings.decodes = 9;
  return settings;
}

TEST(ChunkProfiler, MeasuresEachShapeOnEachSizeOfSlice) {
  FakeGpu gpu;
  ChunkProfileSettings set = settings();
  std::vector<std::string> said;
  std::vector<std::size_t> saved;
  set.progress = [&](const std::string& what) { said.push_back(what); };
  set.save = [&](const engine::MeasuredChunks& chunks) {
    saved.push_back(chunks.tables.size());
    return Status();
  };
  const auto chunks = must(profile_chunks(set, gpu, {.driver = "580", .commit = "abc"}));
  EXPECT_EQ(chunks.device, "cuda");
  EXPECT_EQ(chunks.machine, "a GPU");
  EXPECT_EQ(chunks.commit, "abc");
  EXPECT_THAT(saved, ElementsAre(1, 2, 3, 4, 5, 6));
  ASSERT_EQ(chunks.tables.size(), 6u);
  std::vector<std::pair<std::string, int>> of;
  for (const auto& table : chunks.tables) of.emplace_back(table.model, table.processors);
  using P = std::pair<std::string, int>;
  EXPECT_THAT(of, ElementsAre(P("two", 132), P("two", 56), P("two", 32), P("three", 132),
                              P("three", 56), P("three", 32)));
  const engine::MeasuredTable& table = chunks.tables[4];
  EXPECT_EQ(table.shape, model::shape_text(config_of(3), DType::kBF16));
  EXPECT_EQ(table.decodes, 9);
  EXPECT_EQ(table.context, 99) << "the model has no more";
  ASSERT_EQ(table.steps.size(), 4u);
  EXPECT_EQ(table.steps[3].tokens, Tokens(128));
  EXPECT_NEAR(table.steps[3].ttft_ms, 128.0 * 3 / 56, 1e-3);
  EXPECT_NEAR(table.steps[3].tpot_ms, 2 * 128.0 * 3 / 56, 2e-3);
  EXPECT_GE(table.steps[3].gamma_o, 1);
  EXPECT_EQ(gpu.asked.front().decodes, 9);
  EXPECT_THAT(said.front(), HasSubstr("two, 132 processors: 1 tokens, 1 of 4"));
  EXPECT_THAT(said, ::testing::Contains(HasSubstr("also: of a shape that was measured")));
  EXPECT_TRUE(engine::parse_chunk_profile(engine::chunk_profile_json(chunks)).ok());
  const std::string text = to_text(chunks);
  EXPECT_THAT(text, HasSubstr("three on 56 processors, beside 9 sequences of 99 tokens"));
  EXPECT_THAT(text, HasSubstr(table.shape));
}

TEST(ChunkProfiler, KeepsWhatWasMeasuredBeforeAFault) {
  FakeGpu gpu;
  gpu.fails_at = 32;
  ChunkProfileSettings set = settings();
  std::size_t saved = 0;
  set.save = [&](const engine::MeasuredChunks& chunks) {
    saved = chunks.tables.size();
    return Status();
  };
  const auto failed = profile_chunks(set, gpu, {});
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.error().message, HasSubstr("two on 32 processors: no room"));
  EXPECT_EQ(saved, 2u);
}

TEST(ChunkProfiler, SlicesThatAreNotThereAreRefused) {
  FakeGpu gpu;
  ChunkProfileSettings set = settings();
  for (const std::string slices : {"3x56", "x", "1:all", ""}) {
    set.slices = {slices};
    const auto refused = profile_chunks(set, gpu, {});
    ASSERT_FALSE(refused.ok()) << slices;
    EXPECT_THAT(refused.error().message, HasSubstr("--slices " + slices));
  }
  EXPECT_TRUE(gpu.asked.empty());
}

TEST(ChunkProfiler, TheCpuHasItsThreads) {
  const RealClock clock;
  const auto cpu = must(open_cpu_for_chunks(clock));
  EXPECT_FALSE(cpu->on_gpu());
  ChunkProfileSettings set;
  set.models = {{"tiny", config_of(1)}};
  set.slices = {"all", "1x1"};
  set.most = Tokens(70);
  set.decodes = 2;
  set.context = 10;
  set.runs = 3;
  const auto chunks = must(profile_chunks(set, *cpu, {.driver = "none", .commit = "c"}));
  EXPECT_EQ(chunks.device, "cpu");
  EXPECT_EQ(chunks.tables.front().processors, cpu->facts().gpus[0].processors);
  EXPECT_EQ(chunks.tables.back().processors, 1);
  EXPECT_TRUE(engine::parse_chunk_profile(engine::chunk_profile_json(chunks)).ok());
}

}  // namespace
}  // namespace causeway::bench::chunk_profiler_test
