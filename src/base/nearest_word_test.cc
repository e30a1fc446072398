#include "base/nearest_word.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace causeway::nearest_word_test {
namespace {

std::string_view meant(std::string_view word) {
  static constexpr std::string_view kKnown[] = {"n",     "top_k",      "stop",          "tools",
                                                "model", "max_tokens", "stop_token_ids"};
  return nearest_word(word, kKnown);
}

TEST(NearestWord, OfEveryKindOfChange) {
  EXPECT_EQ(meant("max_token"), "max_tokens");    // left out
  EXPECT_EQ(meant("max_tokenss"), "max_tokens");  // put in
  EXPECT_EQ(meant("max-tokens"), "max_tokens");   // replaced
  EXPECT_EQ(meant("max_tokesn"), "max_tokens");   // places changed
  EXPECT_EQ(meant("topk"), "top_k");
  EXPECT_EQ(meant("mdoel"), "model");   // one change of five characters
  EXPECT_EQ(meant("mdoell"), "model");  // two of six
  EXPECT_EQ(meant("stop_tokens_id"), "stop_token_ids");
  EXPECT_EQ(meant("tools"), "tools");
}

TEST(NearestWord, IsNoneWhereMuchDiffers) {
  for (const std::string_view word : {"", "m", "k", "sot", "temperature", "max", "xodfl"}) {
    EXPECT_EQ(meant(word), "") << word;
  }
}

TEST(NearestWord, TheFirstOfEquals) {
  static constexpr std::string_view kKnown[] = {"--slo-tpot", "--slo-ttft"};
  EXPECT_EQ(nearest_word("--slo-tXXt", kKnown), "--slo-tpot");
  EXPECT_EQ(nearest_word("--slo-ttfd", kKnown), "--slo-ttft");
}

TEST(NearestWord, LongWordsAreLikeNone) {
  const std::string long_word(64, 'a'), longer(65, 'a');
  const std::vector<std::string_view> known = {longer, long_word};
  EXPECT_EQ(nearest_word(long_word, known), long_word);
  EXPECT_EQ(nearest_word(longer, known), "");
  EXPECT_EQ(nearest_word(std::string(1 << 20, 'a'), known), "");
}

}  // namespace
}  // namespace causeway::nearest_word_test
