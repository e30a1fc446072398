#include "request/batch.h"

#include <gtest/gtest.h>

namespace causeway::request::batch_test {
namespace {

TEST(PendingTokens, AreNoTokensAndKnowTheirRow) {
  for (const std::int64_t row : {0, 1, 255, 100'000}) {
    EXPECT_TRUE(is_pending(pending_token(row)));
    EXPECT_EQ(pending_row(pending_token(row)), row);
  }
  EXPECT_FALSE(is_pending(0));
  EXPECT_FALSE(is_pending(-1));
  EXPECT_FALSE(is_pending(150'000));
}

TEST(PendingTokens, BecomeWhatTheStepBeforeChose) {
  Batch batch;
  batch.tokens = {pending_token(1), 7, pending_token(0)};
  batch.entries.resize(2);
  batch.entries[1].history = {3, 4, pending_token(1)};
  std::vector<SampledToken> before(2);
  before[0].token.token = 50;
  before[1].token.token = 51;
  resolve_pending(batch, before);
  EXPECT_EQ(batch.tokens, (std::vector<TokenId>{51, 7, 50}));
  EXPECT_EQ(batch.entries[1].history, (std::vector<TokenId>{3, 4, 51}));
  EXPECT_TRUE(batch.entries[0].history.empty());
}

TEST(PendingTokens, AreTokenZeroWhenTheStepBeforeFailed) {
  Batch batch;
  batch.tokens = {pending_token(3)};
  resolve_pending(batch, {});
  EXPECT_EQ(batch.tokens, (std::vector<TokenId>{0}));
}

TEST(ObservationTest, TwoPartsTogetherHaveWhatEachHas) {
  Observation one, other;
  one.requests_running = 2;
  one.kv_copies.prefix_in = 3;
  one.link_bytes = Bytes(10);
  other.requests_running = 5;
  other.kv_copies.prefix_in = 4;
  other.link_bytes = Bytes(1);
  other.hung = true;
  other.lost = "GPU 1 is lost";
  one += other;
  EXPECT_EQ(one.requests(), 7);
  EXPECT_EQ(one.kv_copies.prefix_in, 7);
  EXPECT_EQ(one.link_bytes, Bytes(11));
  EXPECT_TRUE(one.hung);
  EXPECT_EQ(one.lost, "GPU 1 is lost");
}

}  // namespace
}  // namespace causeway::request::batch_test
