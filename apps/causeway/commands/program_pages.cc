// `causeway completion` and `causeway man`: what --help says, for shells and for man.
#include <fmt/format.h>

#include "commands/command.h"
#include "completion.h"
#include "man_page.h"
#include "version.h"

namespace causeway::app {
namespace {

constexpr const char* kProgram = "causeway";

class Completion final : public Command {
 public:
  explicit Completion(Options& parent)
      : Command(parent, "completion",
                "Print a completion script for a shell; use it with: source <(causeway completion "
                "bash)"),
        program_(parent) {
    options()
        .add_option("shell", shell_, "shell: bash, zsh or fish")
        .one_of({"bash", "zsh", "fish"});
  }

  Status run() override {
    const auto shell = shell_named(shell_);
    if (!shell) return invalid_argument("name a shell: bash, zsh or fish");
    fmt::print("{}", completion_script(describe(program_.app(), kProgram), *shell));
    return {};
  }

 private:
  Options program_;
  std::string shell_;
};

class Man final : public Command {
 public:
  explicit Man(Options& parent)
      : Command(parent, "man",
                "Print the manual page of this program; read it with: causeway man | man -l -"),
        program_(parent) {}

  Status run() override {
    fmt::print("{}", man_page(describe(program_.app(), kProgram), version()));
    return {};
  }

 private:
  Options program_;
};

}  // namespace

std::unique_ptr<Command> make_completion(Options& program) {
  return std::make_unique<Completion>(program);
}

std::unique_ptr<Command> make_man(Options& program) { return std::make_unique<Man>(program); }

}  // namespace causeway::app
