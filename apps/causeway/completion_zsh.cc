// Zsh: the function finds the command by walking the words, then leaves the command line from there
// on to _arguments.
#include <fmt/format.h>

#include "completion.h"

namespace causeway::app {
namespace {

constexpr const char* kZshHead = R"(#compdef {name}
# Completes {name} in zsh; made by `{name} completion zsh`.

_{name}() {{
  local at={name} i first=1
  for ((i = 2; i < CURRENT; ++i)); do
    case "$at $words[i]" in
{paths}    esac
  done
  words=("$at" "${{(@)words[first + 1,-1]}}")
  ((CURRENT -= first - 1))
  local -a commands
  case $at in
{lists}  esac
}}

if [[ $funcstack[1] == _{name} ]]; then
  _{name} "$@"
else
  compdef _{name} {name}
fi
)";

// Text within _arguments' and _describe's own punctuation.
std::string escaped(const std::string& text, const std::string& special) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string action_of(const OptionText& option) {
  if (!option.choices.empty()) {
    std::string words;
    for (const std::string& choice : option.choices) {
      words += (words.empty() ? "" : " ") + escaped(choice, "\\:() ");
    }
    return "(" + words + ")";
  }
  return option.path == OptionText::Path::kFolder ? "_files -/" : "_files";
}

std::string argument(const OptionText& option, const std::string& name) {
  std::string text = (option.repeats ? "*" : "") + name;
  // A value is the next word, or behind '='.
  if (option.takes_value && name.starts_with("--")) text += "=";
  text += "[" + escaped(one_line(option.description), "\\[]:") + "]";
  if (option.takes_value) text += ":value:" + action_of(option);
  return shell_word(text);
}

std::string arguments_of(const CommandText& command) {
  std::string text = "      _arguments -S";
  for (const OptionText& option : completed_options(command)) {
    if (option.positional) {
      text += " \\\n        " +
              shell_word("::" + escaped(option.names.front(), "\\:") + ":" + action_of(option));
      continue;
    }
    for (const std::string& name : option.names) text += " \\\n        " + argument(option, name);
  }
  if (!command.commands.empty()) {
    text += " \\\n        " + shell_word("1:command:{_describe command commands}");
  }
  return text + "\n";
}

}  // namespace

std::string zsh_completion(const CommandText& program) {
  std::string paths, lists;
  for (const CommandText* command : all_commands(program)) {
    lists += fmt::format("    {})\n", shell_word(command->path()));
    if (!command->commands.empty()) {
      lists += "      commands=(\n";
      for (const CommandText& below : command->commands) {
        lists += "        " +
                 shell_word(escaped(below.name(), "\\:") + ":" + one_line(below.description)) +
                 "\n";
        paths += fmt::format("      {}) at={} first=$i ;;\n", shell_word(below.path()),
                             shell_word(below.path()));
      }
      lists += "      )\n";
    }
    lists += arguments_of(*command) + "      ;;\n";
  }
  return fmt::format(kZshHead, fmt::arg("name", program.name()), fmt::arg("paths", paths),
                     fmt::arg("lists", lists));
}

}  // namespace causeway::app
