// Fish: one line an option, on the condition that the words so far name its command.
#include <fmt/format.h>

#include "completion.h"

namespace causeway::app {
namespace {

constexpr const char* kFishHead = R"(# Completes {name} in fish; made by `{name} completion fish`.

function __{name}_at --description 'Whether the words so far name this command'
  set -l at {name}
  for word in (commandline -opc)[2..-1]
    switch "$at $word"
      case {paths}
        set at "$at $word"
    end
  end
  test "$at" = "$argv[1]"
end

complete -c {name} -e
)";

// Within ' … ' fish reads \\ and \' alone.
std::string fish_word(const std::string& text) {
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') word += '\\';
    word += c;
  }
  return word + "'";
}

std::string words_of(const std::vector<std::string>& choices) {
  std::string words;
  for (const std::string& choice : choices) words += (words.empty() ? "" : " ") + choice;
  return words;
}

std::string value_of(const OptionText& option) {
  if (!option.choices.empty()) return " -x -a " + fish_word(words_of(option.choices));
  if (option.path == OptionText::Path::kFolder) return " -x -a '(__fish_complete_directories)'";
  return " -r -F";
}

std::string line_of(const std::string& condition, const OptionText& option) {
  std::string line = condition;
  if (option.positional) {
    if (option.choices.empty()) return line + " -F\n";
    return line + " -f -a " + fish_word(words_of(option.choices)) + "\n";
  }
  for (const std::string& name : option.names) {
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (option.takes_value) line += value_of(option);
  return line + " -d " + fish_word(one_line(option.description)) + "\n";
}

}  // namespace

std::string fish_completion(const CommandText& program) {
  std::string paths, lines;
  for (const CommandText* command : all_commands(program)) {
    const std::string condition =
        fmt::format("complete -c {} -n {}", program.name(),
                    fish_word("__" + program.name() + "_at " + fish_word(command->path())));
    for (const CommandText& below : command->commands) {
      paths += (paths.empty() ? "" : " ") + fish_word(below.path());
      lines += condition + " -f -a " + fish_word(below.name()) + " -d " +
               fish_word(one_line(below.description)) + "\n";
    }
    for (const OptionText& option : completed_options(*command)) {
      lines += line_of(condition, option);
    }
  }
  return fmt::format(kFishHead, fmt::arg("name", program.name()), fmt::arg("paths", paths)) + lines;
}

}  // namespace causeway::app
