#include "completion.h"

namespace causeway::app {

std::optional<Shell> shell_named(const std::string& name) {
  if (name == "bash") return Shell::kBash;
  if (name == "zsh") return Shell::kZsh;
  if (name == "fish") return Shell::kFish;
  return std::nullopt;
}

std::string completion_script(const CommandText& program, Shell shell) {
  switch (shell) {
    case Shell::kBash: return bash_completion(program);
    case Shell::kZsh: return zsh_completion(program);
    case Shell::kFish: return fish_completion(program);
  }
  return {};
}

std::string shell_word(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\n' || c == '\t';
    if (space && (line.empty() || line.back() == ' ')) continue;
    line += space ? ' ' : c;
  }
  return line;
}

std::vector<OptionText> completed_options(const CommandText& command) {
  std::vector<OptionText> options = command.options;
  options.insert(options.end(), command.inherited.begin(), command.inherited.end());
  return options;
}

}  // namespace causeway::app
