#include "settings.h"

#include <yaml-cpp/yaml.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <vector>

#include "base/nearest_word.h"
#include "usage_error.h"

namespace causeway::app {
namespace {

using Values = std::vector<std::string>;

// The long name without dashes, or a positional's name; empty for options that are no settings.
std::string setting_name(const CLI::Option& option) {
  if (!option.get_lnames().empty()) {
    const std::string& name = option.get_lnames().front();
    return name == "help" || name == "config" || name == "version" ? std::string() : name;
  }
  return option.get_name(/*positional=*/true);
}

std::string variable_name(const std::string& setting) {
  std::string name = "CAUSEWAY_";
  for (const char c : setting) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

Result<Values> read_values(const YAML::Node& node) {
  Values values;
  if (node.IsScalar()) {
    values.push_back(node.Scalar());
  } else if (node.IsSequence()) {
    for (const YAML::Node& element : node) {
      if (!element.IsScalar()) return invalid_argument("must be a value or a list of values");
      values.push_back(element.Scalar());
    }
  } else {
    return invalid_argument("must be a value or a list of values");
  }
  return values;
}

Result<std::map<std::string, Values>> read_file(const std::string& file) {
  std::map<std::string, Values> settings;
  if (file.empty()) return settings;
  try {
    const YAML::Node root = YAML::LoadFile(file);
    if (root.IsNull()) return settings;
    if (!root.IsMap()) return invalid_argument(file + ": is not a YAML mapping of options");
    for (const auto& item : root) {
      std::string key = item.first.as<std::string>();
      std::replace(key.begin(), key.end(), '_', '-');
      auto values = read_values(item.second);
      if (!values.ok()) return values.error().with_context(file + ": '" + key + "'");
      settings[key] = std::move(values).value();
    }
  } catch (const YAML::Exception& error) {
    return invalid_argument(file + ": " + error.what());
  }
  return settings;
}

Status set(CLI::Option& option, const Values& values, const std::string& origin) {
  try {
    for (const std::string& value : values) option.add_result(value);
    option.run_callback();
  } catch (const CLI::Error& error) {
    return invalid_argument(origin + ": " + value_error(error));
  }
  return {};
}

// What the environment says of an option; nullptr: nothing. Not counted is what is empty, what
// Kubernetes sets in pods beside a service named "causeway" (CAUSEWAY_PORT=tcp://…), and what
// libcauseway-preload.so reads, whose values are others (src/preload/settings.h).
const char* value_in(const Environment& environment, const std::string& variable) {
  constexpr std::string_view kOfPreload[] = {"CAUSEWAY_CHUNK", "CAUSEWAY_DEPTH",
                                             "CAUSEWAY_LINK_MAP", "CAUSEWAY_THRESHOLD"};
  if (std::find(std::begin(kOfPreload), std::end(kOfPreload), variable) != std::end(kOfPreload)) {
    return nullptr;
  }
  const char* const value = environment(variable.c_str());
  if (value == nullptr || *value == '\0') return nullptr;
  const bool service = std::string_view(value).find("://") != std::string_view::npos;
  return variable == "CAUSEWAY_PORT" && service ? nullptr : value;
}

Error unknown_option(const Options& command, const std::string& config_file,
                     const std::string& name) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.app().get_options()) {
    names.push_back(setting_name(*option));
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string_view meant = nearest_word(name, known);
  return invalid_argument(config_file + ": unknown option '" + name + "'; " +
                          (meant.empty() ? "see '" + command.app().get_name() + " --help'"
                                         : "did you mean '" + std::string(meant) + "'?"));
}

}  // namespace

Status apply_settings(const Options& command, const std::string& config_file,
                      const Environment& environment) {
  CAUSEWAY_ASSIGN(auto file, read_file(config_file));
  for (CLI::Option* option : command.app().get_options()) {
    const std::string name = setting_name(*option);
    if (name.empty()) continue;
    const auto in_file = file.find(name);
    if (option->count() == 0) {
      const std::string variable = variable_name(name);
      if (const char* value = value_in(environment, variable)) {
        CAUSEWAY_TRY(set(*option, {value}, variable));
      } else if (in_file != file.end()) {
        CAUSEWAY_TRY(set(*option, in_file->second, config_file + ": '" + name + "'"));
      }
    }
    if (in_file != file.end()) file.erase(in_file);
  }
  if (!file.empty()) return unknown_option(command, config_file, file.begin()->first);
  return {};
}

}  // namespace causeway::app
