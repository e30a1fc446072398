// A subcommand of `causeway`: declares its options when made, runs when chosen.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "options.h"

namespace causeway::app {

class Command {
 public:
  // Declares the subcommand `name` of `parent`, with --config.
  Command(Options& parent, const std::string& name, const std::string& description)
      : options_(parent.add_command(name, description)) {
    options_.add_option("--config", config_file_, "YAML file with options of this command")
        .existing_file();
  }
  virtual ~Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Runs to the end. The error's message is all that the user sees.
  virtual Status run() = 0;

  Options& options() { return options_; }
  const std::string& config_file() const { return config_file_; }

 private:
  Options options_;
  std::string config_file_;
};

using Commands = std::vector<std::unique_ptr<Command>>;

// `clock` outlives the command.
std::unique_ptr<Command> make_serve(Options& parent, const Clock& clock);
std::unique_ptr<Command> make_worker(Options& parent, const Clock& clock);
std::unique_ptr<Command> make_models_list(Options& parent);
std::unique_ptr<Command> make_models_load(Options& parent);
std::unique_ptr<Command> make_models_unload(Options& parent);
std::unique_ptr<Command> make_ps(Options& parent);
std::unique_ptr<Command> make_make_model(Options& parent);
std::unique_ptr<Command> make_make_catalogue(Options& parent);
std::unique_ptr<Command> make_bench_serve(Options& parent, const Clock& clock);
std::unique_ptr<Command> make_topology(Options& parent, const Clock& clock);
// Of these `program` is the whole program, whose options and commands they tell.
std::unique_ptr<Command> make_completion(Options& program);
std::unique_ptr<Command> make_man(Options& program);
// Adds what measures this machine, simulates and replays (apps/causeway/bench), below the group
// `bench` and the program. A build without CAUSEWAY_MEASURING has none of it: then the help of
// `bench` says so.
void add_measuring(Options& program, Options& bench, const Clock& clock, Commands& commands);

}  // namespace causeway::app
