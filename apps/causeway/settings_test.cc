#include "settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <map>

#include "base/testing/temporary_directory.h"

namespace causeway::app::settings_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A command with a number, a flag and a list; its settings from the given places.
class Settings : public ::testing::Test {
 protected:
  Settings() {
    command_.add_option("--max-model-len", length_).non_negative();
    command_.add_flag("--load-on-demand", flag_);
    command_.add_option("--api-key", keys_);
    command_.add_option("--config", config_);
    command_.add_option("--port", port_);
    command_.add_option("--depth", depth_).range(1, 8);
  }

  Status apply(const std::vector<std::string>& arguments, std::map<std::string, std::string> env,
               const std::string& yaml) {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    line_.parse(reversed);
    if (!yaml.empty()) std::ofstream(file_) << yaml;
    return apply_settings(command_, yaml.empty() ? "" : file_, [env](const char* name) {
      const auto found = env.find(name);
      return found == env.end() ? nullptr : found->second.c_str();
    });
  }

  CLI::App line_{"", "serve"};
  Options command_{line_};
  TemporaryDirectory directory_;
  std::string file_ = directory_.path() / "settings.yaml";
  std::int64_t length_ = 1;
  bool flag_ = false;
  std::vector<std::string> keys_;
  std::string config_;
  int port_ = 8000, depth_ = 2;
};

TEST_F(Settings, CommandLineThenEnvironmentThenFileThenDefault) {
  ASSERT_TRUE(apply({}, {}, "").ok());
  EXPECT_EQ(length_, 1);
  ASSERT_TRUE(apply({}, {}, "max-model-len: 2").ok());
  EXPECT_EQ(length_, 2);
}

TEST_F(Settings, EnvironmentBeatsFile) {
  ASSERT_TRUE(apply({}, {{"CAUSEWAY_MAX_MODEL_LEN", "3"}}, "max-model-len: 2").ok());
  EXPECT_EQ(length_, 3);
}

TEST_F(Settings, CommandLineBeatsEnvironment) {
  ASSERT_TRUE(apply({"--max-model-len", "4"}, {{"CAUSEWAY_MAX_MODEL_LEN", "3"}}, "").ok());
  EXPECT_EQ(length_, 4);
}

TEST_F(Settings, FlagsListsAndUnderscoresInTheFile) {
  ASSERT_TRUE(apply({}, {}, "load_on_demand: true\napi-key: [a, b]\n").ok());
  EXPECT_TRUE(flag_);
  EXPECT_THAT(keys_, ElementsAre("a", "b"));
}

TEST_F(Settings, FlagFromTheEnvironment) {
  ASSERT_TRUE(apply({}, {{"CAUSEWAY_LOAD_ON_DEMAND", "1"}}, "").ok());
  EXPECT_TRUE(flag_);
}

TEST_F(Settings, VariablesThatOthersSetAreNotOptions) {
  ASSERT_TRUE(apply({},
                    {{"CAUSEWAY_PORT", "tcp://10.96.0.7:80"},
                     {"CAUSEWAY_DEPTH", "16"},
                     {"CAUSEWAY_API_KEY", ""}},
                    "depth: 3")
                  .ok());
  EXPECT_EQ(port_, 8000);
  EXPECT_EQ(depth_, 3);
  EXPECT_TRUE(keys_.empty());
  ASSERT_TRUE(apply({}, {{"CAUSEWAY_PORT", "81"}}, "").ok());
  EXPECT_EQ(port_, 81);
}

TEST_F(Settings, ErrorsNameWhereTheValueCameFrom) {
  EXPECT_THAT(apply({}, {{"CAUSEWAY_MAX_MODEL_LEN", "-3"}}, "").error().message,
              HasSubstr("CAUSEWAY_MAX_MODEL_LEN"));
}

TEST_F(Settings, UnknownKeysAndBrokenFilesAreRefused) {
  EXPECT_THAT(apply({}, {}, "max-modle-len: 2").error().message,
              HasSubstr("'max-modle-len'; did you mean 'max-model-len'?"));
  EXPECT_THAT(apply({}, {}, "nothing-like-it: 2").error().message, HasSubstr("'serve --help'"));
  EXPECT_THAT(apply({}, {}, "port: abc").error().message,
              HasSubstr("'port': --port: 'abc' is no whole number"));
  EXPECT_THAT(apply({}, {}, "port: [1, 2]").error().message,
              HasSubstr("'port': --port: may be given once only"));
  EXPECT_FALSE(apply({}, {}, "- 1\n- 2\n").ok());
  EXPECT_FALSE(apply({}, {}, "max-model-len: {a: 1}").ok());
  EXPECT_FALSE(apply({}, {}, "a: [").ok());
}

}  // namespace
}  // namespace causeway::app::settings_test
