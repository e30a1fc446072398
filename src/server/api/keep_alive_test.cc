#include "server/api/keep_alive.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/random.h"

namespace causeway::server::keep_alive_test {
namespace {

std::optional<Nanos> of(const Json& value) {
  const Json body = {{"keep_alive", value}};
  Fields fields(body);
  GenerationRequest out;
  parse_keep_alive(fields, out);
  EXPECT_EQ(fields.failed(), !out.keep_alive && !value.is_null()) << value;
  EXPECT_TRUE(!fields.failed() || fields.error()->param == "keep_alive");
  return out.keep_alive;
}

TEST(KeepAlive, IsADurationAsGoWritesIt) {
  EXPECT_EQ(of("5m"), seconds(300));
  EXPECT_EQ(of("1h30m"), seconds(5400));
  EXPECT_EQ(of("1.5h"), seconds(5400));
  EXPECT_EQ(of("250ms"), millis(250));
  EXPECT_EQ(of("1m1s1ms1us1ns"), seconds(61) + Nanos(1'001'001));
  EXPECT_EQ(of("0"), Nanos(0));
  EXPECT_EQ(of("0s"), Nanos(0));
  EXPECT_EQ(of("+5s"), seconds(5));
  EXPECT_EQ(of("-1m"), kKeepForEver);
  EXPECT_EQ(of("-1"), kKeepForEver);
  EXPECT_EQ(of("300"), seconds(300));
}

TEST(KeepAlive, IsANumberOfSeconds) {
  EXPECT_EQ(of(0), Nanos(0));
  EXPECT_EQ(of(300), seconds(300));
  EXPECT_EQ(of(0.25), millis(250));
  EXPECT_EQ(of(-1), kKeepForEver);
  EXPECT_EQ(of(-0.5), kKeepForEver);
  EXPECT_EQ(of(nullptr), std::nullopt);
}

TEST(KeepAlive, AnythingElseIsRefused) {
  for (const char* text :
       {"",     " ",   "m",     "5 m",      "5x",        "m5",    "5m3",
        "--5m", "5m-", "1e3",   "1e3s",     "inf",       "nan",   ".",
        "0x10", "5m5", "1..5h", "9999999h", "-9999999h", "5\xc2", "1.7976931348623157e308s"}) {
    EXPECT_EQ(of(text), std::nullopt) << text;
  }
  std::string digits(5000, '9');
  EXPECT_EQ(of(digits += 'h'), std::nullopt);
  for (const Json& value : {Json(true), Json::array(), Json::object(), Json(1e300), Json(-1e300),
                            Json(std::numeric_limits<std::int64_t>::max()),
                            Json(std::numeric_limits<double>::quiet_NaN())}) {
    EXPECT_EQ(of(value), std::nullopt) << value;
  }
}

TEST(KeepAlive, WhateverComesIsADurationOrNone) {
  Random random(3);
  constexpr std::string_view kAlphabet = "0159.-+hmsnu\xc2\xb5 e";
  for (int round = 0; round < 50'000; ++round) {
    std::string text;
    for (auto left = random.below(8); left > 0; --left) {
      text += kAlphabet[static_cast<std::size_t>(random.below(std::ssize(kAlphabet)))];
    }
    const auto parsed = parse_keep_alive(text);
    EXPECT_TRUE(!parsed || *parsed >= Nanos(0) || *parsed == kKeepForEver) << text;
  }
}

}  // namespace
}  // namespace causeway::server::keep_alive_test
