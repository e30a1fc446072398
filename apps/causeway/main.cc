// The program: finds the subcommand, fills its options from all four places, runs it.
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <system_error>

#include "base/clock.h"
#include "base/log.h"
#include "commands/command.h"
#include "help_format.h"
#include "openmp_waits.h"
#include "option_advice.h"
#include "settings.h"
#include "usage_error.h"
#include "version.h"

namespace causeway::app {
namespace {

int fail(const Error& error) {
  fmt::print(stderr, "error: {}\n", with_options(error.message));
  return error.code == ErrorCode::kInvalidArgument ? 2 : 1;
}

// What was printed may still be in this process: a full disk shows here.
Status flush_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.flush()) return {};
  return io_error("writing the output", errno == 0 ? EIO : errno);
}

int end(const Status& ran) {
  const Status written = flush_output();
  if (!ran.ok()) return fail(ran.error());
  return written.ok() ? 0 : fail(written.error());
}

// A group of subcommands, such as `causeway bench`.
Options add_group(Options& parent, const std::string& name, const std::string& description) {
  Options group = parent.add_command(name, description);
  group.app().require_subcommand(1);
  return group;
}

int run_chosen(const Commands& commands, const std::string& level) {
  for (const auto& command : commands) {
    if (!command->options().parsed()) continue;
    const Status settings = apply_settings(command->options(), command->config_file(), std::getenv);
    if (!settings.ok()) return fail(settings.error());
    set_up_logging(level);
    try {
      return end(command->run());
    } catch (const std::system_error& error) {  // of fmt::print, which cannot write
      return fail(io_error("writing the output", error.code().value()));
    }
  }
  return 2;
}

int run(int argc, char** argv) {
  CLI::App app("Causeway serves a catalogue of language models from host memory.", "causeway");
  set_help_format(app);
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text());
  std::string level = "info";
  app.add_option("--log-level", level, "trace, debug, info, warning, error or off")
      ->envname("CAUSEWAY_LOG_LEVEL")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "off"}));
  app.fallthrough();
  Options program(app);

  const RealClock clock;
  Commands commands;
  commands.push_back(make_serve(program, clock));
  commands.push_back(make_worker(program, clock));
  commands.push_back(make_ps(program));
  Options models = add_group(
      program, "models", "List the models of a folder; load and unload models of a running server");
  commands.push_back(make_models_list(models));
  commands.push_back(make_models_load(models));
  commands.push_back(make_models_unload(models));
  commands.push_back(make_make_model(program));
  commands.push_back(make_make_catalogue(program));
  Options bench = add_group(program, "bench", "Measure a server, or parts of this one");
  commands.push_back(make_bench_serve(bench, clock));
  add_measuring(program, bench, clock, commands);
  commands.push_back(make_topology(program, clock));
  commands.push_back(make_completion(program));
  commands.push_back(make_man(program));

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      app.exit(error);
      return end({});
    }
    fmt::print(stderr, "error: {}\n", usage_error(app, "causeway", error));
    return 2;
  }
  return run_chosen(commands, level);
}

}  // namespace
}  // namespace causeway::app

int main(int argc, char** argv) {
  // What large bodies took goes back to the system. By itself the C library raises this threshold
  // with the first of them, and then keeps gigabytes of what a crowd has sent.
  ::mallopt(M_MMAP_THRESHOLD, 4 << 20);
  causeway::app::wait_briefly(argv, std::getenv);
  return causeway::app::run(argc, argv);
}
