#include "kernels/pending_tokens/pending_tokens.h"

#include <gtest/gtest.h>

#include <vector>

namespace causeway::kernels::pending_tokens::pending_tokens_test {
namespace {

TEST(PendingTokensTest, PutsWhatWasChosenWhereItIsPending) {
  std::vector<TokenId> tokens = {17, -2, 5, -4, -1, 0, -3};
  const std::vector<TokenId> chosen = {90, 91, 92};
  resolve(tokens, chosen);
  EXPECT_EQ(tokens, (std::vector<TokenId>{17, 90, 5, 92, -1, 0, 91}));
}

TEST(PendingTokensTest, RowsThatWereNeverChosenGiveZero) {
  std::vector<TokenId> tokens = {-2, -5, INT32_MIN};
  resolve(tokens, std::vector<TokenId>{7});
  EXPECT_EQ(tokens, (std::vector<TokenId>{7, 0, 0}));
}

}  // namespace
}  // namespace causeway::kernels::pending_tokens::pending_tokens_test
