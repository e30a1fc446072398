// In place of apps/causeway/bench, in builds without CAUSEWAY_MEASURING.
#include <CLI/CLI.hpp>

#include "commands/command.h"

namespace causeway::app {

void add_measuring(Options& program, Options& bench, const Clock&, Commands&) {
  for (const Options& place : {program, bench}) {
    place.app().footer(
        "This build has no command that measures but `bench serve`, nor profile, simulate and "
        "replay: configure it with -DCAUSEWAY_MEASURING=ON, or take the preset `release`.");
  }
}

}  // namespace causeway::app
