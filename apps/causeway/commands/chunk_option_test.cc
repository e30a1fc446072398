#include "commands/chunk_option.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <fstream>

#include "base/testing/temporary_directory.h"
#include "engine/chunk_profile.h"

namespace causeway::app::chunk_option_test {
namespace {

Status apply(const std::vector<std::string>& line, schedule::Options& schedule) {
  CLI::App app;
  Options options(app);
  ChunkOption option;
  option.declare(options);
  app.parse(std::vector<std::string>(line));
  return option.apply(schedule);
}

TEST(ChunkOption, IsFixedByDefault) {
  schedule::Options schedule;
  schedule.tokens_per_step_max = 4096;
  ASSERT_TRUE(apply({}, schedule).ok());
  EXPECT_FALSE(schedule.chunk.automatic);
  EXPECT_EQ(schedule.tokens_per_step_max, 4096);
}

TEST(ChunkOption, AutoKeepsTheLargestStep) {
  schedule::Options schedule;
  schedule.tokens_per_step_max = 4096;
  ASSERT_TRUE(apply({"--chunk=auto"}, schedule).ok());
  EXPECT_TRUE(schedule.chunk.automatic);
  EXPECT_EQ(schedule.tokens_per_step_max, 4096);
}

TEST(ChunkOption, FixedMayNameTheTokens) {
  schedule::Options schedule;
  ASSERT_TRUE(apply({"--chunk=fixed:512"}, schedule).ok());
  EXPECT_FALSE(schedule.chunk.automatic);
  EXPECT_EQ(schedule.tokens_per_step_max, 512);
}

TEST(ChunkOption, SaysWhatIsWanted) {
  for (const char* text : {"512", "fixed:", "fixed:0", "fixed:-1", "fixed:1k", "fixed:1e3",
                           "fixed:99999999999999999999", "auto:3", "AUTO"}) {
    schedule::Options schedule;
    const Status applied = apply({std::string("--chunk=") + text}, schedule);
    ASSERT_FALSE(applied.ok()) << text;
    EXPECT_NE(applied.error().message.find("--chunk"), std::string::npos) << text;
    EXPECT_NE(applied.error().message.find("fixed:N"), std::string::npos) << text;
    EXPECT_EQ(schedule.tokens_per_step_max, schedule::Options().tokens_per_step_max);
  }
}

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string profile_json() {
  engine::MeasuredTable table{.model = "m",
                              .shape = "s",
                              .processors = 2,
                              .decodes = 1,
                              .context = 1,
                              .runs = 1,
                              .steps = {}};
  for (const Tokens tokens : schedule::table_sizes(Tokens(64))) {
    table.steps.push_back({.tokens = tokens, .ttft_ms = 3, .tpot_ms = 4});
  }
  return engine::chunk_profile_json(
      {.device = "cpu", .machine = "x", .driver = "none", .commit = "c", .tables = {table}});
}

class ChunkProfileOption : public ::testing::Test {
 protected:
  std::string write(const std::string& text) {
    const auto path = folder_.path() / "p.json";
    std::ofstream(path) << text;
    return path.string();
  }
  std::string refused(const std::vector<std::string>& line) {
    const Status applied = apply(line, schedule_);
    return applied.ok() ? "" : applied.error().message;
  }

  TemporaryDirectory folder_;
  schedule::Options schedule_;
};

TEST_F(ChunkProfileOption, IsReadIntoTheSchedule) {
  const std::string file = write(profile_json());
  ASSERT_TRUE(apply({"--chunk-profile=" + file, "--chunk=auto"}, schedule_).ok());
  EXPECT_EQ(schedule_.chunk.profile.file, file);
  EXPECT_EQ(schedule_.chunk.profile.machine, "x");
  ASSERT_NE(schedule_.chunk.profile.find("s", 2), nullptr);
  EXPECT_EQ(schedule_.chunk.profile.find("s", 2)->decodes, 1);
}

TEST_F(ChunkProfileOption, IsNoUseToFixedChunks) {
  const std::string file = write(profile_json());
  EXPECT_THAT(refused({"--chunk-profile=" + file}), HasSubstr("--chunk auto"));
  EXPECT_THAT(refused({"--chunk-profile=" + file, "--chunk=fixed:64"}), HasSubstr("--chunk auto"));
}

TEST_F(ChunkProfileOption, ABadFileIsNamedWithItsField) {
  EXPECT_THAT(refused({"--chunk-profile=/nowhere/p.json", "--chunk=auto"}),
              HasSubstr("/nowhere/p.json"));
  std::string text = profile_json();
  text.replace(text.find("\"ttft_ms\": 3"), 12, "\"ttft_ms\":-3");
  const std::string file = write(text);
  EXPECT_THAT(refused({"--chunk-profile=" + file, "--chunk=auto"}),
              AllOf(HasSubstr(file), HasSubstr("tables[0]"), HasSubstr("ttft_ms is -3")));
  write(text.substr(0, text.size() / 2));
  EXPECT_THAT(refused({"--chunk-profile=" + file, "--chunk=auto"}),
              AllOf(HasSubstr(file), HasSubstr("byte")));
}

}  // namespace
}  // namespace causeway::app::chunk_option_test
