#include "model/first_steps.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/attention/attention_cuda.h"
#include "request/batch.h"

namespace causeway::model::first_steps_test {
namespace {

bool contains(const std::vector<StepShape>& shapes, const StepShape& shape) {
  return std::find(shapes.begin(), shapes.end(), shape) != shapes.end();
}

// As the executor makes it of a batch.
StepShape asked(std::initializer_list<std::pair<int, int>> entries,
                std::span<const std::int64_t> buckets, std::int64_t window = kNoWindow) {
  request::Batch batch;
  for (const auto& [context, tokens] : entries) {
    request::BatchEntry entry;
    entry.token_begin = static_cast<std::int32_t>(batch.tokens.size());
    entry.token_count = tokens;
    entry.context = context;
    entry.samples = true;
    batch.tokens.resize(batch.tokens.size() + static_cast<std::size_t>(tokens));
    batch.entries.push_back(entry);
  }
  return shape_of(batch, buckets, window);
}

TEST(FirstSteps, AreOfPromptsAndOfSingleTokensAsBatchesHaveThem) {
  const auto buckets = decode_buckets(64);
  const auto shapes = first_steps(2048, buckets, kNoWindow);
  EXPECT_EQ(shapes.front(), asked({{20, 1}}, buckets)) << "a short answer's";
  EXPECT_TRUE(contains(shapes, asked({{5000, 1}}, buckets))) << "a long one's";
  for (const int tokens : {16, 64, 512, 2048}) {
    EXPECT_TRUE(contains(shapes, asked({{0, tokens}}, buckets))) << tokens;
  }
  EXPECT_TRUE(contains(shapes, asked({{20, 1}, {0, 128}}, buckets)));
  for (const std::int64_t slots : buckets) {
    const auto is = [&](const StepShape& shape) {
      return shape.decode_only() && shape.slots == slots;
    };
    EXPECT_TRUE(std::any_of(shapes.begin(), shapes.end(), is)) << slots;
  }
}

TEST(FirstSteps, KeepWithinTheWorkspace) {
  for (const std::int64_t rows : {1, 2, 16, 100, 2048}) {
    for (const std::int64_t slots : {1, 2, 5, 300}) {
      for (const StepShape& shape : first_steps(rows, decode_buckets(std::min(rows, slots)), 64)) {
        EXPECT_LE(shape.rows, rows);
        EXPECT_GE(shape.rows, 1);
        EXPECT_LE(shape.slots, slots);
        EXPECT_LE(shape.sampled, slots);
        EXPECT_TRUE(!shape.small_batch || shape.decode <= kernels::attention::kSmallBatchSequences);
      }
    }
  }
}

TEST(FirstSteps, LookAtTheWindowOnlyWhereThereIsOne) {
  const auto buckets = decode_buckets(8);
  const auto windowed = [](const StepShape& shape) { return shape.long_context; };
  const auto without = first_steps(256, buckets, kNoWindow);
  EXPECT_TRUE(std::none_of(without.begin(), without.end(), windowed));
  const auto with = first_steps(256, buckets, 100);
  EXPECT_TRUE(contains(with, asked({{0, 256}}, buckets, 100)));
  EXPECT_TRUE(contains(with, asked({{300, 1}}, buckets, 100)));
}

TEST(FirstSteps, TheSameKernelsServeModelsThatDifferInNumbersAlone) {
  ModelConfig config;
  config.hidden = 1024;
  ModelConfig other = config;
  other.norm_epsilon = 1e-6;
  other.rope_theta = 1e6;
  other.max_position = Tokens(40960);
  EXPECT_TRUE(same_kernels(config, other));
  other.qk_norm = true;
  EXPECT_FALSE(same_kernels(config, other));
  other = config;
  other.hidden = 2048;
  EXPECT_FALSE(same_kernels(config, other));
  other = config;
  other.moe.emplace().experts = 8;
  EXPECT_FALSE(same_kernels(config, other));
  config.moe.emplace().experts = 16;
  EXPECT_FALSE(same_kernels(config, other));
  config.moe = other.moe;
  EXPECT_TRUE(same_kernels(config, other));
}

}  // namespace
}  // namespace causeway::model::first_steps_test
