#include "server/tracing/trace_context.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace causeway::server::trace_context_test {
namespace {

constexpr std::string_view kGood = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

// The good one with `text` at `at`, and `more` behind it.
std::string with(std::size_t at, std::string_view text, std::string_view more = "") {
  std::string changed(kGood);
  changed.replace(at, text.size(), text);
  return changed.append(more);
}

TEST(TraceParent, IsReadAsTheStandardSays) {
  const auto context = parse_traceparent(kGood);
  ASSERT_TRUE(context.has_value());
  EXPECT_EQ(hex_of(context->trace), "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(hex_of(context->parent), "b7ad6b7169203331");
  EXPECT_TRUE(context->sampled);
  EXPECT_FALSE(parse_traceparent(with(53, "00"))->sampled);
  EXPECT_FALSE(parse_traceparent(with(53, "fe"))->sampled) << "the lowest bit alone";
  EXPECT_TRUE(parse_traceparent(with(53, "03"))->sampled);
}

TEST(TraceParent, LaterVersionsAreReadAsFarAsTheyAreKnown) {
  EXPECT_EQ(parse_traceparent(with(0, "cc")), parse_traceparent(kGood));
  EXPECT_EQ(parse_traceparent(with(0, "cc", "-what-comes")), parse_traceparent(kGood));
  EXPECT_FALSE(parse_traceparent(with(0, "cc", ".what"))) << "another field begins with a dash";
  EXPECT_FALSE(parse_traceparent(with(0, "ff"))) << "the standard excludes it";
  EXPECT_FALSE(parse_traceparent(with(0, "00", "-01"))) << "version 00 has no more";
}

TEST(TraceParent, OthersAreNone) {
  for (std::size_t length = 0; length < kGood.size(); ++length) {
    EXPECT_FALSE(parse_traceparent(kGood.substr(0, length))) << length;
  }
  for (std::size_t at = 0; at < kGood.size(); ++at) {
    for (const std::string_view bad : {"g", "A", " ", "\xff", ":"}) {
      EXPECT_FALSE(parse_traceparent(with(at, bad))) << at << bad;
    }
  }
  EXPECT_FALSE(parse_traceparent(with(3, "00000000000000000000000000000000")));
  EXPECT_FALSE(parse_traceparent(with(36, "0000000000000000")));
  EXPECT_TRUE(parse_traceparent(with(3, "0000000000000000"))) << "half of it may be zero";
}

TEST(TraceState, IsPassedOnIfItIsHarmless) {
  EXPECT_EQ(passable_trace_state("vendor=value,other=1"), "vendor=value,other=1");
  EXPECT_EQ(passable_trace_state("a=\xc3\xa4"), "");
  EXPECT_EQ(passable_trace_state("a=\x01"), "");
  EXPECT_EQ(passable_trace_state(std::string(512, 'a')).size(), 512u);
  EXPECT_EQ(passable_trace_state(std::string(513, 'a')), "");
}

TEST(TraceIds, DifferByNumberAndSeed) {
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  for (const std::uint64_t seed : {0, 1, 2}) {
    for (std::uint64_t number = 0; number < 1000; ++number) {
      const TraceId id = make_trace_id(seed, number);
      EXPECT_TRUE(seen.emplace(id.high, id.low).second);
      EXPECT_NE(make_span_id(id.low, number), 0u);
    }
  }
}

TEST(Sampling, TakesThePartThatIsAskedFor) {
  int taken = 0;
  for (std::uint64_t number = 0; number < 10'000; ++number) {
    const TraceId id = make_trace_id(7, number);
    EXPECT_TRUE(is_sampled(id, 1));
    EXPECT_FALSE(is_sampled(id, 0));
    if (!is_sampled(id, 0.25)) continue;
    ++taken;
    EXPECT_TRUE(is_sampled(id, 0.5)) << "more of them, the same ones too";
  }
  EXPECT_NEAR(taken, 2500, 200);
}

}  // namespace
}  // namespace causeway::server::trace_context_test
