#include "bench/tuner_bench.h"

#include <gtest/gtest.h>

#include <string>

namespace causeway::bench::tuner_bench_test {
namespace {

std::string row(const char* way, double alpha, double ms, double link_gb, int m = 4096) {
  return R"({"home":"host","sms":132,"m":)" + std::to_string(m) + R"(,"n":16384,"k":4096,"way":")" +
         way + R"(","alpha":)" + std::to_string(alpha) + R"(,"ms":)" + std::to_string(ms) +
         R"(,"link_gb":)" + std::to_string(link_gb) + "}\n";
}

std::string rows() {
  return row("floor", 0, 2.6, 0.1342, 0) + row("copy", 0, 2.4, 0.1342, 0) +
         row("symmetric", 1, 5.3, 0.2684) + row("ring", 0, 2.7, 0.1342) +
         row("ring", 0.5, 4.0, 0.2013) + row("chunked", 0, 2.5, 0.1342) +
         row("resident", 0, 0.7, 0.1342) + row("ring", 0, 2.68, 0.1342, 256);
}

TEST(TunerCurves, AreReadFromRows) {
  const auto curves = curves_of(rows(), 4.3e12);
  ASSERT_TRUE(curves.ok()) << curves.error().message;
  ASSERT_EQ(curves->size(), 1u) << "M 256 has no sweep";
  const AlphaCurve& curve = curves->front();
  EXPECT_EQ(curve.name, "host, 132 SMs, M 4096");
  EXPECT_NEAR(curve.link_rate, 51.6e9, 0.1e9);
  EXPECT_NEAR(curve.staged_seconds, 2.5e-3, 1e-9);
  EXPECT_NEAR(curve.at(0.25).seconds, 3.35e-3, 1e-9);
  EXPECT_NEAR(curve.at(1).link_bytes, 0.2684e9, 1);
  EXPECT_NEAR(curve.at(7).seconds, 5.3e-3, 1e-9);
  EXPECT_NEAR(seconds_under(curve, 0, {}), 2.7e-3, 1e-9);
  EXPECT_NEAR(seconds_under(curve, 0, {.link = 0.25}), 4 * 2.6e-3, 1e-4);
  std::string array = "[" + rows();
  for (char& c : array) c = c == '\n' ? ',' : c;
  array.back() = ']';
  const auto again = curves_of(array, 4.3e12);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->size(), 1u);
}

TEST(TunerCurves, RefuseWhatIsNone) {
  EXPECT_EQ(curves_of("", 1e12).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(curves_of(row("ring", 0, 1, 1), 1e12).error().code, ErrorCode::kNotFound);
  for (const char* text : {"{", "[1]", "[", "null", "{}", "7\n",
                           R"({"home":"host","way":"ring","sms":0,"m":1,"n":1,"k":1})"}) {
    const auto curves = curves_of(text, 1e12);
    ASSERT_FALSE(curves.ok()) << text;
    EXPECT_EQ(curves.error().code, ErrorCode::kCorrupt) << text;
  }
  EXPECT_FALSE(curves_of(row("ring", 1.5, 1, 1), 1e12).ok());
  EXPECT_FALSE(curves_of(row("ring", 0, -1, 1), 1e12).ok());
}

TEST(TunerBench, OverALinkThatIsTheLimitAlphaStaysWhereItBegan) {
  const auto curves = curves_of(rows(), 4.3e12);
  ASSERT_TRUE(curves.ok());
  const TunerOutcome outcome = try_tuners(curves->front(), {}, {}, {});
  for (const double alpha : outcome.alphas) EXPECT_LE(alpha, 0.02);
  EXPECT_NEAR(outcome.tuned_alpha / outcome.fixed_zero, 1, 0.01) << "nothing is gained";
  EXPECT_LE(outcome.tuned_way, 0.98 * outcome.fixed_zero) << "staging is";
  EXPECT_LE(outcome.best, outcome.tuned_way);
}

TEST(TunerBench, WithThePapersTrafficItGainsWhenHbmIsShort) {
  for (const AlphaCurve& curve : paper_curves()) {
    const TunerOutcome outcome = try_tuners(curve, {}, {}, {});
    EXPECT_LE(outcome.best_alpha, outcome.fixed_best);
    EXPECT_LE(outcome.tuned_alpha, 1.15 * outcome.best_alpha) << curve.name;
    EXPECT_LT(outcome.tuned_alpha, outcome.fixed_one) << curve.name;
  }
  const AlphaCurve whole = paper_curves().front();
  const TunerOutcome outcome = try_tuners(whole, {}, {}, {});
  EXPECT_LE(outcome.tuned_alpha, 0.97 * outcome.fixed_zero);
  EXPECT_GT(outcome.alphas[2], outcome.alphas[1]) << "away from HBM while others have it";
}

}  // namespace
}  // namespace causeway::bench::tuner_bench_test
