#include "help_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <sstream>

#include "options.h"

namespace causeway::app::help_format_test {
namespace {

using ::testing::HasSubstr;

TEST(HelpFormat, WrapsDescriptionsAndKeepsTheirTables) {
  CLI::App app("A program.", "program");
  set_help_format(app);
  std::string text;
  std::string words;
  for (int i = 0; i < 40; ++i) words += "word" + std::to_string(i) + (i < 39 ? " " : "");
  Options program(app);
  program.add_option("--long-option-with-a-name-of-its-own-line", text, words);
  program.add_option("--short", text, "one line");
  program.add_option("--table", text, "parts:\n  a      the first\n  b      the second");
  program.add_command("serve", words);
  const std::string help = app.help();
  EXPECT_THAT(help, HasSubstr("\n  --short TEXT                one line\n"));
  EXPECT_THAT(help, HasSubstr("\n  --table TEXT                parts:\n"
                              "                                a      the first\n"
                              "                                b      the second\n"));
  EXPECT_THAT(help, HasSubstr("own-line TEXT\n                              word0 word1 "));
  EXPECT_THAT(help, HasSubstr("\n  serve                       word0 word1 "));
  std::istringstream lines(help);
  int wrapped = 0;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100u) << line;
    wrapped += line.size() > 90;
  }
  EXPECT_GT(wrapped, 4);
}

TEST(HelpFormat, IsThatOfCommandsToo) {
  CLI::App app("A program.", "program");
  set_help_format(app);
  std::string text;
  Options command = Options(app).add_command("serve", "Serve");
  command.add_option("--port", text, std::string(60, 'a') + " " + std::string(60, 'b'));
  EXPECT_THAT(command.app().help(), HasSubstr(std::string(60, 'a') + "\n" + std::string(30, ' ') +
                                              std::string(60, 'b') + "\n"));
}

}  // namespace
}  // namespace causeway::app::help_format_test
