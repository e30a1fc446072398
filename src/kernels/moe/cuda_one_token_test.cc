// The kernel for one token, as far as it is plain arithmetic. Which shapes it takes, and that what
// lies in shared memory does not overlap. The order of stages over generated shapes and numbers of
// CTAs, against one that is dealt out naively: everything is done once, down waits for nothing
// behind it, and all CTAs together come to an end whatever their speed.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "kernels/moe/cuda_one_token_layout.h"
#include "kernels/moe/cuda_one_token_stream.h"
#include "kernels/testing/near.h"

namespace causeway::kernels::moe::cuda_one_token_test {
namespace {

struct Stage {
  bool down;
  int expert, at;  // at: pair of its expert, or group of rows

  bool operator==(const Stage&) const = default;
};

std::vector<Stage> stages_of(const OneTokenShape& shape, int cta) {
  std::vector<Stage> stages;
  for (OneTokenStream s(shape, cta); !s.done(); s.advance()) {
    if (s.is_down()) {
      stages.push_back({true, s.expert, cta + s.group * s.ctas});
    } else {
      stages.push_back({false, s.pair / s.tiles, s.pair % s.tiles});
    }
  }
  return stages;
}

// Expert by expert its gate and up, then down of the one that is `lag` before; each pair of the
// line and each group of rows goes to the CTA whose turn it is.
std::vector<Stage> dealt_out(const OneTokenShape& shape, int cta) {
  const int tiles = shape.intermediate / 2, groups = shape.hidden / kDownRows;
  std::vector<Stage> stages;
  for (int expert = 0; expert < shape.experts + shape.lag; ++expert) {
    for (int pair = 0; pair < tiles && expert < shape.experts; ++pair) {
      const int turn = (expert * tiles + pair) % shape.ctas;
      if (turn == shape.ctas - 1 - cta) stages.push_back({false, expert, pair});
    }
    for (int group = 0; group < groups && expert >= shape.lag; ++group) {
      if (group % shape.ctas == cta) stages.push_back({true, expert - shape.lag, group});
    }
  }
  return stages;
}

std::string name_of(const OneTokenShape& s) {
  return std::to_string(s.experts) + " experts " + std::to_string(s.hidden) + "×" +
         std::to_string(s.intermediate) + ", lag " + std::to_string(s.lag) + ", " +
         std::to_string(s.ctas) + " CTAs";
}

void compare(const OneTokenShape& shape) {
  for (int cta = 0; cta < shape.ctas; ++cta) {
    ASSERT_TRUE(stages_of(shape, cta) == dealt_out(shape, cta)) << name_of(shape) << ": " << cta;
    OneTokenStream end(shape, cta);
    while (!end.done()) end.advance();
    for (int i = 0; i < 10; ++i) end.advance();  // as warps do that have every fourth stage
    ASSERT_TRUE(end.done()) << name_of(shape) << ": " << cta;
  }
}

// Warps that each do every fourth stage, in a ring of so many places, in any order that the rules
// allow; false if nothing can go on before all is done.
bool ends(const OneTokenShape& shape, int places, Random& random) {
  std::vector<std::vector<Stage>> all;
  for (int cta = 0; cta < shape.ctas; ++cta) all.push_back(stages_of(shape, cta));
  std::vector<int> left(static_cast<std::size_t>(shape.experts), shape.intermediate / 2);
  std::vector<std::vector<char>> done;
  for (const auto& stages : all) done.emplace_back(stages.size(), 0);
  struct Turn {
    std::size_t cta, stage;
  };
  std::vector<Turn> next;
  for (std::size_t cta = 0; cta < all.size(); ++cta) {
    for (std::size_t warp = 0; warp < kWorkerWarps; ++warp) {
      if (warp < all[cta].size()) next.push_back({cta, warp});
    }
  }
  while (!next.empty()) {
    for (std::size_t i = next.size(); i > 1; --i) {
      std::swap(next[i - 1], next[static_cast<std::size_t>(random.below(std::int64_t(i)))]);
    }
    const auto ready = std::find_if(next.begin(), next.end(), [&](const Turn& turn) {
      const Stage& s = all[turn.cta][turn.stage];
      // Asked for in order: the stage before each place's one must have been read, of all up to it.
      for (std::size_t i = 0; i + static_cast<std::size_t>(places) <= turn.stage; ++i) {
        if (!done[turn.cta][i]) return false;
      }
      return !s.down || left[static_cast<std::size_t>(s.expert)] == 0;
    });
    if (ready == next.end()) return false;
    const Stage& s = all[ready->cta][ready->stage];
    done[ready->cta][ready->stage] = 1;
    if (!s.down) --left[static_cast<std::size_t>(s.expert)];
    ready->stage += kWorkerWarps;
    if (ready->stage >= all[ready->cta].size()) next.erase(ready);
  }
  return true;
}

int between(Random& random, int low, int high) {
  return static_cast<int>(random.between(low, high));
}

TEST(OneTokenStream, IsWhatIsDealtOut) {
  for (const int lag : {0, 1, one_token_lag(8), 9}) compare({2048, 768, 8, lag, 132});
  compare({2048, 768, 1, one_token_lag(1), 132});
  compare({32, 32, 32, 3, 132});
  compare({32, 32, 1, 1, 512});
  Random random(testing::fresh_seed());
  for (int i = 0; i < 300; ++i) {
    compare({32 * between(random, 1, 64), 32 * between(random, 1, 24), between(random, 1, 32),
             between(random, 0, 9), between(random, 1, 160)});
  }
}

TEST(OneTokenStream, EndsWhateverTheSpeeds) {
  Random random(testing::fresh_seed());
  for (int i = 0; i < 60; ++i) {
    const OneTokenShape shape = {32 * between(random, 1, 8), 32 * between(random, 1, 3),
                                 between(random, 1, 8), between(random, 0, 4),
                                 between(random, 1, 12)};
    EXPECT_TRUE(ends(shape, between(random, kWorkerWarps, 12), random)) << name_of(shape);
  }
}

TEST(OneTokenLag, IsHalfOfTheChosenExperts) {
  EXPECT_EQ(one_token_lag(8), 4);
  EXPECT_EQ(one_token_lag(32), 16);
  for (const int experts : {1, 2, 3}) EXPECT_EQ(one_token_lag(experts), 1);
}

TEST(OneTokenLayout, SaysWhichShapesItIsFor) {
  const ShapeCuda qwen{2048, 768, 128, 8};  // Qwen3-30B-A3B
  for (const int ctas : {132, 114, 16, 8}) EXPECT_TRUE(one_token_fits(qwen, 1, ctas)) << ctas;
  EXPECT_FALSE(one_token_fits(qwen, 2, 132));
  EXPECT_FALSE(one_token_fits(qwen, 1, 2));  // too many rows of the router a CTA
  EXPECT_FALSE(one_token_fits({2048, 832, 128, 8}, 1, 132));
  EXPECT_FALSE(one_token_fits({2048, 768, 160, 8}, 1, 132));
  EXPECT_FALSE(one_token_fits({4096, 768, 128, 8}, 1, 132));   // no four stages
  EXPECT_FALSE(one_token_fits({4096, 1536, 128, 8}, 1, 132));  // Qwen3-235B-A22B
  EXPECT_FALSE(one_token_fits({4096, 14336, 8, 2}, 1, 132));   // Mixtral-8x7B
}

struct Piece {
  std::uint32_t begin;
  std::int64_t bytes;
};

// In this order; 16 bytes are copied and loaded at once.
void expect_apart(const std::vector<Piece>& pieces) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(pieces[i].begin % 16, 0u) << i;
    if (i == 0) continue;
    EXPECT_GE(pieces[i].begin, pieces[i - 1].begin + pieces[i - 1].bytes) << i;
  }
}

TEST(OneTokenLayout, ItsPiecesLieApart) {
  Random random(testing::fresh_seed());
  int fit = 0;
  for (int i = 0; i < 2000; ++i) {
    const ShapeCuda s{32 * between(random, 1, 128), 32 * between(random, 1, 26),
                      between(random, 1, 140), between(random, 1, 32)};
    const int ctas = between(random, 1, 160);
    const auto at = one_token_layout(s, ctas);
    if (!at) continue;
    ++fit;
    const std::int64_t k = s.experts_per_token, rows = (s.hidden / 8 + ctas - 1) / ctas * 8;
    expect_apart({{at->x, 2 * s.hidden},
                  {at->partial, 32},
                  {at->keys, 512},
                  {at->sorted, 512},
                  {at->items, 24 * k},
                  {at->chosen_keys, 4 * k},
                  {at->chosen_experts, 4 * k},
                  {at->addends, 8 * k},
                  {at->barriers, 8 * (2 * at->stages + 4)},
                  {at->ring, at->stages * std::int64_t{at->stage_bytes}},
                  {at->down_sums, 4 * k * rows},
                  {at->bytes, 0}});
    EXPECT_EQ(at->ring % 128, 0u);
    EXPECT_LE(at->bytes, static_cast<std::uint32_t>(kOneTokenSharedMax));
    EXPECT_GE(at->stages, kWorkerWarps);
    const std::int64_t front = (1 + (s.experts + ctas - 1) / ctas) * s.hidden * 2;
    EXPECT_LE(at->ring + front, at->down_sums);
    EXPECT_GE(at->stage_bytes, 8 * s.hidden);
    EXPECT_GE(at->stage_bytes, 16 * s.intermediate);
  }
  EXPECT_GT(fit, 100);
}

}  // namespace
}  // namespace causeway::kernels::moe::cuda_one_token_test
