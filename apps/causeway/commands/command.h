// A subcommand of `causeway`: declares its options on a CLI::App when made, runs when chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace causeway::app {

class Command {
 public:
  // Declares the subcommand `name` of `parent`, with --config.
  Command(CLI::App& parent, const std::string& name, const std::string& description)
      : options_(*parent.add_subcommand(name, description)) {
    options_.add_option("--config", config_file_, "YAML file with options of this command")
        ->check(CLI::ExistingFile);
  }
  virtual ~Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Runs to the end. The error's message is all that the user sees.
  virtual Status run() = 0;

  CLI::App& options() { return options_; }
  const std::string& config_file() const { return config_file_; }

 private:
  CLI::App& options_;
  std::string config_file_;
};

// `clock` outlives the command.
std::unique_ptr<Command> make_serve(CLI::App& parent, const Clock& clock);
std::unique_ptr<Command> make_worker(CLI::App& parent, const Clock& clock);
std::unique_ptr<Command> make_models_list(CLI::App& parent);
std::unique_ptr<Command> make_ps(CLI::App& parent);
std::unique_ptr<Command> make_make_model(CLI::App& parent);
std::unique_ptr<Command> make_make_catalogue(CLI::App& parent);
std::unique_ptr<Command> make_bench_serve(CLI::App& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_kernels(CLI::App& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_model(CLI::App& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_engine(CLI::App& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_switch(CLI::App& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_stream(CLI::App& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_catalogue(CLI::App& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_slo(CLI::App& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_load(CLI::App& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_kv(CLI::App& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_prefix(CLI::App& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_gemm(CLI::App& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_tuner(CLI::App& parent);
std::unique_ptr<Command> make_bench_server(CLI::App& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_transfer(CLI::App& parent, const Clock& clock);
std::unique_ptr<Command> make_profile(CLI::App& parent, const Clock& clock);
std::unique_ptr<Command> make_simulate(CLI::App& parent);
std::unique_ptr<Command> make_replay(CLI::App& parent, const Clock& clock);
std::unique_ptr<Command> make_topology(CLI::App& parent, const Clock& clock);

}  // namespace causeway::app
