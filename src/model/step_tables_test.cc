#include "model/step_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>

#include "kernels/attention/attention_cuda.h"

namespace causeway::model::step_tables_test {
namespace {

using kernels::attention::kNoWindow;
using request::Batch;
using ::testing::ElementsAre;

struct Part {
  std::int32_t tokens = 1;
  std::int32_t context = 0;
  std::int32_t frames = 1;
  bool samples = true;
};

// Tokens 100, 101, …; frames 10, 11, …
Batch make_batch(const std::vector<Part>& parts) {
  Batch batch;
  for (const Part& part : parts) {
    request::BatchEntry entry;
    entry.token_begin = static_cast<std::int32_t>(batch.tokens.size());
    entry.token_count = part.tokens;
    entry.frame_begin = static_cast<std::int32_t>(batch.frames.size());
    entry.frame_count = part.frames;
    entry.context = part.context;
    entry.samples = part.samples;
    for (int i = 0; i < part.tokens; ++i) {
      batch.tokens.push_back(100 + static_cast<TokenId>(batch.tokens.size()));
    }
    for (int i = 0; i < part.frames; ++i) {
      batch.frames.emplace_back(10 + static_cast<std::int64_t>(batch.frames.size()));
    }
    batch.entries.push_back(entry);
  }
  return batch;
}

struct Tables {
  Tables(const Batch& batch, const StepShape& of) : shape(of), at(offsets_of(of)) {
    data.assign(static_cast<std::size_t>(table_elements_max(of.rows, of.slots, 1000)), -7);
    count = write_tables(batch, of, data);
  }
  std::vector<std::int32_t> table(std::int64_t begin, std::int64_t size) const {
    return {data.begin() + begin, data.begin() + begin + size};
  }
  StepShape shape;
  TableOffsets at;
  std::vector<std::int32_t> data;
  std::int64_t count = 0;
};

constexpr std::array<std::int64_t, 3> kBuckets = {1, 4, 8};

TEST(StepTables, DecodeIsPaddedToItsBucket) {
  const Batch batch = make_batch({{1, 5, 2}, {1, 9, 3}, {1, 0, 1, false}});
  const StepShape shape = shape_of(batch, kBuckets, kNoWindow);
  EXPECT_EQ(shape,
            (StepShape{.rows = 4, .slots = 4, .decode = 4, .sampled = 4, .small_batch = true}));
  const Tables tables(batch, shape);
  EXPECT_THAT(tables.table(tables.at.token, 4), ElementsAre(100, 101, 102, 0));
  EXPECT_THAT(tables.table(tables.at.position, 4), ElementsAre(5, 9, 0, -1));
  EXPECT_THAT(tables.table(tables.at.sequence, 4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(tables.table(tables.at.query_begin, 5), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(tables.table(tables.at.length, 4), ElementsAre(6, 10, 1, 0));
  EXPECT_THAT(tables.table(tables.at.sampled, 4), ElementsAre(0, 1, -1, -1));
  EXPECT_THAT(tables.table(tables.at.frame_begin, 5), ElementsAre(0, 2, 5, 6, 6));
  EXPECT_THAT(tables.table(tables.at.frames, 6), ElementsAre(10, 11, 12, 13, 14, 15));
  EXPECT_EQ(tables.count, tables.at.frames + 6);
}

TEST(StepTables, EveryCountOfAStepHasABucket) {
  for (const std::int64_t slots : {1, 3, 31, 100, 255, 256}) {
    const auto buckets = decode_buckets(slots);
    EXPECT_TRUE(std::is_sorted(buckets.begin(), buckets.end())) << slots;
    EXPECT_EQ(buckets.back(), slots);
  }
  EXPECT_EQ(decode_buckets(100), (std::vector<std::int64_t>{1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40,
                                                            48, 56, 64, 80, 96, 100}));
  EXPECT_EQ(decode_buckets(1000), decode_buckets(256));
}

TEST(StepTables, SingleTokensComeFirstAndLogitsInTheBatchsOrder) {
  const Batch batch = make_batch({{3, 4, 2}, {1, 7, 1}, {2, 0, 1, false}, {1, 2, 1}});
  const StepShape shape = shape_of(batch, kBuckets, kNoWindow);
  EXPECT_EQ(shape,
            (StepShape{.rows = 7, .slots = 4, .decode = 2, .sampled = 3, .small_batch = true}));
  EXPECT_FALSE(shape.decode_only());
  const Tables tables(batch, shape);
  EXPECT_THAT(tables.table(tables.at.token, 7), ElementsAre(103, 106, 100, 101, 102, 104, 105));
  EXPECT_THAT(tables.table(tables.at.position, 7), ElementsAre(7, 2, 4, 5, 6, 0, 1));
  EXPECT_THAT(tables.table(tables.at.sequence, 7), ElementsAre(0, 1, 2, 2, 2, 3, 3));
  EXPECT_THAT(tables.table(tables.at.query_begin, 5), ElementsAre(0, 1, 2, 5, 7));
  EXPECT_THAT(tables.table(tables.at.length, 4), ElementsAre(8, 3, 7, 2));
  EXPECT_THAT(tables.table(tables.at.sampled, 3), ElementsAre(4, 0, 1));
  EXPECT_THAT(tables.table(tables.at.frame_begin, 5), ElementsAre(0, 1, 2, 4, 5));
  EXPECT_THAT(tables.table(tables.at.frames, 5), ElementsAre(12, 14, 10, 11, 13));
}

TEST(StepTables, ScoredRowsHaveLogitsBeforeTheLast) {
  Batch batch = make_batch({{4, 4, 2}, {1, 7, 1}, {3, 0, 1, false}, {1, 2, 1, false}});
  batch.entries[0].scored = {7, 7, 7};
  batch.entries[2].scored = {7, 7};
  batch.entries[3].scored = {7};
  const StepShape shape = shape_of(batch, kBuckets, kNoWindow);
  EXPECT_EQ(shape.sampled, 8);
  EXPECT_EQ(shape.sampled, batch.logit_rows());
  const Tables tables(batch, shape);
  // The single tokens have the first two rows.
  EXPECT_THAT(tables.table(tables.at.sampled, 8), ElementsAre(2, 3, 4, 5, 0, 6, 7, 1));
}

TEST(StepTables, BeyondTheLargestBucketTheShapeIsExact) {
  const Batch batch = make_batch(std::vector<Part>(9, Part{}));
  EXPECT_EQ(shape_of(batch, kBuckets, kNoWindow).slots, 9);
  EXPECT_EQ(shape_of(batch, {}, kNoWindow).rows, 9);
}

TEST(StepTables, FewShortSequencesAreASmallBatch) {
  using kernels::attention::small_batch_context_max, kernels::attention::kSmallBatchSequences;
  const auto small_batch = [](const std::vector<Part>& parts) {
    return shape_of(make_batch(parts), kBuckets, kNoWindow).small_batch;
  };
  const auto of_length = [](std::int64_t tokens) {
    return Part{1, static_cast<std::int32_t>(tokens - 1), 1};
  };
  EXPECT_TRUE(small_batch({of_length(small_batch_context_max(1))}));
  EXPECT_FALSE(small_batch({of_length(small_batch_context_max(1) + 1)}));
  EXPECT_TRUE(small_batch({of_length(5), of_length(small_batch_context_max(2))}));
  EXPECT_FALSE(small_batch({of_length(5), of_length(small_batch_context_max(2) + 1)}));
  EXPECT_TRUE(small_batch({Part{3, 5000, 1}, of_length(5)}));  // a prompt's length does not matter
  EXPECT_FALSE(small_batch({Part{3, 0, 1}}));
  EXPECT_TRUE(small_batch(std::vector<Part>(kSmallBatchSequences, of_length(6))));
  EXPECT_FALSE(small_batch(std::vector<Part>(kSmallBatchSequences + 1, of_length(6))));
}

TEST(StepTables, ASequenceBeyondTheWindowIsSeen) {
  const auto of = [](const std::vector<Part>& parts, std::int64_t window) {
    return shape_of(make_batch(parts), kBuckets, window);
  };
  EXPECT_FALSE(of({{1, 15, 2}, {16, 0, 2}}, 16).long_context);
  EXPECT_TRUE(of({{1, 15, 2}, {16, 0, 2}}, 16).small_batch);
  for (const Part& beyond : {Part{1, 16, 2}, Part{17, 0, 2}, Part{2, 15, 2}}) {
    const StepShape shape = of({{1, 3, 1}, beyond}, 16);
    EXPECT_TRUE(shape.long_context);
    EXPECT_FALSE(shape.small_batch);
  }
  EXPECT_FALSE(of({{1, 1 << 30, 1}}, kNoWindow).long_context);
}

TEST(StepTablesDeath, TooLittleRoom) {
  const Batch batch = make_batch({{1, 5, 2}});
  const StepShape shape = shape_of(batch, kBuckets, kNoWindow);
  std::vector<std::int32_t> little(static_cast<std::size_t>(offsets_of(shape).frames + 1));
  EXPECT_DEATH(write_tables(batch, shape, little), "no room");
}

RC_GTEST_PROP(StepTables, EveryTokenAndFrameIsSomewhereOnce, ()) {
  std::vector<Part> parts;
  const auto count = *rc::gen::inRange(1, 12);
  for (int i = 0; i < count; ++i) {
    parts.push_back({*rc::gen::inRange(1, 5), *rc::gen::inRange(0, 50), *rc::gen::inRange(1, 6),
                     *rc::gen::arbitrary<bool>()});
  }
  const Batch batch = make_batch(parts);
  const StepShape shape = shape_of(batch, kBuckets, kNoWindow);
  const Tables t(batch, shape);
  std::vector<bool> seen(batch.tokens.size(), false);
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const auto r = static_cast<std::size_t>(row);
    const std::int32_t position = t.data[static_cast<std::size_t>(t.at.position) + r];
    if (position < 0) continue;
    const std::int32_t place = t.data[static_cast<std::size_t>(t.at.sequence) + r];
    const auto p = static_cast<std::size_t>(place);
    // A row's position counts up from its sequence's context to its length.
    const std::int32_t begin = t.data[static_cast<std::size_t>(t.at.query_begin) + p];
    const std::int32_t end = t.data[static_cast<std::size_t>(t.at.query_begin) + p + 1];
    RC_ASSERT(begin <= row && row < end);
    RC_ASSERT(position == t.data[static_cast<std::size_t>(t.at.length) + p] - (end - row));
    const std::size_t token =
        static_cast<std::size_t>(t.data[static_cast<std::size_t>(t.at.token) + r] - 100);
    RC_ASSERT(!seen.at(token));
    seen[token] = true;
  }
  RC_ASSERT(std::count(seen.begin(), seen.end(), false) == 0);
  auto frames = t.table(t.at.frames, std::ssize(batch.frames));
  std::sort(frames.begin(), frames.end());
  for (std::size_t i = 0; i < frames.size(); ++i) {
    RC_ASSERT(frames[i] == 10 + static_cast<std::int32_t>(i));
  }
}

}  // namespace
}  // namespace causeway::model::step_tables_test
