#include "bench/step_floor.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "model/random_model.h"
#include "model/step_work.h"

namespace causeway::bench::step_floor_test {
namespace {

request::Batch make_batch(std::vector<std::array<std::int32_t, 2>> entries) {
  request::Batch batch;
  for (const auto& [context, tokens] : entries) {
    request::BatchEntry entry;
    entry.context = context;
    entry.token_count = tokens;
    entry.samples = true;
    batch.tokens.resize(batch.tokens.size() + static_cast<std::size_t>(tokens));
    batch.entries.push_back(entry);
  }
  return batch;
}

class StepFloor : public ::testing::Test {
 protected:
  StepFloor() {
    auto card = model::make_card(config_, DType::kBF16, mib(1));
    EXPECT_TRUE(card.ok());
    card_ = std::move(card).value();
  }
  const model::ModelConfig config_ = model::random_model_config(model::Family::kLlama);
  model::ModelCard card_;
};

TEST_F(StepFloor, APromptIsThatOfTheModelBenchmark) {
  const StepWork work = work_of(make_batch({{0, 300}}), card_);
  EXPECT_DOUBLE_EQ(work.operations, model::prefill_operations(config_, 300));
  EXPECT_FALSE(work.decode_only);
}

TEST_F(StepFloor, ChunksSumToTheirPrompt) {
  const double whole = work_of(make_batch({{0, 300}}), card_).operations;
  const double head = 2.0 * static_cast<double>(config_.vocab * config_.hidden);
  const double first = work_of(make_batch({{0, 123}}), card_).operations;
  const double second = work_of(make_batch({{123, 177}}), card_).operations;
  EXPECT_NEAR(first + second - head, whole, whole * 1e-12);
}

TEST_F(StepFloor, ADecodeStepReadsWeightsOnceAndEverySequencesKv) {
  const StepWork one = work_of(make_batch({{1023, 1}}), card_);
  const StepWork three = work_of(make_batch({{1023, 1}, {1023, 1}, {1023, 1}}), card_);
  const Bytes kv = card_.kv.token_stride * (2 * config_.layers * 1024);
  EXPECT_TRUE(three.decode_only);
  EXPECT_EQ(one.read, model::decode_weight_bytes(config_, DType::kBF16, 1) + kv);
  EXPECT_EQ(three.read - one.read, kv * 2);
}

TEST(StepFloorTime, IsTheLargerOfReadingAndComputing) {
  const DeviceLimits limits{.read_bytes_per_second = 1e9, .operations_per_second = 1e12};
  EXPECT_EQ(floor_of({.read = Bytes(2'000'000), .operations = 1e9}, limits), millis(2));
  EXPECT_EQ(floor_of({.read = Bytes(2'000'000), .operations = 5e9}, limits), millis(5));
  const DeviceLimits mean =
      mean_of(limits, {.read_bytes_per_second = 3e9, .operations_per_second = 4e12});
  EXPECT_DOUBLE_EQ(mean.read_bytes_per_second, 2e9);
  EXPECT_DOUBLE_EQ(mean.operations_per_second, 2.5e12);
}

}  // namespace
}  // namespace causeway::bench::step_floor_test
