#include "usage_error.h"

#include <CLI/CLI.hpp>
#include <string_view>
#include <vector>

#include "base/nearest_word.h"

namespace causeway::app {
namespace {

// The commands that a line names, from the program down, and what they are called together.
struct Chosen {
  std::vector<const CLI::App*> commands;
  std::string path;  // "causeway models list"
};

Chosen chosen_in(const CLI::App& program, const std::string& name) {
  Chosen chosen{{&program}, name};
  for (auto below = program.get_subcommands(); !below.empty();
       below = below.front()->get_subcommands()) {
    chosen.commands.push_back(below.front());
    chosen.path += " " + below.front()->get_name();
  }
  return chosen;
}

// The long names of the options that may stand behind the command.
std::vector<std::string> options_of(const Chosen& chosen) {
  std::vector<std::string> names;
  for (const CLI::App* command : chosen.commands) {
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

std::vector<std::string> commands_below(const Chosen& chosen) {
  std::vector<std::string> names;
  for (const CLI::App* below :
       chosen.commands.back()->get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(below->get_name());
  }
  return names;
}

std::string not_expected(const Chosen& chosen, const std::string& argument) {
  const bool option = argument.size() > 1 && argument.front() == '-';
  const std::string word = option ? argument.substr(0, argument.find('=')) : argument;
  const std::vector<std::string> names = option ? options_of(chosen) : commands_below(chosen);
  if (!option && names.empty()) {
    return "`" + word + "` is an argument too many for `" + chosen.path + "`";
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string_view meant = nearest_word(word, known);
  return "`" + word + "` is no " + (option ? "option" : "command") + " of `" + chosen.path + "`" +
         (meant.empty() ? "" : "; did you mean `" + std::string(meant) + "`?");
}

// By its number: its name may be that of the command.
bool is(const CLI::Error& error, CLI::ExitCodes kind) {
  return error.get_exit_code() == static_cast<int>(kind);
}

// The first argument that no command takes; empty: all are taken.
std::string first_left(const Chosen& chosen) {
  for (const CLI::App* command : chosen.commands) {
    const std::vector<std::string> left = command->remaining();
    if (!left.empty()) return left.front();
  }
  return {};
}

}  // namespace

std::string value_error(const CLI::Error& error) {
  std::string what = error.what();
  if (!is(error, CLI::ExitCodes::ArgumentMismatch)) return what;
  const auto replace_from = [&](std::string_view words, std::string_view by) {
    const std::size_t at = what.find(words);
    if (at != std::string::npos) what.replace(at, std::string::npos, by);
  };
  if (what.ends_with(" missing")) replace_from(": ", ": needs a value");
  replace_from(": At Most 1 required", ": may be given once only");
  return what;
}

std::string usage_error(const CLI::App& program, const std::string& name,
                        const CLI::ParseError& error) {
  const Chosen chosen = chosen_in(program, name);
  const std::string left = first_left(chosen);
  const bool extra = is(error, CLI::ExitCodes::ExtrasError);
  // A word in a command's place is told of as a command that is missing.
  const bool no_command =
      is(error, CLI::ExitCodes::RequiredError) && !commands_below(chosen).empty();
  std::string said;
  if (!left.empty() && (extra || no_command)) {
    said = not_expected(chosen, left);
  } else if (no_command) {
    said = "`" + chosen.path + "` needs a command";
  } else {
    said = value_error(error);
  }
  const std::string page = "`" + chosen.path + " --help`";
  return said + (said.ends_with('?') ? " See " + page : "; see " + page);
}

}  // namespace causeway::app
