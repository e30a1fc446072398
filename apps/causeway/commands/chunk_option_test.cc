#include "commands/chunk_option.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

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

}  // namespace
}  // namespace causeway::app::chunk_option_test
