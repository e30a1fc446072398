// The pages of a small program whose texts hold what shells and roff would act on. That the real
// program's say what --help says, in the shells themselves, is shown by tests/e2e/pages_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "completion.h"
#include "man_page.h"
#include "options.h"

namespace causeway::app::program_pages_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ProgramPages : public ::testing::Test {
 protected:
  ProgramPages() {
    app_.fallthrough();
    Options program(app_);
    program.add_option("--level", text_, "how much").one_of({"low", "high"});
    Options serve = program.add_command("serve", "Serve: it's `id` $(id)");
    serve.add_option("model", text_, "a folder");
    serve.add_option("--device", text_, "it's [a] \\ b:c\n  two")
        .one_of({"cpu", "cuda"})
        .group("M");
    serve.add_option("--file", text_, ".dot").existing_file();
    serve.add_option("--from", text_, "é ÷ – \xFF").existing_folder();
    serve.add_option("--many", texts_, "more");
    serve.add_option("--hidden", text_, "never told").group("");
    serve.add_choice<int>("--kind", number_, {{"one", 1}, {"two", 2}}, "an enumeration");
    serve.add_flag("--on", flag_, "a flag");
    program.add_command("bench", "Measure").add_command("serve", "Drive");
    program_ = describe(app_, "prog");
  }

  const OptionText& option(const std::string& name) const {
    for (const OptionText& one : program_.commands[0].options) {
      if (one.names.back() == name) return one;
    }
    throw std::runtime_error(name);
  }

  CLI::App app_{"Does it."};
  std::string text_;
  std::vector<std::string> texts_;
  int number_ = 0;
  bool flag_ = false;
  CommandText program_;
};

TEST_F(ProgramPages, KnowWhatValuesAre) {
  EXPECT_THAT(option("--device").choices, ElementsAre("cpu", "cuda"));
  EXPECT_THAT(option("--kind").choices, ElementsAre("one", "two"));
  EXPECT_THAT(option("--many").choices, IsEmpty());
  EXPECT_TRUE(option("--many").repeats);
  EXPECT_TRUE(option("--file").path == OptionText::Path::kFile);
  EXPECT_TRUE(option("--from").path == OptionText::Path::kFolder);
  EXPECT_FALSE(option("--on").takes_value);
  EXPECT_FALSE(option("--help").takes_value);
  EXPECT_TRUE(option("model").positional);
}

TEST_F(ProgramPages, KnowCommandsAndWhatTheyInherit) {
  const CommandText& bench = program_.commands[1];
  EXPECT_EQ(bench.commands[0].path(), "prog bench serve");
  ASSERT_EQ(bench.commands[0].inherited.size(), 1U);
  EXPECT_EQ(bench.commands[0].inherited[0].names, std::vector<std::string>{"--level"});
  EXPECT_THAT(program_.inherited, IsEmpty());
}

TEST_F(ProgramPages, NeverTellWhatIsHidden) {
  for (const std::string& page : {bash_completion(program_), zsh_completion(program_),
                                  fish_completion(program_), man_page(program_, "1")}) {
    EXPECT_THAT(page, Not(HasSubstr("hidden")));
    EXPECT_THAT(page, HasSubstr("device"));
  }
}

TEST_F(ProgramPages, QuoteForZsh) {
  const std::string script = zsh_completion(program_);
  EXPECT_THAT(script, HasSubstr(R"('serve:Serve: it'\''s `id` $(id)')"));
  EXPECT_THAT(script, HasSubstr(R"('--device=[it'\''s \[a\] \\ b\:c two]:value:(cpu cuda)')"));
  EXPECT_THAT(script, HasSubstr(R"('*--many=[more]:value:_files')"));
  EXPECT_THAT(script, HasSubstr(R"('--on[a flag]')"));
}

TEST_F(ProgramPages, QuoteForFish) {
  const std::string script = fish_completion(program_);
  EXPECT_THAT(script, HasSubstr(R"(-a 'serve' -d 'Serve: it\'s `id` $(id)')"));
  EXPECT_THAT(script, HasSubstr(R"(-l device -x -a 'cpu cuda' -d 'it\'s [a] \\ b:c two')"));
}

TEST_F(ProgramPages, TellBashNamesAndValuesAlone) {
  const std::string script = bash_completion(program_);
  EXPECT_THAT(script, HasSubstr("'prog serve --kind') mapfile -t COMPREPLY < <(compgen -W "
                                "'one two' -- \"$current\")"));
  EXPECT_THAT(script, Not(HasSubstr("$(id)")));
}

TEST_F(ProgramPages, WriteForRoff) {
  const std::string page = man_page(program_, "1.2");
  EXPECT_THAT(page, HasSubstr(".TH prog 1 \"\" \"prog 1.2\""));
  EXPECT_THAT(page, HasSubstr("it\\(aqs [a] \\e b:c\n.br\n\\&  two\n"));
  EXPECT_THAT(page, HasSubstr("\n\\&.dot\n"));
  EXPECT_THAT(page, HasSubstr("\\[u00E9] \\[u00F7] \\[u2013] ?\n"));
}

TEST(ShellNamed, KnowsThree) {
  EXPECT_TRUE(shell_named("fish") == Shell::kFish);
  EXPECT_FALSE(shell_named("tcsh").has_value());
}

}  // namespace
}  // namespace causeway::app::program_pages_test
