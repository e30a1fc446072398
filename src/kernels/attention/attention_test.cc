#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include "base/testing/rounds.h"
#include "kernels/testing/near.h"

namespace causeway::kernels::attention::attention_test {
namespace {

using testing::fresh_seed;
using testing::poisoned;
using testing::random_floats;
using testing::relative_error;

struct Case {
  Heads heads;
  std::int64_t block_tokens;
  DType dtype;
  std::vector<std::pair<std::int64_t, std::int64_t>> sequences;  // context, query tokens
  std::int64_t window = kNoWindow;
  float cap = 0;
};

// Frames full of NaN, handed out in scrambled order; K and V of a layer between other bytes.
class Paged {
 public:
  Paged(const Case& c, Random& random) : case_(c) {
    const Bytes token = size_of(c.dtype) * (c.heads.kv * c.heads.size);
    kv_ = {.base = nullptr,
           .frame_bytes = token * (2 * c.block_tokens) + Bytes(128),
           .key_offset = Bytes(64),
           .value_offset = token * c.block_tokens,
           .token_stride = token,
           .block_tokens = c.block_tokens,
           .dtype = c.dtype};
    for (const auto& [context, queries] : c.sequences) {
      blocks_.push_back((context + queries + c.block_tokens - 1) / c.block_tokens);
      frame_count_ += blocks_.back();
    }
    memory_.assign(static_cast<std::size_t>(frame_count_ * kv_.frame_bytes.count), std::byte{0xFF});
    kv_.base = memory_.data();
    for (std::int64_t i = 0; i < frame_count_; ++i) frames_.emplace_back(i);
    for (std::size_t i = frames_.size(); i > 1; --i) {
      std::swap(frames_[i - 1], frames_[static_cast<std::size_t>(random.below(std::int64_t(i)))]);
    }
  }

  const PagedKv& kv() const { return kv_; }

  // The sequences with the given lengths: all tokens as queries, or the real split.
  std::vector<Sequence> sequences(bool all_tokens) const {
    std::vector<Sequence> result;
    std::int64_t frame = 0, row = 0;
    for (std::size_t i = 0; i < case_.sequences.size(); ++i) {
      const auto [context, queries] = case_.sequences[i];
      Sequence s{.frames = std::span(frames_).subspan(static_cast<std::size_t>(frame),
                                                      static_cast<std::size_t>(blocks_[i])),
                 .query_begin = row,
                 .query_count = all_tokens ? context + queries : queries,
                 .context = all_tokens ? 0 : context};
      frame += blocks_[i];
      row += s.query_count;
      result.push_back(s);
    }
    return result;
  }

 private:
  const Case& case_;
  PagedKv kv_;
  std::vector<std::int64_t> blocks_;
  std::int64_t frame_count_ = 0;
  std::vector<std::byte> memory_;
  std::vector<FrameId> frames_;
};

double rounded(float x, DType dtype) {
  return dtype == DType::kBF16 ? to_float(to_bfloat16(x)) : x;
}

// Attention of one query row, in double precision, over the tokens up to `position` in the window.
void exact_row(const Case& c, const float* q, const float* k, const float* v, std::int64_t position,
               std::int64_t stride, std::int64_t head, std::vector<double>& out) {
  const std::int64_t size = c.heads.size, kv_head = head * c.heads.kv / c.heads.query;
  std::vector<double> scores;
  double largest = -1e300, total = 0;
  const std::int64_t first = std::max<std::int64_t>(0, position + 1 - c.window);
  for (std::int64_t t = first; t <= position; ++t) {
    double score = 0;
    for (std::int64_t d = 0; d < size; ++d) {
      score += double{q[head * size + d]} * rounded(k[t * stride + kv_head * size + d], c.dtype);
    }
    scores.push_back(c.cap > 0 ? c.cap * std::tanh(score * 0.3 / c.cap) : score * 0.3);
    largest = std::max(largest, scores.back());
  }
  for (double& score : scores) total += score = std::exp(score - largest);
  for (std::int64_t d = 0; d < size; ++d) {
    double sum = 0;
    for (std::int64_t t = first; t <= position; ++t) {
      const double value = rounded(v[t * stride + kv_head * size + d], c.dtype);
      sum += scores[static_cast<std::size_t>(t - first)] * value;
    }
    out.push_back(sum / total);
  }
}

double error_of(const Case& c, Variant variant, Random& random) {
  Paged paged(c, random);
  const auto all = paged.sequences(true), split = paged.sequences(false);
  const std::int64_t kv_row = c.heads.kv * c.heads.size, q_row = c.heads.query * c.heads.size;
  const std::int64_t tokens = all.back().query_begin + all.back().query_count;
  const std::int64_t queries = split.back().query_begin + split.back().query_count;
  const std::int64_t stride = kv_row + 3;
  const auto k = random_floats(random, tokens * stride), v = random_floats(random, tokens * stride);
  const auto q = random_floats(random, queries * q_row);
  write_kv({.kv = paged.kv(),
            .heads = c.heads,
            .sequences = all,
            .k = k.data(),
            .v = v.data(),
            .stride = stride,
            .variant = variant});
  auto out = poisoned(queries * q_row);
  Attention attention;
  attention.run({.kv = paged.kv(),
                 .heads = c.heads,
                 .sequences = split,
                 .scale = 0.3f,
                 .q = q.data(),
                 .q_stride = q_row,
                 .out = out.data(),
                 .out_stride = q_row,
                 .window = c.window,
                 .cap = c.cap,
                 .variant = variant});
  std::vector<double> exact;
  for (std::size_t i = 0; i < split.size(); ++i) {
    for (std::int64_t t = 0; t < split[i].query_count; ++t) {
      for (std::int64_t head = 0; head < c.heads.query; ++head) {
        exact_row(c, q.data() + (split[i].query_begin + t) * q_row,
                  k.data() + all[i].query_begin * stride, v.data() + all[i].query_begin * stride,
                  split[i].context + t, stride, head, exact);
      }
    }
  }
  return relative_error(out, exact);
}

TEST(AttentionTest, EveryVariantAgreesWithDoublePrecision) {
  Random random(fresh_seed());
  const std::vector<Heads> heads = {{1, 1, 8},   {4, 2, 16}, {3, 1, 10}, {5, 1, 64},
                                    {14, 2, 20}, {8, 1, 33}, {4, 4, 80}, {6, 2, 128}};
  for (const Variant variant : available_variants()) {
    for (const Heads& h : std::span(heads).last(kSanitized ? 2 : heads.size())) {
      for (const DType dtype : {DType::kBF16, DType::kF32}) {
        Case c{h, random.between(1, 70), dtype, {}};
        for (int i = 0; i < 4; ++i) {
          c.sequences.emplace_back(random.between(0, 150), random.between(1, 60));
        }
        c.sequences.emplace_back(random.between(0, 100), 1);
        EXPECT_LT(error_of(c, variant, random), 3e-6)
            << name_of(variant) << ", heads " << h.query << "/" << h.kv << " of " << h.size << ", "
            << name_of(dtype) << ", blocks of " << c.block_tokens;
      }
    }
  }
}

TEST(AttentionTest, TileEdges) {
  Random random(fresh_seed());
  for (const std::int64_t length : {1, 15, 16, 17, 63, 64, 65, 127, 128, 129}) {
    const Case whole{{4, 2, 16}, 12, DType::kF32, {{0, length}}};
    EXPECT_LT(error_of(whole, best_variant(), random), 3e-6) << length << " tokens at once";
    const Case last{{4, 2, 16}, 12, DType::kF32, {{length - 1, 1}}};
    EXPECT_LT(error_of(last, best_variant(), random), 3e-6) << length << " tokens, the last alone";
  }
}

TEST(AttentionTest, LongContextsAreMergedFromRanges) {
  Random random(fresh_seed());
  const Case c{{8, 2, 32}, 48, DType::kBF16, {{3000, 1}, {700, 2}, {5, 1}}};
  for (const Variant variant : available_variants()) {
    EXPECT_LT(error_of(c, variant, random), 3e-6) << name_of(variant);
  }
}

TEST(AttentionTest, AWindowHidesEarlierTokens) {
  Random random(fresh_seed());
  for (const Variant variant : available_variants()) {
    for (const std::int64_t window : {1, 2, 15, 16, 17, 63, 64, 65, 100, 700, 5000}) {
      if (kSanitized && window != 17 && window != 700) continue;
      for (const DType dtype : {DType::kBF16, DType::kF32}) {
        // Rows one by one, in ranges that are merged, and in tiles of many.
        const Case c{{8, 2, 16},
                     random.between(1, 70),
                     dtype,
                     {{2900, 1}, {random.between(0, 300), 2}, {600, 130}, {0, 200}, {5, 1}},
                     window};
        EXPECT_LT(error_of(c, variant, random), 3e-6)
            << name_of(variant) << ", window " << window << ", " << name_of(dtype) << ", blocks of "
            << c.block_tokens;
      }
    }
  }
}

TEST(AttentionTest, ScoresAreCapped) {
  Random random(fresh_seed());
  for (const Variant variant : available_variants()) {
    for (const DType dtype : {DType::kBF16, DType::kF32}) {
      const Case c{{8, 2, 80}, 12, dtype, {{700, 1}, {300, 2}, {90, 130}, {5, 1}}, 200, 1.5f};
      EXPECT_LT(error_of(c, variant, random), 3e-6) << name_of(variant) << ", " << name_of(dtype);
    }
  }
}

TEST(AttentionTest, LargeScoresDoNotOverflow) {
  const Case c{{1, 1, 4}, 4, DType::kF32, {{0, 2}}};
  Random random(1);
  Paged paged(c, random);
  const std::vector<float> k = {0, 0, 0, 0, 1e4f, 0, 0, 0}, v = {1, 1, 1, 1, 2, 2, 2, 2};
  const std::vector<float> q = {1e4f, 0, 0, 0, 1e4f, 0, 0, 0};
  const auto sequences = paged.sequences(true);
  write_kv({.kv = paged.kv(),
            .heads = c.heads,
            .sequences = sequences,
            .k = k.data(),
            .v = v.data(),
            .stride = 4});
  auto out = poisoned(8);
  Attention attention;
  attention.run({.kv = paged.kv(),
                 .heads = c.heads,
                 .sequences = sequences,
                 .scale = 1,
                 .q = q.data(),
                 .q_stride = 4,
                 .out = out.data(),
                 .out_stride = 4});
  EXPECT_EQ(out, (std::vector<float>{1, 1, 1, 1, 2, 2, 2, 2}));
}

}  // namespace
}  // namespace causeway::kernels::attention::attention_test
