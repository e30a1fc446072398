// What holds of every step's program, over random models, shapes, facts and weight plans.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/must.h"
#include "base/testing/rounds.h"
#include "model/model_card.h"
#include "model/step_explain.h"
#include "model/step_program.h"

namespace causeway::model::step_program_random_test {
namespace {

class Counter final : public device::Semaphore {
 public:
  std::uint32_t value() const override { return 0; }
  void raise(std::uint32_t) override {}
  Status wait(std::uint32_t, Nanos) const override { return {}; }
};

ModelConfig random_config(Random& random) {
  constexpr std::int64_t kHeads[] = {64, 80, 96, 128, 256};
  ModelConfig c;
  c.layers = random.between(1, 9);
  c.hidden = random.chance(0.5) ? 128 * random.between(1, 64) : 32 * random.between(1, 300);
  c.intermediate = random.chance(0.5) ? 256 * random.between(1, 60) : 8 * random.between(1, 1200);
  c.head_dim = kHeads[random.below(5)];
  c.kv_heads = std::int64_t{1} << random.below(4);
  c.heads = c.kv_heads * random.between(1, 17);
  c.vocab = random.chance(0.5) ? random.between(10, 190'000) : 64 * random.between(1, 2900);
  c.qk_norm = random.chance(0.5);
  c.tied_embeddings = random.chance(0.5);
  c.attention_bias = random.chance(0.2);
  c.output_bias = random.chance(0.2);
  c.mlp_bias = random.chance(0.2);
  if (random.chance(0.2)) c.activation = kernels::activation::Gate::kGeluTanh;
  if (random.chance(0.3)) c.global_layers = {false, random.chance(0.5), true};
  if (random.chance(0.6)) c.sliding_window = 100;
  if (random.chance(0.4)) c.logn_context = 90;
  if (random.chance(0.2)) c.local_rope_theta = 500;
  if (random.chance(0.2)) c.attention_cap = 50;
  if (random.chance(0.2)) c.logit_cap = 30;
  c.norm_offset = random.chance(0.2);
  c.output_norms = random.chance(0.3);
  if (!c.output_norms && random.chance(0.4)) {
    c.moe = MoeConfig{.experts = random.between(2, 512),
                      .experts_per_token = 2,
                      .intermediate = 32 * random.between(1, 40),
                      .sparse_step = random.between(1, 2),
                      .dense_layers = {}};
  }
  return c;
}

StepShape random_shape(Random& random) {
  StepShape shape;
  if (random.chance(0.5)) {
    const std::int64_t rows = random.chance(0.5) ? random.between(1, 40) : random.between(1, 300);
    shape = {.rows = rows, .slots = rows, .decode = rows, .sampled = rows};
  } else {
    shape.decode = random.chance(0.5) ? random.between(1, 130) : 0;
    shape.slots = shape.decode + random.between(1, 3);
    shape.rows = shape.slots + random.between(1, random.chance(0.7) ? 250 : 4000);
    shape.sampled = random.between(0, shape.slots);
  }
  shape.long_context = random.chance(0.2);
  shape.small_batch =
      !shape.long_context && shape.decode >= 1 && shape.decode <= 4 && random.chance(0.5);
  return shape;
}

// Views of a model: everything cached, some on their way, or some through a ring.
struct RandomWeights {
  Counter counter;
  std::vector<weights::WeightView> where;
  bool streamed = false;

  RandomWeights(const ModelConfig& config, Random& random) {
    const std::int64_t way = random.below(4);
    if (way == 0) return;
    streamed = way == 3;
    where.resize(static_cast<std::size_t>(head_group(config)) + 1);
    for (std::size_t group = 1; way > 1 && group < where.size(); ++group) {
      if (random.chance(0.5)) stage(where[group], streamed);
    }
    // Some layers are read at home, where they may be.
    for (std::int64_t layer = 0; random.chance(0.3) && layer < config.layers; ++layer) {
      weights::WeightView& view = where[static_cast<std::size_t>(layer_group(layer))];
      if (config.is_sparse(layer) || view.place != weights::WeightPlace::kCached) continue;
      view.place = weights::WeightPlace::kHome;
    }
    if (!config.tied_embeddings) where[0].place = weights::WeightPlace::kHome;
    if (config.tied_embeddings && way > 1 && random.chance(0.5)) stage(where[0], false);
  }
  void stage(weights::WeightView& view, bool through_ring) {
    view = {.place = weights::WeightPlace::kStaged, .ready = &counter, .value = 1};
    if (through_ring) view.consumed = &counter;
  }
};

// Goes through a program and says what is wrong.
class Checker {
 public:
  Checker(const ModelConfig& config, const StepShape& shape, const RandomWeights& weights)
      : c_(config), shape_(shape), weights_(weights) {}

  void check(const StepProgram& program) {
    for (std::size_t range = 0; range < program.range_ends.size(); ++range) {
      for (const StepInstruction& instruction : program.range(range)) {
        SCOPED_TRACE(explain(instruction, c_, shape_));
        buffers(instruction);
        groups(instruction);
      }
      const bool last = range + 1 == program.range_ends.size();
      EXPECT_TRUE(!parts_pending_ || (last && shape_.sampled == 0)) << "parts that nobody adds";
      const bool join_pending = (buffers_ & set_of(StepBuffer::kAdded)) != 0;
      EXPECT_TRUE(!join_pending || (last && shape_.sampled == 0)) << "what nobody adds";
      // Between ranges only x, what front made and the KV count.
      if (!last) {
        buffers_ &= set_of(StepBuffer::kX) | set_of(StepBuffer::kRope) |
                    set_of(StepBuffer::kLocalRope) | set_of(StepBuffer::kPlan) |
                    set_of(StepBuffer::kWindowPlan) | set_of(StepBuffer::kKv);
      }
    }
    for (std::size_t group = 0; group < weights_.where.size(); ++group) {
      const bool through_ring = weights_.where[group].consumed != nullptr;
      EXPECT_EQ(consumed_.count(static_cast<int>(group)), through_ring ? 1u : 0u);
    }
  }

 private:
  void buffers(const StepInstruction& instruction) {
    const StepUse use = use_of(instruction);
    EXPECT_EQ(use.reads & ~buffers_, 0u) << "reads what is not there";
    const auto parts = set_of(StepBuffer::kParts);
    if (parts_pending_) {
      EXPECT_TRUE((use.reads & parts) != 0 || (use.reads & set_of(StepBuffer::kX)) == 0)
          << "x is read without its parts";
      EXPECT_TRUE((use.reads & parts) != 0 || (use.ended & parts) == 0) << "parts are lost";
      EXPECT_EQ(use.writes & parts, 0u) << "parts are overwritten";
    }
    const auto added = set_of(StepBuffer::kAdded);
    EXPECT_TRUE((buffers_ & added) == 0 || (use.reads & set_of(StepBuffer::kX)) == 0 ||
                (use.reads & added) != 0)
        << "x is read without what is added to it";
    // A buffer that is dropped is not one that is read or written meanwhile.
    if (const auto* norm = std::get_if<step::Norm>(&instruction)) drops(norm->drops, use);
    if (const auto* product = std::get_if<step::Product>(&instruction)) {
      drops(product->drops, use);
    }
    if ((use.reads & parts) != 0) parts_pending_ = false;
    if ((use.writes & parts) != 0) parts_pending_ = true;
    buffers_ = (buffers_ | use.writes) & ~use.ended;
    if (const auto* prepare = std::get_if<step::Prepare>(&instruction)) prepares(*prepare);
    if (const auto* plan = std::get_if<step::PlanAttention>(&instruction)) {
      const bool windows = shape_.long_context && c_.sliding_window != kNoWindow;
      EXPECT_TRUE(windows || !plan->windowed) << "no layer is within a window";
      EXPECT_TRUE(!windows || plan->windowed || !c_.global_layers.empty()) << "all layers are";
    }
    if (const auto* attention = std::get_if<step::Attention>(&instruction)) {
      EXPECT_EQ(attention->windowed, shape_.long_context && c_.has_window(attention->layer));
      const bool scaled = shape_.long_context && c_.logn_context > 0;
      EXPECT_TRUE(!scaled || !attention->fused_prepare) << "it does not scale queries";
      EXPECT_TRUE(!attention->windowed || attention->cluster == 0) << "clusters know no window";
      const bool offset = c_.qk_norm && c_.norm_offset && attention->fused_prepare;
      EXPECT_TRUE(!offset || attention->cluster == 0) << "clusters know no norms with an offset";
    }
  }

  void prepares(const step::Prepare& prepare) const {
    const bool scaled = shape_.long_context && c_.logn_context > 0;
    EXPECT_EQ(prepare.scaled_queries, scaled);
    EXPECT_TRUE(!scaled || prepare.first == 0) << "rows whose queries stay as they are";
  }

  void drops(const step::Drops& drops, const StepUse& use) {
    std::set<StepBuffer> seen;
    for (const step::Drop& drop : drops) {
      if (drop.bytes.count == 0) continue;
      EXPECT_EQ((use.reads | use.writes) & set_of(drop.buffer), 0u);
      EXPECT_TRUE(seen.insert(drop.buffer).second) << "dropped twice";
    }
  }

  void groups(const StepInstruction& instruction) {
    if (const auto* await = std::get_if<step::Await>(&instruction)) {
      EXPECT_TRUE(staged(await->group));
      if (await->on_host) return;
      EXPECT_TRUE(awaited_.insert(await->group).second) << "awaited twice";
    }
    if (const auto* done = std::get_if<step::Consumed>(&instruction)) {
      EXPECT_TRUE(consumed_.insert(done->group).second) << "consumed twice";
    }
    for (const int group : groups_read(instruction, c_)) {
      EXPECT_TRUE(!staged(group) || awaited_.contains(group)) << "read before it is there";
      EXPECT_FALSE(consumed_.contains(group)) << "read after it was consumed";
    }
  }

  bool staged(int group) const {
    return !weights_.where.empty() &&
           weights_.where[static_cast<std::size_t>(group)].place == weights::WeightPlace::kStaged;
  }

  const ModelConfig& c_;
  const StepShape& shape_;
  const RandomWeights& weights_;
  StepBuffers buffers_ = 0;  // what is there
  bool parts_pending_ = false;
  std::set<int> awaited_;
  std::set<int> consumed_;
};

TEST(StepProgramRandom, EverythingIsThereWhenItIsRead) {
  Random random(61);
  constexpr int kSms[] = {1, 8, 16, 64, 66, 114, 132};
  for (int round = 0; round < rounds(4000); ++round) {
    const ModelConfig config = random_config(random);
    const StepShape shape = random_shape(random);
    const RandomWeights weights(config, random);
    const auto ranges =
        weights.streamed ? step_ranges(config, weights.where) : std::vector<StepRange>();
    const StepFacts facts{.sm_count = kSms[random.below(7)],
                          .small_batch_cluster = random.chance(0.5) ? 8 : 0,
                          .experts_front = config.moe && random.chance(0.5)};
    StepWeightPlan where{.where = weights.where, .ranges = ranges};
    if (!weights.streamed && random.chance(0.5)) where.layers_ahead = random.between(0, 8);
    SCOPED_TRACE("round " + std::to_string(round));
    const auto program = must(make_step_program(config, shape, facts, where), "a program");
    EXPECT_EQ(program.range_ends.size(), std::max<std::size_t>(1, ranges.size()));
    EXPECT_EQ(program.range_ends.back(), program.instructions.size());
    Checker(config, shape, weights).check(program);
    const auto again = must(make_step_program(config, shape, facts, where), "a program");
    EXPECT_EQ(explain(program, config), explain(again, config));
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace causeway::model::step_program_random_test
