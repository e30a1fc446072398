#include "engine/chunk_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/random.h"
#include "base/testing/must.h"

namespace causeway::engine::chunk_profile_test {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;

MeasuredTable table(const std::string& shape, int processors, Tokens most) {
  MeasuredTable table{.model = "a model",
                      .shape = shape,
                      .processors = processors,
                      .decodes = 8,
                      .context = 512,
                      .runs = 5,
                      .steps = {}};
  for (const Tokens tokens : schedule::table_sizes(most)) {
    const double ms = 1 + static_cast<double>(tokens.count) / 7;
    table.steps.push_back(
        {.tokens = tokens, .ttft_ms = ms, .tpot_ms = 2 * ms, .gamma_x = 1, .gamma_o = 2.5});
  }
  return table;
}

MeasuredChunks some() {
  return {.device = "cuda",
          .machine = "NVIDIA H200",
          .driver = "580.159.03",
          .commit = "35361b83",
          .tables = {table("s", 132, Tokens(96)), table("t", 56, Tokens(1))}};
}

ordered_json document() { return ordered_json::parse(chunk_profile_json(some())); }

Error error_of(const ordered_json& json) {
  const auto read = parse_chunk_profile(json.dump());
  EXPECT_FALSE(read.ok()) << json.dump();
  return read.ok() ? Error() : read.error();
}

// The error of the document in which `value` stands in place of what `pointer` names.
Error error_with(const std::string& pointer, const ordered_json& value) {
  ordered_json json = document();
  json[ordered_json::json_pointer(pointer)] = value;
  return error_of(json);
}

TEST(ChunkProfileFile, ComesBackAsItWas) {
  const std::string written = chunk_profile_json(some());
  const MeasuredChunks read = must(parse_chunk_profile(written));
  EXPECT_EQ(chunk_profile_json(read), written);
  EXPECT_EQ(read.device, "cuda");
  EXPECT_EQ(read.machine, "NVIDIA H200");
  EXPECT_EQ(read.driver, "580.159.03");
  EXPECT_EQ(read.commit, "35361b83");
  ASSERT_EQ(read.tables.size(), 2u);
  EXPECT_EQ(read.tables[0].model, "a model");
  EXPECT_EQ(read.tables[0].shape, "s");
  EXPECT_EQ(read.tables[0].processors, 132);
  EXPECT_EQ(read.tables[0].decodes, 8);
  EXPECT_EQ(read.tables[0].context, 512);
  EXPECT_EQ(read.tables[0].runs, 5);
  ASSERT_EQ(read.tables[0].steps.size(), 3u);
  EXPECT_EQ(read.tables[0].steps[1].tokens, Tokens(64));
  EXPECT_DOUBLE_EQ(read.tables[0].steps[1].ttft_ms, 1 + 64.0 / 7);
  EXPECT_DOUBLE_EQ(read.tables[0].steps[1].tpot_ms, 2 + 128.0 / 7);
  EXPECT_EQ(read.tables[0].steps[1].gamma_o, 2.5);
}

TEST(ChunkProfileFile, GivesTheControllerItsTables) {
  MeasuredChunks measured = some();
  measured.tables[0].steps[2].ttft_ms = 0.1;  // noise: less than of 64 tokens
  const schedule::ChunkProfile profile = profile_of(measured, "p.json");
  EXPECT_EQ(profile.file, "p.json");
  EXPECT_EQ(profile.machine, "NVIDIA H200");
  const schedule::StepTable* const found = profile.find("s", 132);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->decodes, 8);
  EXPECT_DOUBLE_EQ(found->times[1].alone, (1 + 64.0 / 7) * 1e-3);
  EXPECT_DOUBLE_EQ(found->times[2].alone, (1 + 64.0 / 7) * 1e-3);
  EXPECT_EQ(profile.find("t", 132), nullptr);
}

TEST(ChunkProfileFile, UnknownFieldsAreIgnored) {
  ordered_json json = document();
  json["more"] = "x";
  json["tables"][0]["more"] = nullptr;
  json["tables"][0]["steps"][0]["more"] = ordered_json::array();
  EXPECT_TRUE(parse_chunk_profile(json.dump()).ok());
}

TEST(ChunkProfileFile, CutAnywhereItIsRefused) {
  const std::string whole = chunk_profile_json(some());
  for (std::size_t size = 0; size + 2 < whole.size(); ++size) {
    const auto read = parse_chunk_profile(whole.substr(0, size));
    ASSERT_FALSE(read.ok()) << size;
    EXPECT_THAT(read.error().message, HasSubstr("byte")) << size;
  }
}

TEST(ChunkProfileFile, BrokenAnywhereItIsRefusedOrWhatItSays) {
  Random random(9);
  const std::string whole = chunk_profile_json(some());
  int taken = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string text = whole;
    for (std::int64_t n = random.between(1, 3); n > 0; --n) {
      text[static_cast<std::size_t>(random.below(std::ssize(text)))] =
          static_cast<char>(random.between(0, 255));
    }
    const auto read = parse_chunk_profile(text);
    if (!read.ok()) continue;
    EXPECT_TRUE(parse_chunk_profile(chunk_profile_json(*read)).ok());
    ++taken;
  }
  EXPECT_GT(taken, 10);
}

TEST(ChunkProfileFile, AnotherVersionHasToBeMeasuredAnew) {
  const Error error = error_with("/version", 2);
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, AllOf(HasSubstr("version is 2"), HasSubstr("measured anew")));
  EXPECT_THAT(error_with("/format", "causeway-home-profile").message,
              HasSubstr("format is 'causeway-home-profile'"));
}

TEST(ChunkProfileFile, FieldsThatAreMissingAreNamed) {
  for (const std::string field :
       {"format", "version", "device", "machine", "driver", "commit", "tables"}) {
    ordered_json json = document();
    json.erase(field);
    EXPECT_EQ(error_of(json).message, field + " is missing");
  }
  for (const std::string field :
       {"model", "shape", "processors", "decodes", "context", "runs", "steps"}) {
    ordered_json json = document();
    json["tables"][1].erase(field);
    EXPECT_EQ(error_of(json).message, "tables[1]: " + field + " is missing");
  }
  for (const std::string field : {"tokens", "ttft_ms", "tpot_ms", "gamma_x", "gamma_o"}) {
    ordered_json json = document();
    json["tables"][0]["steps"][2].erase(field);
    EXPECT_EQ(error_of(json).message, "tables[0]: steps[2]: " + field + " is missing");
  }
}

TEST(ChunkProfileFile, AbsurdTimesAreNamed) {
  for (const std::string field : {"ttft_ms", "tpot_ms"}) {
    for (const ordered_json& value :
         {ordered_json(-1), ordered_json(0), ordered_json(1e-9), ordered_json(1e9),
          ordered_json("5"), ordered_json(nullptr), ordered_json(true)}) {
      EXPECT_THAT(error_with("/tables/0/steps/1/" + field, value).message,
                  HasSubstr("tables[0]: steps[1]: " + field + " is "))
          << value;
    }
  }
  EXPECT_THAT(error_with("/tables/0/steps/1/gamma_o", -1).message, HasSubstr("gamma_o is -1"));
}

TEST(ChunkProfileFile, SizesThatAreLackingAreNamed) {
  ordered_json json = document();
  json["tables"][0]["steps"].erase(1);
  EXPECT_THAT(error_of(json).message, HasSubstr("tables[0]: steps[1] has not tokens 64"));
  json["tables"][0]["steps"] = ordered_json::array();
  EXPECT_THAT(error_of(json).message, HasSubstr("tables[0]: steps has 0 entries"));
  EXPECT_THAT(error_with("/tables/0/steps/1/tokens", 65).message, HasSubstr("steps[1]"));
  EXPECT_THAT(error_with("/tables", ordered_json::array()).message, HasSubstr("tables has 0"));
}

TEST(ChunkProfileFile, WhatIsNotAsItShouldBeIsNamed) {
  for (const ordered_json& value :
       {ordered_json(0), ordered_json(-3), ordered_json(1.5), ordered_json(std::int64_t{1} << 40),
        ordered_json("x"), ordered_json::array()}) {
    for (const std::string field : {"processors", "decodes", "context", "runs"}) {
      EXPECT_THAT(error_with("/tables/0/" + field, value).message, HasSubstr("tables[0]: " + field))
          << value;
    }
  }
  for (const ordered_json& value :
       {ordered_json(5), ordered_json(""), ordered_json(std::string(300, 'x'))}) {
    EXPECT_THAT(error_with("/machine", value).message, HasSubstr("machine"));
    EXPECT_THAT(error_with("/tables/1/shape", value).message, HasSubstr("tables[1]: shape"));
  }
  EXPECT_THAT(error_with("/device", "tpu").message, HasSubstr("device"));
  EXPECT_THAT(error_with("/tables/1", 7).message, HasSubstr("tables[1]: is 7"));
  EXPECT_THAT(error_with("/tables/0/steps/0", "x").message, HasSubstr("steps[0]: is \"x\""));
  ordered_json json = document();
  json["tables"][1]["shape"] = "s";
  json["tables"][1]["processors"] = 132;
  EXPECT_THAT(error_of(json).message, HasSubstr("tables[1] is of a shape and processors that"));
  for (const std::string text : {"", "[]", "5", "{\"a\":", "\"x\""}) {
    EXPECT_FALSE(parse_chunk_profile(text).ok()) << text;
  }
  EXPECT_FALSE(parse_chunk_profile(std::string(100'000, '[')).ok());
}

}  // namespace
}  // namespace causeway::engine::chunk_profile_test
