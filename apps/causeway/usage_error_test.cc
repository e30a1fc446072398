// What a mistyped command line is told.
#include "usage_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "options.h"

namespace causeway::app::usage_error_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class UsageError : public ::testing::Test {
 protected:
  UsageError() {
    app_.fallthrough();
    app_.require_subcommand(1);
    Options program(app_);
    program.add_option("--log-level", word_).one_of({"info", "debug"});
    Options serve = program.add_command("serve", "Serve");
    serve.add_option("model", word_);
    serve.add_option("--device", word_).one_of({"cpu", "cuda"});
    serve.add_option("--port", port_);
    serve.add_option("--layers", layers_).positive();
    serve.add_option("--grace", seconds_).non_negative();
    serve.add_option("--share", seconds_).range(0.1, 1.0);
    serve.add_option("--models", models_).range(1, 10);
    serve.add_option("--seed", seed_);
    serve.add_option("--sizes", sizes_).delimiter(',');
    serve.add_option("--bytes", bytes_).in_bytes();
    serve.add_choice<int>("--family", family_, {{"llama", 7}, {"qwen3", 9}}, "");
    Options models = program.add_command("models", "Models");
    models.app().require_subcommand(1);
    models.add_command("list", "List").add_option("--models-dir", word_).required();
    models.add_command("load", "Load");
  }

  // What is said of a line; "": it is taken.
  std::string said(std::vector<std::string> line) {
    std::reverse(line.begin(), line.end());
    try {
      app_.parse(line);
    } catch (const CLI::ParseError& error) {
      return usage_error(app_, "prog", error);
    }
    return {};
  }

  CLI::App app_{"Does it."};
  std::string word_;
  std::uint16_t port_ = 0;
  std::int64_t layers_ = 0;
  int models_ = 0, family_ = 0;
  double seconds_ = 0;
  std::uint64_t seed_ = 0, bytes_ = 0;
  std::vector<int> sizes_;
};

TEST_F(UsageError, OptionsThatAreNoneNameTheOneThatWasMeant) {
  EXPECT_EQ(said({"serve", "--devise", "cuda"}),
            "`--devise` is no option of `prog serve`; did you mean `--device`? See "
            "`prog serve --help`");
  EXPECT_THAT(said({"serve", "--prot=80"}), HasSubstr("`--prot` is no option of `prog serve`; did "
                                                      "you mean `--port`?"));
  EXPECT_THAT(said({"serve", "--log-levle", "info"}), HasSubstr("did you mean `--log-level`?"));
  EXPECT_EQ(
      said({"models", "list", "--models-dir", "x", "--nothing-like-it"}),
      "`--nothing-like-it` is no option of `prog models list`; see `prog models list --help`");
}

TEST_F(UsageError, CommandsThatAreNone) {
  EXPECT_EQ(said({}), "`prog` needs a command; see `prog --help`");
  EXPECT_EQ(said({"models"}), "`prog models` needs a command; see `prog models --help`");
  EXPECT_EQ(said({"sevre", "x"}),
            "`sevre` is no command of `prog`; did you mean `serve`? See `prog --help`");
  EXPECT_EQ(said({"models", "unlode"}),
            "`unlode` is no command of `prog models`; see "
            "`prog models --help`");
  EXPECT_THAT(said({"--prot", "80"}), HasSubstr("`--prot` is no option of `prog`"));
  EXPECT_EQ(said({"serve", "a", "b"}),
            "`b` is an argument too many for `prog serve`; see `prog serve --help`");
  EXPECT_EQ(said({"models", "list"}), "--models-dir is required; see `prog models list --help`");
}

TEST_F(UsageError, ValuesSayWhichAreTaken) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"--port", "abc"}, "--port: 'abc' is no whole number from 0 to 65535"},
      {{"--port", "65536"}, "--port: '65536' is no whole number from 0 to 65535"},
      {{"--port=-1"}, "--port: '-1' is no whole number from 0 to 65535"},
      {{"--port"}, "--port: needs a value"},
      {{"--port", "1", "--port", "2"}, "--port: may be given once only"},
      {{"--layers", "0"}, "--layers: must be above 0, not '0'"},
      {{"--layers", "two"}, "--layers: 'two' is no whole number"},
      {{"--layers", "1.5"}, "--layers: '1.5' is no whole number"},
      {{"--layers", ""}, "--layers: '' is no whole number"},
      {{"--grace=-1"}, "--grace: must be 0 or more, not '-1'"},
      {{"--grace", "nan"}, "--grace: must be 0 or more, not 'nan'"},
      {{"--grace", "x"}, "--grace: 'x' is no number"},
      {{"--share", "2"}, "--share: must be from 0.1 to 1, not '2'"},
      {{"--models", "11"}, "--models: must be from 1 to 10, not '11'"},
      {{"--seed=-1"}, "--seed: '-1' is no whole number of 0 or more"},
      {{"--sizes", "1,b"}, "--sizes: 'b' is no whole number"},
      {{"--bytes", "12XB"}, "--bytes: '12XB' is no number of bytes, such as 4096, 512MB or 4GB"},
      {{"--bytes=-1"}, "--bytes: '-1' is no number of bytes, such as 4096, 512MB or 4GB"},
      {{"--bytes", "99999999999GB"},
       "--bytes: '99999999999GB' is no number of bytes, such as 4096, 512MB or 4GB"},
      {{"--device", "cdua"}, "--device: 'cdua' is none of cpu, cuda; did you mean cuda?"},
      {{"--family", "7"}, "--family: '7' is none of llama, qwen3"},
  };
  for (const auto& [arguments, wanted] : cases) {
    std::vector<std::string> line = {"serve"};
    line.insert(line.end(), arguments.begin(), arguments.end());
    const std::string end =
        wanted.ends_with('?') ? " See `prog serve --help`" : "; see `prog serve --help`";
    EXPECT_EQ(said(line), wanted + end);
  }
}

TEST_F(UsageError, WhatIsTakenIsWhatWasGiven) {
  ASSERT_EQ(said({"serve",    "m",    "--port",   "65535", "--layers", "3",
                  "--grace",  "0.5",  "--models", "10",    "--seed",   "18446744073709551615",
                  "--sizes",  "1,-2", "--bytes",  "4kb",   "--family", "qwen3",
                  "--device", "cuda"}),
            "");
  EXPECT_EQ(port_, 65535);
  EXPECT_EQ(layers_, 3);
  EXPECT_EQ(seconds_, 0.5);
  EXPECT_EQ(models_, 10);
  EXPECT_EQ(seed_, 18446744073709551615U);
  EXPECT_THAT(sizes_, ElementsAre(1, -2));
  EXPECT_EQ(bytes_, 4096U);
  EXPECT_EQ(family_, 9);
  EXPECT_EQ(word_, "cuda");
}

}  // namespace
}  // namespace causeway::app::usage_error_test
