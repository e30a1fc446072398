#include "grammar/check_constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace causeway::grammar::check_constraint_test {
namespace {

using request::ConstraintKind;
using ::testing::HasSubstr;

std::string nested(int depth) {
  std::string schema = R"({"type":"integer"})";
  for (int i = 1; i < depth; ++i) schema = R"({"items":)" + schema + "}";
  return schema;
}

std::string why_not(ConstraintKind kind, const std::string& text) {
  const Status status = check_constraint({kind, text});
  return status.ok() ? "" : status.error().message;
}

TEST(CheckConstraintTest, SchemasNest32LevelsDeep) {
  EXPECT_EQ(why_not(ConstraintKind::kJsonSchema, nested(32)), "");
  EXPECT_THAT(why_not(ConstraintKind::kJsonSchema, nested(33)), HasSubstr("32 levels"));
  EXPECT_THAT(why_not(ConstraintKind::kJsonSchema, nested(3000)), HasSubstr("32 levels"));
  EXPECT_EQ(why_not(ConstraintKind::kJsonSchema, R"({"const":"]]]}}}[[[[{{{\"[["})"), "");
}

TEST(CheckConstraintTest, SchemasAreJson) {
  EXPECT_THAT(why_not(ConstraintKind::kJsonSchema, "{"), HasSubstr("no JSON schema"));
  EXPECT_THAT(why_not(ConstraintKind::kJsonSchema, "[]"), HasSubstr("no JSON schema"));
  EXPECT_THAT(why_not(ConstraintKind::kJsonSchema, ""), HasSubstr("empty"));
}

TEST(CheckConstraintTest, TextsAreBounded) {
  const std::string large = R"({"title":")" + std::string(70'000, 'x') + R"("})";
  EXPECT_THAT(why_not(ConstraintKind::kJsonSchema, large), HasSubstr("at most 65536"));
  EXPECT_THAT(why_not(ConstraintKind::kRegex, std::string(3, '\0')), HasSubstr("zero byte"));
}

TEST(CheckConstraintTest, CountsAreBoundedWhereverTheyStand) {
  EXPECT_EQ(why_not(ConstraintKind::kJsonSchema, R"({"maxLength":10000})"), "");
  EXPECT_THAT(why_not(ConstraintKind::kJsonSchema, R"({"items":{"maxLength":10001}})"),
              HasSubstr("`maxLength`"));
  EXPECT_THAT(why_not(ConstraintKind::kJsonSchema, R"({"minItems":1e300})"),
              HasSubstr("`minItems`"));
  EXPECT_THAT(why_not(ConstraintKind::kJsonSchema, R"({"pattern":"((a{100}){100}){100}"})"),
              HasSubstr("a pattern"));
  EXPECT_THAT(why_not(ConstraintKind::kJsonSchema, R"({"patternProperties":{"a{99999}":true}})"),
              HasSubstr("a pattern"));
}

TEST(CheckConstraintTest, WhatWouldBePassedOverIsRefused) {
  EXPECT_THAT(why_not(ConstraintKind::kJsonSchema, R"({"items":{"uniqueItems":true}})"),
              HasSubstr("`uniqueItems`"));
  EXPECT_EQ(why_not(ConstraintKind::kJsonSchema, R"({"items":{"uniqueItems":false}})"), "");
  EXPECT_EQ(why_not(ConstraintKind::kJsonSchema,
                    R"({"properties":{"not":{"const":{"not":1}},"multipleOf":{}}})"),
            "")
      << "names of properties, and data";
}

TEST(CheckConstraintTest, RepetitionsAreCountedAsTheyNest) {
  EXPECT_EQ(why_not(ConstraintKind::kRegex, R"([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})"), "");
  EXPECT_EQ(why_not(ConstraintKind::kRegex, "x{100}y{100}z{100}"), "");
  EXPECT_THAT(why_not(ConstraintKind::kRegex, "((x{1,100}){1,100}){1,100}"),
              HasSubstr("written out"));
  EXPECT_THAT(why_not(ConstraintKind::kRegex, "[a-z]{1,20000}"), HasSubstr("more than 10000"));
  EXPECT_THAT(why_not(ConstraintKind::kRegex, "x{99999999999999999999}"),
              HasSubstr("more than 10000"));
  EXPECT_EQ(why_not(ConstraintKind::kRegex, "(ab){5000}"), "");
  EXPECT_EQ(why_not(ConstraintKind::kRegex, R"(\{100000\}[{100000}])"), "") << "literal braces";
  EXPECT_EQ(why_not(ConstraintKind::kRegex, "[^é]{200}"), "");
  EXPECT_THAT(why_not(ConstraintKind::kRegex, "[^é]{5000}"), HasSubstr("written out"))
      << "it is some thirty bytes each time";
}

TEST(CheckConstraintTest, GroupsNest32LevelsDeep) {
  const auto groups = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '(') + "a" +
           std::string(static_cast<std::size_t>(depth), ')');
  };
  EXPECT_EQ(why_not(ConstraintKind::kRegex, groups(32)), "");
  EXPECT_THAT(why_not(ConstraintKind::kRegex, groups(33)), HasSubstr("32 levels"));
  EXPECT_EQ(why_not(ConstraintKind::kRegex, std::string(32, '(') + "[^é]" + std::string(32, ')')),
            "");
  EXPECT_EQ(why_not(ConstraintKind::kRegex, std::string(100, ')')), "") << "the compiler says so";
  EXPECT_EQ(why_not(ConstraintKind::kGrammar, "root ::= \"" + std::string(99, '(') + "\""), "");
  EXPECT_THAT(why_not(ConstraintKind::kGrammar, "root ::= " + std::string(99, '(')),
              HasSubstr("32 levels"));
}

}  // namespace
}  // namespace causeway::grammar::check_constraint_test
