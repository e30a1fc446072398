// Scripts with which shells complete the program's command line, made of what --help says.
#pragma once

#include <optional>
#include <string>

#include "program_text.h"

namespace causeway::app {

enum class Shell { kBash, kZsh, kFish };

// "bash", "zsh" or "fish".
std::optional<Shell> shell_named(const std::string& name);

// A script for `shell`, of the whole program: commands, options, the values of those that have a
// list of them, files and folders. Texts may hold any characters; no command is run to complete.
std::string completion_script(const CommandText& program, Shell shell);

// Of completion_script().
std::string bash_completion(const CommandText& program);
std::string zsh_completion(const CommandText& program);
std::string fish_completion(const CommandText& program);

// `text` as one word of a shell whose quoting is ' … ', with '\'' inside.
std::string shell_word(const std::string& text);

// `text` with every run of spaces and line ends as one space.
std::string one_line(const std::string& text);

// Both the options of a command and those it inherits, which complete it.
std::vector<OptionText> completed_options(const CommandText& command);

}  // namespace causeway::app
