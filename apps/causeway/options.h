// The options that a command declares. CLI11 is behind it, whose headers only options.cc,
// settings.cc, program_text.cc, help_format.cc and main.cc read: they cost more to compile than
// most commands.
//
//   options.add_option("--models", models_, "number of models").range(3, 1000).show_default();
//
// Variables outlive the parsing. Both classes are handles of what the CLI::App owns.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace causeway::app {

// One option, as it is described step by step. Values that a check refuses end the parsing with a
// message that names option, value and what is wanted; checks run in the order of these calls.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  // From `low` to `high`, both included.
  Option& range(int low, int high);
  Option& range(std::int64_t low, std::int64_t high);
  Option& range(std::uint64_t low, std::uint64_t high);
  Option& range(double low, double high);
  Option& positive();
  Option& non_negative();
  Option& one_of(std::vector<std::string> values);
  Option& existing_file();
  Option& existing_folder();
  // A number of bytes, with a unit or without: 4096, 4MiB, 4MB (both 2²⁰). For std::uint64_t.
  Option& in_bytes();
  // `check`: what is wrong with a value, "" for nothing; `wanted`: of --help.
  Option& check(const std::function<std::string(const std::string&)>& check,
                const std::string& wanted);

  // Several values in one argument, with this character between.
  Option& delimiter(char delimiter);
  // Of a list: named once for each value, as in --model a --model b.
  Option& one_value();
  Option& required();
  Option& needs(const Option& other);
  // The variable's value, or the given text, as the default in --help.
  Option& show_default();
  Option& show_default(const std::string& text);
  // The heading in --help; "": hidden.
  Option& group(const std::string& name);

  // How often it was given.
  std::size_t count() const;

 private:
  CLI::Option* option_;
};

// The options of one command.
class Options {
 public:
  explicit Options(CLI::App& app) : app_(&app) {}

  // T: std::string, int, std::int64_t, std::uint64_t, double, and vectors of them for lists;
  // options.cc makes the code for each. `name`: "--name", or "name" for a positional.
  template <typename T>
  Option add_option(const std::string& name, T& value, const std::string& description = "");
  // One of an enumeration's values, by its name in `choices`.
  template <typename Enum>
  Option add_choice(const std::string& name, Enum& value,
                    const std::map<std::string, Enum>& choices, const std::string& description);
  Option add_flag(const std::string& name, bool& value, const std::string& description = "");

  Options add_command(const std::string& name, const std::string& description);

  // One that was declared; another is a bug.
  Option get_option(const std::string& name) const;
  std::size_t count(const std::string& name) const { return get_option(name).count(); }
  // Whether the command line chose this command.
  bool parsed() const;

  CLI::App& app() const { return *app_; }

 private:
  Option add_numbered(const std::string& name, const std::function<void(int)>& set,
                      const std::map<std::string, int>& choices, const std::string& description);

  CLI::App* app_;
};

// As Option::in_bytes() reads it; nothing: that is no number of bytes.
std::optional<std::uint64_t> parse_bytes(std::string text);

// What an option in bytes has been given.
inline Bytes bytes_of(std::uint64_t value) { return Bytes(static_cast<std::int64_t>(value)); }

template <typename Enum>
Option Options::add_choice(const std::string& name, Enum& value,
                           const std::map<std::string, Enum>& choices,
                           const std::string& description) {
  std::map<std::string, int> numbered;
  for (const auto& [word, choice] : choices) numbered[word] = static_cast<int>(choice);
  return add_numbered(
      name, [&value](int choice) { value = static_cast<Enum>(choice); }, numbered, description);
}

}  // namespace causeway::app
