#include "base/json_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace causeway::json_text_test {
namespace {

TEST(JsonText, TreesAndWhatIsNone) {
  EXPECT_EQ(json_tree(R"({"b": [1, 2.5], "a": null})")["b"][1], 2.5);
  EXPECT_EQ(json_text(ordered_json_tree(R"({"b": [1], "a": "é"})")), R"({"b":[1],"a":"é"})");
  for (const char* text : {"", "{", "[1,]", "NaN", "{} {}", "\"\xff\""}) {
    EXPECT_TRUE(json_tree(text).is_discarded()) << text;
    EXPECT_TRUE(ordered_json_tree(text).is_discarded()) << text;
  }
}

TEST(JsonText, PythonsNumbersAreFloats) {
  const auto tree = python_json_tree("[NaN, -Infinity, 1e999, 100000000000000000000, 7]");
  ASSERT_TRUE(tree.ok()) << tree.error().message;
  EXPECT_TRUE(std::isnan((*tree)[0].get<double>()));
  EXPECT_EQ((*tree)[1], -std::numeric_limits<double>::infinity());
  EXPECT_EQ((*tree)[2], std::numeric_limits<double>::infinity());
  EXPECT_EQ((*tree)[3], 1e20);
  EXPECT_TRUE((*tree)[4].is_number_integer());
}

TEST(JsonText, ErrorsAreTheParsersWordsWithoutItsName) {
  const auto tree = python_json_tree("{\"a\":\n 1e999, nan}");
  ASSERT_FALSE(tree.ok());
  EXPECT_TRUE(tree.error().message.starts_with("parse error at line 2, column "))
      << tree.error().message;
}

TEST(JsonText, WhatIsNotUtf8IsReplaced) {
  EXPECT_EQ(json_text(nlohmann::ordered_json::array({"a\xff", 1})), "[\"a\xEF\xBF\xBD\",1]");
}

}  // namespace
}  // namespace causeway::json_text_test
