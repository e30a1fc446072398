#include "help_format.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <sstream>
#include <string>

namespace causeway::app {
namespace {

constexpr std::size_t kColumns = 100;
constexpr std::size_t kNames = 30;  // columns of names

// The words of a line, wrapped, behind its own indentation.
void append_wrapped(std::string& out, const std::string& line) {
  const std::string indent(kNames + std::min(line.find_first_not_of(' '), line.size()), ' ');
  if (indent.size() > kNames || line.empty()) {  // a table of the description
    out += std::string(kNames, ' ') + line + "\n";
    return;
  }
  std::istringstream words(line);
  std::string current;
  for (std::string word; words >> word;) {
    if (!current.empty() && kNames + current.size() + 1 + word.size() > kColumns) {
      out += indent + current + "\n";
      current.clear();
    }
    current += (current.empty() ? "" : " ") + word;
  }
  out += indent + current + "\n";
}

std::string entry(const std::string& name, const std::string& description) {
  std::string text;
  std::istringstream lines(description);
  for (std::string line; std::getline(lines, line);) append_wrapped(text, line);
  const std::string left = "  " + name;
  // A name that does not leave a gap of two columns has a line of its own.
  if (text.empty() || left.size() + 2 > kNames) return left + "\n" + text;
  return left + text.substr(left.size());
}

class HelpFormat final : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    return entry(make_option_name(option, is_positional) + make_option_opts(option),
                 make_option_desc(option));
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return entry(command->get_display_name(true), command->get_description());
  }
};

}  // namespace

void set_help_format(CLI::App& app) { app.formatter(std::make_shared<HelpFormat>()); }

}  // namespace causeway::app
