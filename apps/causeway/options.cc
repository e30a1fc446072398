#include "options.h"

#include <CLI/CLI.hpp>
#include <utility>

namespace causeway::app {

Option& Option::range(int low, int high) {
  option_->check(CLI::Range(low, high));
  return *this;
}

Option& Option::range(std::int64_t low, std::int64_t high) {
  option_->check(CLI::Range(low, high));
  return *this;
}

Option& Option::range(std::uint64_t low, std::uint64_t high) {
  option_->check(CLI::Range(low, high));
  return *this;
}

Option& Option::range(double low, double high) {
  option_->check(CLI::Range(low, high));
  return *this;
}

Option& Option::positive() {
  option_->check(CLI::PositiveNumber);
  return *this;
}

Option& Option::non_negative() {
  option_->check(CLI::NonNegativeNumber);
  return *this;
}

Option& Option::one_of(std::vector<std::string> values) {
  option_->check(CLI::IsMember(std::move(values)));
  return *this;
}

Option& Option::existing_file() {
  option_->check(CLI::ExistingFile);
  return *this;
}

Option& Option::existing_folder() {
  option_->check(CLI::ExistingDirectory);
  return *this;
}

Option& Option::in_bytes() {
  option_->transform(CLI::AsSizeValue(false));
  return *this;
}

Option& Option::check(const std::function<std::string(const std::string&)>& check,
                      const std::string& wanted) {
  option_->check(CLI::Validator([check](std::string& value) { return check(value); }, wanted));
  return *this;
}

Option& Option::delimiter(char delimiter) {
  option_->delimiter(delimiter);
  return *this;
}

Option& Option::one_value() {
  option_->allow_extra_args(false);
  return *this;
}

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::needs(const Option& other) {
  option_->needs(other.option_);
  return *this;
}

Option& Option::show_default() {
  option_->capture_default_str();
  return *this;
}

Option& Option::show_default(const std::string& text) {
  option_->default_str(text);
  return *this;
}

Option& Option::group(const std::string& name) {
  option_->group(name);
  return *this;
}

std::size_t Option::count() const { return option_->count(); }

template <typename T>
Option Options::add_option(const std::string& name, T& value, const std::string& description) {
  return Option(app_->add_option(name, value, description));
}

template Option Options::add_option(const std::string&, std::string&, const std::string&);
template Option Options::add_option(const std::string&, int&, const std::string&);
template Option Options::add_option(const std::string&, std::uint16_t&, const std::string&);
template Option Options::add_option(const std::string&, std::int64_t&, const std::string&);
template Option Options::add_option(const std::string&, std::uint64_t&, const std::string&);
template Option Options::add_option(const std::string&, double&, const std::string&);
template Option Options::add_option(const std::string&, std::vector<std::string>&,
                                    const std::string&);
template Option Options::add_option(const std::string&, std::vector<int>&, const std::string&);
template Option Options::add_option(const std::string&, std::vector<std::int64_t>&,
                                    const std::string&);
template Option Options::add_option(const std::string&, std::vector<std::uint64_t>&,
                                    const std::string&);
template Option Options::add_option(const std::string&, std::vector<double>&, const std::string&);

Option Options::add_numbered(const std::string& name, const std::function<void(int)>& set,
                             const std::map<std::string, int>& choices,
                             const std::string& description) {
  // CLI11 reads and describes an enumeration otherwise than a number.
  enum class Choice : int {};
  std::map<std::string, Choice> named;
  for (const auto& [word, choice] : choices) named[word] = static_cast<Choice>(choice);
  const std::function<void(const Choice&)> put = [set](const Choice& choice) {
    set(static_cast<int>(choice));
  };
  CLI::Option* const option = app_->add_option_function(name, put, description);
  option->transform(CLI::CheckedTransformer(std::move(named)));
  return Option(option);
}

Option Options::add_flag(const std::string& name, bool& value, const std::string& description) {
  return Option(app_->add_flag(name, value, description));
}

Options Options::add_command(const std::string& name, const std::string& description) {
  return Options(*app_->add_subcommand(name, description));
}

Option Options::get_option(const std::string& name) const { return Option(app_->get_option(name)); }

bool Options::parsed() const { return app_->parsed(); }

std::optional<std::uint64_t> parse_bytes(std::string text) {
  std::uint64_t bytes = 0;
  try {
    const std::string wrong = CLI::AsSizeValue(false)(text);
    if (!wrong.empty() || !CLI::detail::lexical_cast(text, bytes)) return std::nullopt;
  } catch (const CLI::ValidationError&) {
    return std::nullopt;
  }
  return bytes;
}

}  // namespace causeway::app
