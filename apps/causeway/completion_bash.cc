// Bash: one function, which finds the command by walking the words, then offers that one's options,
// commands or values. It needs nothing of the package bash-completion.
#include <fmt/format.h>

#include "completion.h"

namespace causeway::app {
namespace {

// Bash splits words at '=' and ':' too, so that a value may be two words behind its option.
constexpr const char* kBashHead = R"(# Completes {name} in bash; made by `{name} completion bash`.

_{name}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}}
  local at={name} i options='' commands=''
  if [[ $current == '=' ]]; then
    current=''
  elif [[ $previous == '=' ]]; then
    previous=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$at ${{COMP_WORDS[i]}}" in
{paths}    esac
  done
  COMPREPLY=()
  case "$at $previous" in
{values}  esac
  case $at in
{lists}  esac
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  elif [[ -n $commands ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
  fi
}}
complete -o default -o bashdefault -F _{name} {name}
)";

// What follows an option: its values, folders, files, or anything, for which bash offers files.
std::string values_of(const CommandText& command, const OptionText& option) {
  std::string patterns, words;
  for (const std::string& name : option.names) {
    patterns += (patterns.empty() ? "" : " | ") + shell_word(command.path() + " " + name);
  }
  for (const std::string& choice : option.choices) words += (words.empty() ? "" : " ") + choice;
  std::string action;
  if (!words.empty()) {
    action = "mapfile -t COMPREPLY < <(compgen -W " + shell_word(words) + " -- \"$current\") ";
  } else if (option.path == OptionText::Path::kFolder) {
    action = "mapfile -t COMPREPLY < <(compgen -d -- \"$current\") ";
  }
  return fmt::format("    {}) {}; return ;;\n", patterns, action.empty() ? ":" : action);
}

}  // namespace

std::string bash_completion(const CommandText& program) {
  std::string paths, values, lists;
  for (const CommandText* command : all_commands(program)) {
    std::string options, commands;
    for (const OptionText& option : completed_options(*command)) {
      if (option.positional) continue;
      for (const std::string& name : option.names) options += (options.empty() ? "" : " ") + name;
      if (option.takes_value) values += values_of(*command, option);
    }
    for (const OptionText& option : command->options) {
      if (!option.positional) continue;
      for (const std::string& choice : option.choices) {
        commands += (commands.empty() ? "" : " ") + choice;
      }
    }
    for (const CommandText& below : command->commands) {
      commands += (commands.empty() ? "" : " ") + below.name();
      paths +=
          fmt::format("      {}) at={} ;;\n", shell_word(below.path()), shell_word(below.path()));
    }
    lists += fmt::format("    {}) options={} commands={} ;;\n", shell_word(command->path()),
                         shell_word(options), shell_word(commands));
  }
  return fmt::format(kBashHead, fmt::arg("name", program.name()), fmt::arg("paths", paths),
                     fmt::arg("values", values), fmt::arg("lists", lists));
}

}  // namespace causeway::app
