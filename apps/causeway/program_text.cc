#include "program_text.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace causeway::app {
namespace {

// CLI11 tells the values that an option takes in the name of its type alone: "TEXT:{cpu,cuda}".
std::vector<std::string> choices_in(const std::string& type) {
  const std::size_t open = type.find('{'), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

OptionText::Path path_in(const std::string& type) {
  const auto ends_with = [&](const std::string& end) {
    return type.size() >= end.size() &&
           type.compare(type.size() - end.size(), end.size(), end) == 0;
  };
  if (ends_with(":FILE")) return OptionText::Path::kFile;
  return ends_with(":DIR") ? OptionText::Path::kFolder : OptionText::Path::kNone;
}

OptionText describe(const CLI::Option& option) {
  OptionText text;
  text.positional = option.get_positional();
  if (text.positional) {
    text.names = {option.get_name(/*positional=*/true)};
  } else {
    for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  }
  const std::string type = option.get_type_name();
  text.form = CLI::detail::trim_copy(CLI::Formatter().make_option_opts(&option));
  text.description = option.get_description();
  text.group = option.get_group();
  text.takes_value = option.get_items_expected_max() != 0;
  text.repeats = text.takes_value && option.get_expected_max() > 1;
  if (text.takes_value) text.choices = choices_in(type);
  text.path = path_in(type);
  return text;
}

bool is_help_or_version(const OptionText& option) {
  const auto names = [&](const char* name) {
    return std::find(option.names.begin(), option.names.end(), name) != option.names.end();
  };
  return names("--help") || names("--version");
}

CommandText describe(const CLI::App& app, std::vector<std::string> words,
                     std::vector<OptionText> inherited) {
  CommandText text;
  text.words = std::move(words);
  text.description = app.get_description();
  const std::string usage = CLI::Formatter().make_usage(&app, text.path());
  text.usage = CLI::detail::trim_copy(usage.substr(usage.find(' ')));  // without "Usage:"
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) text.options.push_back(describe(*option));
  }
  text.inherited = inherited;
  for (const OptionText& option : text.options) {
    if (!option.positional && !is_help_or_version(option)) inherited.push_back(option);
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App* one) {
         return !one->get_group().empty() && !one->get_name().empty();
       })) {
    std::vector<std::string> below = text.words;
    below.push_back(command->get_name());
    text.commands.push_back(
        describe(*command, std::move(below),
                 command->get_fallthrough() ? inherited : std::vector<OptionText>()));
  }
  return text;
}

void append_all(const CommandText& command, std::vector<const CommandText*>& all) {
  all.push_back(&command);
  for (const CommandText& below : command.commands) append_all(below, all);
}

}  // namespace

std::string CommandText::path() const { return CLI::detail::join(words, " "); }

CommandText describe(const CLI::App& program, const std::string& name) {
  return describe(program, std::vector<std::string>{name}, {});
}

std::vector<const CommandText*> all_commands(const CommandText& command) {
  std::vector<const CommandText*> all;
  append_all(command, all);
  return all;
}

}  // namespace causeway::app
