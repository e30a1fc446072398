#include "model/step_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/testing/must.h"
#include "model/step_explain.h"
#include "model/step_products.h"

namespace causeway::model::step_program_test {
namespace {

using kernels::gemm::CudaPairs;
using kernels::gemm::CudaPath;
using kernels::gemm::CudaPlan;
using kernels::gemm::CudaShare;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Published models with two layers each.
ModelConfig llama_8b() {
  ModelConfig c;
  c.hidden = 4096;
  c.intermediate = 14336;
  c.layers = 2;
  c.heads = 32;
  c.kv_heads = 8;
  c.head_dim = 128;
  c.vocab = 128256;
  return c;
}

ModelConfig qwen3_4b() {
  ModelConfig c = llama_8b();
  c.family = Family::kQwen3;
  c.hidden = 2560;
  c.intermediate = 9728;
  c.vocab = 151936;
  c.qk_norm = c.tied_embeddings = true;
  return c;
}

ModelConfig qwen3_30b_a3b() {
  ModelConfig c = llama_8b();
  c.family = Family::kQwen3Moe;
  c.hidden = 2048;
  c.intermediate = 6144;
  c.kv_heads = 4;
  c.vocab = 151936;
  c.qk_norm = true;
  c.moe =
      MoeConfig{.experts = 128, .experts_per_token = 8, .intermediate = 768, .dense_layers = {}};
  return c;
}

StepShape decode(std::int64_t rows) {
  return {.rows = rows, .slots = rows, .decode = rows, .sampled = rows, .small_batch = rows == 1};
}
StepShape prompt(std::int64_t rows) {
  return {.rows = rows, .slots = 1, .decode = 0, .sampled = 1};
}

std::string way_of(const CudaPlan& plan) {
  switch (plan.path) {
    case CudaPath::kRows: return "rows";
    case CudaPath::kSplit:
      return plan.pairs == CudaPairs::kHalves   ? "halves"
             : plan.pairs == CudaPairs::kInputs ? "pairs"
                                                : "split";
    case CudaPath::kLibrary: return "library";
    case CudaPath::kPlain: break;
  }
  return "plain";
}

std::string name_of(StepWeight weight) {
  constexpr const char* kNames[] = {"norm",   "qkv",       "o",    "attention norm",
                                    "norm",   "gate_up",   "down", "MLP norm",
                                    "router", "last norm", "head"};
  return kNames[static_cast<std::size_t>(weight)];
}

std::string drops_of(const step::Drops& drops) {
  std::string text;
  for (const step::Drop& drop : drops) {
    if (drop.bytes.count == 0) continue;
    text += drop.buffer == StepBuffer::kQkv        ? " -qkv"
            : drop.buffer == StepBuffer::kAttended ? " -attended"
            : drop.buffer == StepBuffer::kActive   ? " -active"
            : drop.buffer == StepBuffer::kGateUp   ? " -gate_up"
                                                   : " -parts";
  }
  return text;
}

// What matters of an instruction, in few words: way, less or more of an SM (< >), norm inside (n),
// parts left (2) or added (+2).
struct Short {
  std::string operator()(const step::Await& i) const {
    return (i.on_host ? "host waits " : "waits ") + std::to_string(i.group);
  }
  std::string operator()(const step::Consumed& i) const {
    return "consumed " + std::to_string(i.group);
  }
  std::string operator()(const step::PlaceExperts&) const { return "places"; }
  std::string operator()(const step::CountExperts&) const { return "counts"; }
  std::string operator()(const step::PlanAttention& i) const {
    return i.windowed ? "plan windowed" : "plan";
  }
  std::string operator()(const step::FillRope& i) const { return i.local ? "local rope" : "rope"; }
  std::string operator()(const step::Activate&) const { return "activate"; }
  std::string operator()(const step::CapLogits&) const { return "cap"; }
  std::string operator()(const step::Embed& i) const { return i.at_home ? "embed home" : "embed"; }
  std::string operator()(const step::Norm& i) const {
    return name_of(i.weight) + (i.join ? i.sum_only ? " only" : " joins" : "") +
           (i.parts ? " +2" : "") + (i.parts_stay ? " stay" : "") + drops_of(i.drops);
  }
  std::string operator()(const step::Product& i) const {
    const bool own = i.plan.path == CudaPath::kRows || i.plan.path == CudaPath::kSplit;
    const char* const share = i.plan.request.share == CudaShare::kLess ? " <" : " >";
    return name_of(i.weight) + " " + way_of(i.plan) + (own ? share : "") +
           (i.plan.request.norm ? " n" : "") + (i.plan.request.parts > 1 ? " 2" : "") +
           drops_of(i.drops);
  }
  std::string operator()(const step::Prepare& i) const {
    return "prepare " + std::to_string(i.first) + (i.scaled_queries ? " scaled" : "");
  }
  std::string operator()(const step::Attention& i) const {
    return std::string("attention") + (i.cluster > 0 ? " small-batch" : "") +
           (i.planned ? " planned" : "") + (i.fused_prepare ? " fused" : "") +
           (i.behind_library ? " behind" : "") + (i.local_rope ? " local" : "") +
           (i.windowed ? " windowed" : "");
  }
  std::string operator()(const step::Experts& i) const { return i.front ? "experts n" : "experts"; }
};

std::vector<std::string> sequence(const ModelConfig& config, const StepShape& shape,
                                  const StepWeightPlan& weight_plan = {}) {
  const StepFacts facts{.small_batch_cluster = 8, .experts_front = config.moe && shape.rows <= 8};
  const StepProgram program =
      must(make_step_program(config, shape, facts, weight_plan), "a program");
  std::vector<std::string> made;
  for (const StepInstruction& i : program.instructions) made.push_back(std::visit(Short{}, i));
  return made;
}

// Gemma 3 27B, a local layer and a global one; and Gemma 2, whose scores are capped.
ModelConfig gemma3_27b() {
  ModelConfig c = llama_8b();
  c.family = Family::kGemma3Text;
  c.hidden = 5376;
  c.intermediate = 21504;
  c.kv_heads = 16;
  c.qk_norm = c.norm_offset = c.output_norms = c.tied_embeddings = true;
  c.activation = kernels::activation::Gate::kGeluTanh;
  c.local_rope_theta = 1e4;
  c.sliding_window = 1024;
  c.global_layers = {false, true};
  return c;
}

TEST(StepProgram, GemmaJoinsWhatSublayersAdd) {
  ModelConfig c = gemma3_27b();
  EXPECT_THAT(sequence(c, decode(8)),
              ElementsAre("plan", "rope", "local rope", "embed",                          //
                          "norm", "qkv rows >", "attention planned fused local",          //
                          "o rows >", "norm joins -qkv -attended", "gate_up rows >",      //
                          "activate", "down rows <", "norm joins -active -gate_up",       //
                          "qkv rows >", "attention planned fused",                        //
                          "o rows >", "norm joins -qkv -attended", "gate_up rows >",      //
                          "activate", "down rows <", "last norm joins -active -gate_up",  //
                          "head rows >"));
}

TEST(StepProgram, BeyondTheWindowLayersOfEachKindHaveAPlan) {
  ModelConfig c = gemma3_27b();
  StepShape windowed = decode(8);
  windowed.long_context = true;
  auto made = sequence(c, windowed);
  EXPECT_EQ(made[0], "plan");
  EXPECT_EQ(made[1], "plan windowed");
  EXPECT_EQ(made[7], "attention planned fused local windowed");
  EXPECT_EQ(made[15], "attention planned fused");
  c.global_layers.clear();
  c.local_rope_theta.reset();
  made = sequence(c, windowed);
  EXPECT_EQ(made[0], "plan windowed");
  EXPECT_EQ(made[1], "rope") << "no layer is without the window";
  EXPECT_EQ(made[5], "attention planned fused windowed");
}

// Clusters know no norms with an offset: their rows are prepared in front.
TEST(StepProgram, GemmaDecodesOne) {
  const auto made = sequence(gemma3_27b(), decode(1));
  EXPECT_EQ(made[5], "prepare 0");
  EXPECT_EQ(made[6], "attention small-batch local");
}

TEST(StepProgram, LognAttentionScalesQueriesBeyondTheContextAlone) {
  ModelConfig c = llama_8b();
  c.logn_context = 2048;
  const auto within = sequence(c, decode(1));
  EXPECT_EQ(within[3], "attention small-batch fused");
  StepShape beyond = decode(1);
  beyond.long_context = true;
  const auto made = sequence(c, beyond);
  EXPECT_EQ(made[0], "plan");
  EXPECT_EQ(made[4], "prepare 0 scaled");
  EXPECT_EQ(made[5], "attention planned");
}

TEST(StepProgram, CapsAreOfLogitsAndOfScores) {
  ModelConfig c = gemma3_27b();
  c.attention_cap = 50;
  c.logit_cap = 30;
  c.qk_norm = false;
  c.local_rope_theta.reset();
  const auto made = sequence(c, decode(1));
  EXPECT_EQ(made[0], "plan");
  EXPECT_EQ(made[5], "attention planned fused") << "clusters know no caps";
  EXPECT_EQ(made.back(), "cap");
}

TEST(StepProgram, LlamaDecodesOne) {
  EXPECT_THAT(sequence(llama_8b(), decode(1)),
              ElementsAre("rope", "embed",                                            //
                          "qkv rows < n", "attention small-batch fused", "o rows >",  //
                          "gate_up rows < n", "down rows >",                          //
                          "qkv rows < n", "attention small-batch fused", "o rows >",  //
                          "gate_up rows < n", "down rows >", "last norm -active", "head rows >"));
}

TEST(StepProgram, LlamaDecodesEight) {
  EXPECT_THAT(sequence(llama_8b(), decode(8)),
              ElementsAre("plan", "rope", "embed",                                //
                          "qkv rows < n", "attention planned fused", "o rows >",  //
                          "gate_up rows < n", "down rows >",                      //
                          "qkv rows < n", "attention planned fused", "o rows >",  //
                          "gate_up rows < n", "down rows >", "last norm -active", "head rows >"));
}

// gate and up are split, which takes no norm in: behind theirs they take more of an SM.
TEST(StepProgram, LlamaDecodes32) {
  EXPECT_THAT(sequence(llama_8b(), decode(32)),
              ElementsAre("plan", "rope", "embed",                                  //
                          "qkv rows > n", "attention planned fused", "o rows >",    //
                          "norm -qkv -attended", "gate_up split >", "down rows <",  //
                          "qkv rows > n", "attention planned fused", "o rows >",    //
                          "norm -qkv -attended", "gate_up split >", "down rows <",  //
                          "last norm -active", "head split >"));
}

// o and down leave parts; gate and up drop what the norm in front of them has added.
TEST(StepProgram, LlamaDecodes128) {
  EXPECT_THAT(
      sequence(llama_8b(), decode(128)),
      ElementsAre("plan", "rope", "embed",                                                     //
                  "norm", "qkv library", "attention planned fused behind", "o halves > 2",     //
                  "norm +2 stay", "gate_up pairs > -qkv -attended -parts", "down halves < 2",  //
                  "norm +2 -active", "qkv library", "attention planned fused behind",          //
                  "o halves > 2", "norm +2 stay", "gate_up pairs > -qkv -attended -parts",     //
                  "down halves < 2", "last norm +2 -active", "head pairs >"));
}

TEST(StepProgram, LlamaReadsAPrompt) {
  EXPECT_THAT(sequence(llama_8b(), prompt(2048)),
              ElementsAre("rope", "embed",                                               //
                          "norm", "qkv library", "prepare 0", "attention", "o library",  //
                          "norm", "gate_up library", "down library",                     //
                          "norm", "qkv library", "prepare 0", "attention", "o library",  //
                          "norm", "gate_up library", "down library",                     //
                          "last norm", "head rows >"));
}

// Beside a chunk: its rows are prepared by a launch of their own. The norm behind drops the
// parts of down that it adds: the library's gate and up cannot.
TEST(StepProgram, LlamaDecodesBesideAChunk) {
  const StepShape mixed{.rows = 200, .slots = 41, .decode = 40, .sampled = 40};
  EXPECT_THAT(sequence(llama_8b(), mixed),
              ElementsAre("plan", "rope", "embed",                                         //
                          "norm", "qkv library", "prepare 40", "attention planned fused",  //
                          "o library", "norm -qkv -attended", "gate_up library",           //
                          "down library 2",                                                //
                          "norm +2 -active", "qkv library", "prepare 40",                  //
                          "attention planned fused", "o library", "norm -qkv -attended",   //
                          "gate_up library", "down library 2",                             //
                          "last norm +2 -active", "head pairs >"));
}

// Without logits there is no head, and no norm that would add the last parts.
TEST(StepProgram, AChunkThatSamplesNothingHasNoHead) {
  const StepShape chunk{.rows = 200, .slots = 1, .decode = 0, .sampled = 0};
  const auto made = sequence(llama_8b(), chunk);
  EXPECT_EQ(made.back(), "down library 2");
}

TEST(StepProgram, QwenDecodes) {
  const std::vector<std::string> one = sequence(qwen3_4b(), decode(1));
  EXPECT_THAT(std::vector<std::string>(one.begin(), one.begin() + 7),
              ElementsAre("rope", "embed", "qkv rows < n", "attention small-batch fused",
                          "o rows >", "gate_up rows < n", "down rows >"));
  EXPECT_THAT(sequence(qwen3_4b(), decode(32)),
              ElementsAre("plan", "rope", "embed",                                  //
                          "qkv rows > n", "attention planned fused", "o rows >",    //
                          "norm -qkv -attended", "gate_up split >", "down rows <",  //
                          "qkv rows > n", "attention planned fused", "o rows >",    //
                          "norm -qkv -attended", "gate_up split >", "down rows <",  //
                          "last norm -active", "head split >"));
}

TEST(StepProgram, ExpertsTakeInNormAndRouter) {
  // What the norms inside leave is dropped by the only one of its own.
  EXPECT_THAT(sequence(qwen3_30b_a3b(), decode(8)),
              ElementsAre("plan", "rope", "embed",                                             //
                          "qkv rows < n", "attention planned fused", "o rows >", "experts n",  //
                          "qkv rows < n", "attention planned fused", "o rows >", "experts n",  //
                          "last norm -qkv -attended", "head rows >"));
}

TEST(StepProgram, ExpertsOfManyTokens) {
  EXPECT_THAT(sequence(qwen3_30b_a3b(), decode(32)),
              ElementsAre("plan", "rope", "embed",                                //
                          "qkv rows > n", "attention planned fused", "o rows >",  //
                          "norm -qkv -attended", "router rows <", "experts",      //
                          "qkv rows > n", "attention planned fused", "o rows >",  //
                          "norm -qkv -attended", "router rows <", "experts",      //
                          "last norm", "head split >"));
  const auto prefill = sequence(qwen3_30b_a3b(), prompt(2048));
  EXPECT_THAT(std::vector<std::string>(prefill.begin(), prefill.begin() + 10),
              ElementsAre("rope", "embed", "norm", "qkv library", "prepare 0", "attention",
                          "o library", "norm", "router library", "experts"));
}

// The tables are right before anything else, and what was chosen is known behind all of it.
TEST(StepProgram, ExpertsThatMove) {
  const ModelConfig config = qwen3_30b_a3b();
  const StepFacts facts{.small_batch_cluster = 8, .experts_front = true, .experts_move = true};
  const StepProgram program = must(make_step_program(config, decode(8), facts, {}), "a program");
  EXPECT_TRUE(std::holds_alternative<step::PlaceExperts>(program.instructions.front()));
  EXPECT_TRUE(std::holds_alternative<step::CountExperts>(program.instructions.back()));
}

// A semaphore that only the test's thread uses.
class Counter final : public device::Semaphore {
 public:
  std::uint32_t value() const override { return 0; }
  void raise(std::uint32_t) override {}
  Status wait(std::uint32_t, Nanos) const override { return {}; }
};

class StagedTest : public ::testing::Test {
 protected:
  weights::WeightView staged() const {
    return {.place = weights::WeightPlace::kStaged, .ready = &counter_, .value = 1};
  }
  weights::WeightView streamed() {
    return {.place = weights::WeightPlace::kStaged,
            .ready = &counter_,
            .value = 1,
            .consumed = &counter_,
            .consumed_value = 1};
  }
  Counter counter_;
};

TEST_F(StagedTest, TheStreamWaitsAndTheHostStaysClose) {
  std::vector<weights::WeightView> where(4, staged());
  where[0] = {.place = weights::WeightPlace::kHome};
  const auto made = sequence(llama_8b(), decode(1), {.where = where, .layers_ahead = 0});
  EXPECT_THAT(made, ElementsAre("rope", "embed home",                                           //
                                "host waits 1", "waits 1", "qkv rows < n",                      //
                                "attention small-batch fused", "o rows >", "gate_up rows < n",  //
                                "down rows >",                                                  //
                                "host waits 2", "waits 2", "qkv rows < n",                      //
                                "attention small-batch fused", "o rows >", "gate_up rows < n",  //
                                "down rows >",                                                  //
                                "host waits 3", "waits 3", "last norm -active", "head rows >"));
  // A layer ahead, the second waits for the first.
  const auto ahead = sequence(llama_8b(), decode(1), {.where = where, .layers_ahead = 1});
  EXPECT_EQ(ahead[2], "waits 1");
  EXPECT_EQ(ahead[8], "host waits 1");
  EXPECT_EQ(ahead[9], "waits 2");
}

// Each product of a layer at home has a plan, which like layers share; nothing is left in parts,
// and no norm is inside.
TEST_F(StagedTest, LayersAtHomeAreMultipliedThere) {
  ModelConfig config = llama_8b();
  config.layers = 12;
  std::vector<weights::WeightView> where(14, {.place = weights::WeightPlace::kHome});
  where[13] = {};  // the head is in HBM
  for (const StepShape& shape : {decode(1), decode(128), prompt(2048)}) {
    const StepProgram program =
        must(make_step_program(config, shape, {}, {.where = where}), "a program");
    EXPECT_LE(program.home_plans.size(), 8u);
    int at_home = 0;
    for (const StepInstruction& i : program.instructions) {
      const auto* product = std::get_if<step::Product>(&i);
      if (product == nullptr) continue;
      EXPECT_EQ(product->home >= 0, product->weight != StepWeight::kHead);
      if (product->home < 0) continue;
      ++at_home;
      EXPECT_FALSE(product->plan.request.norm);
      EXPECT_EQ(product->plan.request.parts, 1);
      const auto& plan = program.home_plans.at(static_cast<std::size_t>(product->home));
      EXPECT_EQ(plan.request.n, product->plan.request.n);
      EXPECT_EQ(plan.scratch, Bytes(0));
      EXPECT_NE(plan.way, kernels::home_gemm::Way::kStaged);
    }
    EXPECT_EQ(at_home, 4 * 12);
  }
}

TEST_F(StagedTest, ProductsAtHomeFindRoomInTheWorkspace) {
  const ModelConfig config = llama_8b();
  std::vector<weights::WeightView> where(4, {.place = weights::WeightPlace::kHome});
  for (const std::int64_t rows : {1, 16, 33, 128, 300, 4096}) {
    const Bytes room = must(linear_workspace(config, rows, rows, 132), "a workspace");
    const StepProgram program =
        must(make_step_program(config, decode(rows), {}, {.where = where}), "a program");
    for (const auto& plan : program.home_plans) EXPECT_LE(plan.workspace, room) << rows;
  }
}

TEST_F(StagedTest, ATiedHeadWaitsForTheEmbedding) {
  std::vector<weights::WeightView> where(4);
  where[0] = staged();
  const auto made = sequence(qwen3_4b(), decode(1), {.where = where});
  EXPECT_EQ(made[1], "embed home");
  EXPECT_EQ(made[made.size() - 3], "waits 0");
}

TEST_F(StagedTest, NothingButXCrossesFromRangeToRange) {
  std::vector<weights::WeightView> where(4, streamed());
  where[0] = {.place = weights::WeightPlace::kHome};
  const ModelConfig config = llama_8b();
  const auto ranges = step_ranges(config, where);
  const StepProgram program = must(
      make_step_program(config, decode(128), {}, {.where = where, .ranges = ranges}), "a program");
  ASSERT_EQ(program.range_ends.size(), 3u);
  std::vector<std::string> second;
  for (const StepInstruction& i : program.range(1)) second.push_back(std::visit(Short{}, i));
  // down adds to x by itself, for which the library is better.
  EXPECT_THAT(second,
              ElementsAre("waits 2", "norm -active", "qkv library",
                          "attention planned fused behind", "o halves > 2", "norm +2 stay",
                          "gate_up pairs > -qkv -attended -parts", "down library", "consumed 2"));
}

TEST(StepExplain, LayersThatAreAlikeAreShownOnce) {
  ModelConfig config = llama_8b();
  config.layers = 32;
  const StepProgram program = must(make_step_program(config, decode(128), {}, {}), "a program");
  const std::string text = explain(program, config);
  EXPECT_THAT(text, HasSubstr("\nlayer 0\n"));
  EXPECT_THAT(text, HasSubstr("\nlayers 1 to 31, each\n"));
  EXPECT_THAT(text, HasSubstr("128 × 2·14336 × 4096"));
  EXPECT_THAT(text, HasSubstr("234.9 MB"));
  EXPECT_THAT(text, HasSubstr("drops parts (4.2 MB)"));
  EXPECT_THAT(text, HasSubstr("  228  head"));
}

// As decode_chain() counts them: products read what the floor of a step says.
TEST(StepExplain, BytesAreThoseOfTheModel) {
  const ModelConfig config = llama_8b();
  const StepProgram program = must(make_step_program(config, decode(1), {}, {}), "a program");
  Bytes read;
  for (const StepInstruction& i : program.instructions) {
    read += weight_bytes(i, config, program.shape);
  }
  const std::int64_t untied = config.vocab * config.hidden;
  EXPECT_EQ(read, Bytes(2 * (parameter_count(config) - untied)));
}

}  // namespace
}  // namespace causeway::model::step_program_test
