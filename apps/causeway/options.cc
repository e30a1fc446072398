#include "options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/nearest_word.h"

namespace causeway::app {

namespace {

// A value from `low` to `high`.
template <typename T>
CLI::Validator in_range(T low, T high) {
  const auto check = [low, high](const std::string& text) {
    T value{};
    if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) {
      return std::string();
    }
    return fmt::format("must be from {} to {}, not '{}'", low, high, text);
  };
  std::ostringstream wanted;
  wanted << "[" << low << " - " << high << "]";
  return {check, wanted.str()};
}

// A number that `fits`; `wanted` says which do, `type` is what --help calls it.
CLI::Validator number_that(bool (*fits)(double), const std::string& wanted,
                           const std::string& type) {
  const auto check = [fits, wanted](const std::string& text) {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && fits(value)) return std::string();
    return fmt::format("must be {}, not '{}'", wanted, text);
  };
  return {check, type};
}

// What CLI11 would say only that it cannot convert.
template <typename T>
std::string why_no_number(const std::string& text) {
  T value{};
  const bool below = std::is_unsigned_v<T> && text.starts_with('-');
  if (!below && CLI::detail::lexical_cast(text, value)) return {};
  const std::string not_one = "'" + text + "' is no ";
  if (std::is_floating_point_v<T>) return not_one + "number";
  if (std::is_same_v<T, std::uint16_t>) return not_one + "whole number from 0 to 65535";
  return not_one + (std::is_unsigned_v<T> ? "whole number of 0 or more" : "whole number");
}

template <typename T>
struct ElementOf {
  using Type = T;
};
template <typename T>
struct ElementOf<std::vector<T>> {
  using Type = T;
};

}  // namespace

Option& Option::range(int low, int high) {
  option_->check(in_range(low, high));
  return *this;
}

Option& Option::range(std::int64_t low, std::int64_t high) {
  option_->check(in_range(low, high));
  return *this;
}

Option& Option::range(std::uint64_t low, std::uint64_t high) {
  option_->check(in_range(low, high));
  return *this;
}

Option& Option::range(double low, double high) {
  option_->check(in_range(low, high));
  return *this;
}

Option& Option::positive() {
  option_->check(number_that([](double value) { return value > 0; }, "above 0", "POSITIVE"));
  return *this;
}

Option& Option::non_negative() {
  option_->check(number_that([](double value) { return value >= 0; }, "0 or more", "NONNEGATIVE"));
  return *this;
}

Option& Option::one_of(std::vector<std::string> values) {
  const std::string described = "{" + CLI::detail::join(values, ",") + "}";
  const auto check = [values = std::move(values)](const std::string& text) -> std::string {
    const std::vector<std::string_view> known(values.begin(), values.end());
    if (std::find(known.begin(), known.end(), text) != known.end()) return {};
    const std::string_view meant = nearest_word(text, known);
    return fmt::format("'{}' is none of {}", text, CLI::detail::join(values, ", ")) +
           (meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
  };
  option_->check(CLI::Validator(check, described));
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
  const auto to_bytes = [](std::string& text) -> std::string {
    const auto bytes = parse_bytes(text);
    if (!bytes) return "'" + text + "' is no number of bytes, such as 4096, 512MB or 4GB";
    text = std::to_string(*bytes);
    return {};
  };
  option_->transform(CLI::Validator(to_bytes, CLI::AsSizeValue(false).get_description()));
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
  CLI::Option* const option = app_->add_option(name, value, description);
  using Element = typename ElementOf<T>::Type;
  if constexpr (std::is_arithmetic_v<Element>) {
    option->check(
        CLI::Validator([](const std::string& text) { return why_no_number<Element>(text); }, ""));
  }
  return Option(option);
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
  std::vector<std::string> words;
  for (const auto& [word, choice] : choices) words.push_back(word);
  const std::function<void(const std::string&)> put = [set, choices](const std::string& word) {
    set(choices.at(word));
  };
  return Option(app_->add_option_function(name, put, description)).one_of(std::move(words));
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
  if (text.starts_with('-')) return std::nullopt;  // read as an unsigned number it would be huge
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
