#include "bench/metrics_text.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace causeway::bench::metrics_text_test {
namespace {

TEST(MetricsText, SamplesWithAndWithoutLabels) {
  const auto samples = parse_metrics(
                           "# HELP a what it is\n"
                           "a 3\r\n"
                           "causeway:b{x=\"1\",y=\"a \\\"}\\\\,\\n\"} 2.5e3 1700000000\n"
                           "\n"
                           "c{} NaN\n"
                           "d{le=\"+Inf\",} +Inf")
                           .value();
  ASSERT_EQ(samples.size(), 4u);
  EXPECT_EQ(samples[0].name, "a");
  EXPECT_EQ(samples[0].value, 3);
  EXPECT_EQ(samples[1].name, "causeway:b");
  EXPECT_EQ(samples[1].labels.at("y"), "a \"}\\,\n");
  EXPECT_EQ(samples[1].value, 2500);
  EXPECT_TRUE(std::isnan(samples[2].value));
  EXPECT_TRUE(std::isinf(samples[3].value));
}

TEST(MetricsText, SumsByLabels) {
  const auto samples = parse_metrics(
                           "bytes{direction=\"in\",purpose=\"weights\",link=\"0\"} 5\n"
                           "bytes{direction=\"in\",purpose=\"weights\",link=\"1\"} 6\n"
                           "bytes{direction=\"out\",purpose=\"kv\"} 7\n"
                           "other 9\n")
                           .value();
  const auto sums = sums_of(samples, "bytes", {"purpose", "direction"});
  EXPECT_EQ(sums, (std::map<std::string, double>{{"weights in", 11}, {"kv out", 7}}));
  EXPECT_EQ(sums_of(samples, "bytes").at(""), 18);
  EXPECT_TRUE(sums_of(samples, "nothing").empty());
}

TEST(MetricsText, WhatIsNoSampleNamesItsLine) {
  for (const char* line : {"{x=\"1\"} 2", "a", "a{x=1} 2", "a{x=\"1\" 2", "a{x=\"1\\", "a 1 2 3",
                           "a one", "a{x=\"1\"y=\"2\"} 3", "<html>"}) {
    const auto got = parse_metrics("ok 1\n" + std::string(line));
    ASSERT_FALSE(got.ok()) << line;
    EXPECT_NE(got.error().message.find("line 2 "), std::string::npos) << got.error().message;
  }
}

TEST(MetricsText, AnyBytesHaveAnEnd) {
  const std::string alphabet = "a:{}\"=,\\ 1.e\n#\t";
  Random random(5);
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (std::int64_t n = random.below(40); n > 0; --n) {
      text += alphabet[static_cast<std::size_t>(random.below(std::ssize(alphabet)))];
    }
    const auto got = parse_metrics(text);
    if (got.ok()) {
      EXPECT_LE(got->size(), text.size());
    }
  }
}

}  // namespace
}  // namespace causeway::bench::metrics_text_test
