// What --help says of the program, as data: every command with its options. The man page and the
// shells' completions are made of it, so that they cannot say anything else.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace causeway::app {

struct OptionText {
  std::vector<std::string> names;  // "-h", "--help"; of a positional its name alone: "model"
  std::string form;                // what --help writes behind the names: "TEXT:{cpu,cuda}=cpu"
  std::string description;
  std::string group;  // heading in --help
  bool positional = false;
  bool takes_value = false;
  bool repeats = false;              // may be given more than once
  std::vector<std::string> choices;  // all values that there are; empty: any
  enum class Path { kNone, kFile, kFolder } path = Path::kNone;  // what a value must name
};

struct CommandText {
  std::vector<std::string> words;  // "causeway", "bench", "serve"
  std::string description;
  std::string usage;  // "causeway bench serve [OPTIONS]"
  std::vector<OptionText> options;
  // Options of the commands above that may be given behind this one, too.
  std::vector<OptionText> inherited;
  std::vector<CommandText> commands;

  const std::string& name() const { return words.back(); }
  // The words with spaces between.
  std::string path() const;
};

// Everything below `program`, which is named `name`; hidden options and commands are left out.
CommandText describe(const CLI::App& program, const std::string& name);

// `command` and all below it, in the order of --help.
std::vector<const CommandText*> all_commands(const CommandText& command);

}  // namespace causeway::app
