#include "base/json_numbers.h"

#include <gtest/gtest.h>

#include <cmath>

namespace causeway::json_numbers_test {
namespace {

std::string plain(std::string_view json) {
  std::string buffer;
  return std::string(plain_json_numbers(json, buffer));
}

constexpr const char* kLargest = "1.7976931348623157e308";

TEST(JsonNumbers, WhatParsersTakeStays) {
  for (const char* json : {"", "0", "-0", "[1, -2.5e3, 1e-999, 0.1e308]", "9223372036854775807",
                           "9223372036854775808", "18446744073709551615", "-9223372036854775808",
                           R"({"NaN": "Infinity", "a\"1e999": "1e999"})", "1.7976931348623157e308",
                           "0e999", "-0.0e99999999999999999999", "1e-99999999999999999999999",
                           "true", "null", "\"ends in a backslash\\", "\"open 1e999"}) {
    EXPECT_EQ(plain(json), json);
    std::string buffer;
    const std::string_view text(json);
    EXPECT_EQ(plain_json_numbers(text, buffer).data(), text.data()) << json;
  }
}

TEST(JsonNumbers, WhatIsNoNumberStaysForTheParserToRefuse) {
  for (const char* json :
       {"nan", "NaNs", "-NaN", "+Infinity", "1e", "1.e999", ".1e999", "01e999", "1e999e1", "1e999x",
        "--1e999", "00000000000000000000", "Infinity1", "0x1p9999", "1__000000000000000000000"}) {
    EXPECT_EQ(plain(json), json);
  }
}

TEST(JsonNumbers, LongIntegersBecomeFloats) {
  EXPECT_EQ(plain("18446744073709551616"), "18446744073709551616e0");
  EXPECT_EQ(plain("-9223372036854775809"), "-9223372036854775809e0");
  EXPECT_EQ(plain(R"({"model_max_length": 1000000000000000019884624838656, "b": 1})"),
            R"({"model_max_length": 1000000000000000019884624838656e0, "b": 1})");
}

TEST(JsonNumbers, WhatIsNotFiniteBecomesAStandIn) {
  const std::string digits(400, '9');
  for (const std::string& json :
       {digits, digits + ".5", std::string("1e309"), std::string("0.001e999"),
        std::string("1E+999"), std::string("Infinity"), std::string("1e99999999999999999999999")}) {
    EXPECT_EQ(plain(json), kLargest) << json;
    EXPECT_EQ(plain("[-" + json + "]"), std::string("[-").append(kLargest).append("]")) << json;
  }
  EXPECT_EQ(plain("[NaN,NaN]"), "[1.7976931348623155e308,1.7976931348623155e308]");
}

TEST(JsonNumbers, StandInsAreReadBack) {
  EXPECT_TRUE(std::isnan(python_number(std::stod(plain("NaN")))));
  EXPECT_EQ(python_number(std::stod(plain("1e999"))), INFINITY);
  EXPECT_EQ(python_number(std::stod(plain("-Infinity"))), -INFINITY);
  for (const double number : {0.0, 1.5, -1e308, 1.79769313486e308}) {
    EXPECT_EQ(python_number(number), number);
  }
  EXPECT_EQ(unusual_number_text(NAN), "NaN");
  EXPECT_EQ(unusual_number_text(-INFINITY), "-Infinity");
}

}  // namespace
}  // namespace causeway::json_numbers_test
