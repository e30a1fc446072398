#include "bench/figure.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace causeway::bench::figure_test {
namespace {

Samples samples_of(std::vector<double> values) { return {std::move(values)}; }

TEST(Samples, SharesAreOfTheSortedValues) {
  const Samples samples = samples_of({5, 1, 4, 2, 3});
  EXPECT_EQ(samples.least(), 1);
  EXPECT_EQ(samples.median(), 3);
  EXPECT_EQ(samples.at(0.75), 4);
  EXPECT_EQ(samples.most(), 5);
  EXPECT_EQ(samples_of({7}).at(0.99), 7);
  EXPECT_EQ(Samples().median(), 0);
  Samples many;
  for (int i = 1000; i > 0; --i) many.add(i);
  EXPECT_NEAR(many.at(0.99), 990, 1);
}

TEST(Figure, IsMetUpToWhatIsWanted) {
  const Samples samples = samples_of({12, 10, 11});
  EXPECT_TRUE(figure_of("first token", samples).met());
  EXPECT_TRUE(figure_of("first token", samples, {.value = 10, .wanted = 11}).met());
  EXPECT_FALSE(figure_of("first token", samples, {.value = 10, .wanted = 10.9}).met());
  // Rates are the better the higher they are.
  EXPECT_TRUE(figure_of("link", samples, {.value = 12, .wanted = 11, .at_least = true}).met());
  EXPECT_FALSE(figure_of("link", samples, {.value = 12, .wanted = 11.1, .at_least = true}).met());
}

TEST(Figure, JsonHasTheNameForPeopleAndItsParts) {
  Figure figure = figure_of("first token", samples_of({3, 1, 2}), {.value = 1, .name = "link"});
  figure.model = "small";
  figure.start = "at once";
  const auto rows = figures_json({figure});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["what"], "first token, small, at once");
  EXPECT_EQ(rows[0]["figure"], "first token");
  EXPECT_EQ(rows[0]["start"], "at once");
  EXPECT_EQ(rows[0]["samples"], 3);
  EXPECT_EQ(rows[0]["measured"], 2.0);
  EXPECT_EQ(rows[0]["limit_name"], "link");
  EXPECT_EQ(rows[0]["met"], true);
}

}  // namespace
}  // namespace causeway::bench::figure_test
