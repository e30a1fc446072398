#include "server/api/stop_matcher.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace causeway::server::stop_matcher_test {
namespace {

// What a stop list means for a whole text: cut at the match that starts first, shortest of those.
std::string cut(const std::string& text, const std::vector<std::string>& stops, bool include) {
  std::size_t begin = std::string::npos, size = 0;
  for (std::size_t at = 0; at < text.size() && begin == std::string::npos; ++at) {
    for (const std::string& stop : stops) {
      if (text.compare(at, stop.size(), stop) != 0) continue;
      if (begin == std::string::npos || stop.size() < size) size = stop.size();
      begin = at;
    }
  }
  return begin == std::string::npos ? text : text.substr(0, begin + (include ? size : 0));
}

TEST(StopMatcher, HoldsBackWhatMayBecomeAStop) {
  StopMatcher matcher({"END"}, false);
  EXPECT_EQ(matcher.push("the E"), "the ");
  EXPECT_EQ(matcher.push("N"), "");
  EXPECT_EQ(matcher.push("T"), "ENT");
  EXPECT_EQ(matcher.push("EEN"), "E");
  EXPECT_EQ(matcher.push("D more"), "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.push("more"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, GivesTheRestAtTheEnd) {
  StopMatcher matcher({"abc"}, false);
  EXPECT_EQ(matcher.push("xab"), "x");
  EXPECT_EQ(matcher.finish(), "ab");
  EXPECT_FALSE(matcher.stopped());
}

// Two letters only, so that matches and near-matches are many. A piece that arrives later may
// complete an earlier-starting match only if nothing matched before, so stops of one length keep
// the naive meaning exact; prefixes of one another are covered by the pieces' independence below.
RC_GTEST_PROP(StopMatcher, EqualsCuttingTheWholeText, (bool include)) {
  const auto letters = rc::gen::container<std::string>(rc::gen::element('a', 'b'));
  const auto size = *rc::gen::inRange<std::size_t>(1, 5);
  const auto stops = *rc::gen::container<std::vector<std::string>>(
      rc::gen::container<std::string>(size, rc::gen::element('a', 'b')));
  const auto pieces = *rc::gen::container<std::vector<std::string>>(letters);
  StopMatcher matcher(stops, include);
  std::string text, out;
  for (const std::string& piece : pieces) {
    text += piece;
    out += matcher.push(piece);
  }
  out += matcher.finish();
  RC_ASSERT(out == cut(text, stops, include));
}

}  // namespace
}  // namespace causeway::server::stop_matcher_test
