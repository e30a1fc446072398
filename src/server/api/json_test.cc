#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "server/api/json_scan.h"
#include "server/api/json_write.h"

namespace causeway::server::json_test {
namespace {

std::string nested(std::size_t depth) {
  return std::string(depth, '[') + "1" + std::string(depth, ']');
}

TEST(JsonScan, AllowsDepthUpToTheLimit) {
  EXPECT_FALSE(scan_json(nested(64), {}));
  const auto error = scan_json(nested(65), {});
  ASSERT_TRUE(error);
  EXPECT_NE(error->message.find("64"), std::string::npos);
  EXPECT_TRUE(scan_json(nested(100'000), {}));
}

TEST(JsonScan, LooksPastStrings) {
  EXPECT_FALSE(scan_json("\"" + std::string(1000, '[') + "\"", {}));
  EXPECT_FALSE(scan_json(R"("\"[[[[")" + nested(64), {}));
  EXPECT_TRUE(scan_json(R"("\\")" + nested(65), {}));
  EXPECT_FALSE(scan_json("\"ends in a backslash\\", {}));
}

TEST(JsonScan, CountsMembersAndValues) {
  std::string object = "{\"k\":1";
  for (int i = 0; i < 300; ++i) object += ",\"k" + std::to_string(i) + "\":1";
  EXPECT_TRUE(scan_json(object + "}", {}));
  JsonScanLimits few;
  few.values_max = 10;
  EXPECT_TRUE(scan_json("[1,2,3,4,5,6,7,8,9,10,11]", few));
  EXPECT_FALSE(scan_json("[1,2,3]", few));
}

TEST(JsonScan, NamesTheInvalidByte) {
  const auto error = scan_json("{\"a\": \"\xFF\"}", {});
  ASSERT_TRUE(error);
  EXPECT_NE(error->message.find("offset 7"), std::string::npos) << error->message;
}

TEST(JsonWrite, EscapesWhatMustBe) {
  std::string out;
  append_json_string(out, "a\"\\\n\t\x01\x7F€\xFF");
  EXPECT_EQ(out, "\"a\\\"\\\\\\n\\t\\u0001\\u007f€\uFFFD\"");
}

RC_GTEST_PROP(JsonWrite, IsReadBackForEveryBytes, (const std::string& bytes)) {
  std::string out;
  append_json_string(out, bytes);
  const auto parsed = nlohmann::json::parse(out, nullptr, false);
  RC_ASSERT(parsed.is_string());
  RC_ASSERT(parsed.get<std::string>() == to_valid_utf8(bytes));
}

RC_GTEST_PROP(JsonWrite, LogprobsKeepTheirValue, (float value)) {
  std::string out;
  append_json_logprob(out, value);
  RC_ASSERT(nlohmann::json::parse(out).get<float>() == value);
}

TEST(JsonWrite, InfinityIsANumber) {
  std::string out;
  append_json_logprob(out, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(out, "-9999.0");
}

TEST(JsonWrite, PrefixesDoNotCutCharacters) {
  EXPECT_EQ(utf8_prefix("a€b", 5), "a€b");
  EXPECT_EQ(utf8_prefix("a€b", 3), "a…");
  EXPECT_EQ(utf8_characters("a€b"), 3);
}

}  // namespace
}  // namespace causeway::server::json_test
