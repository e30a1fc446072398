// In place of apps/causeway/bench, in builds without CAUSEWAY_MEASURING.
#include <CLI/CLI.hpp>

#include "commands/command.h"

namespace causeway::app {

void add_measuring(Options&, Options& bench, const Clock&, Commands&) {
  bench.app().footer(
      "This build has no other command that measures, and none of profile, simulate and replay: "
      "configure it with -DCAUSEWAY_MEASURING=ON, or take the preset `release`.");
}

}  // namespace causeway::app
