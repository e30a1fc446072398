// The pauses before a lost worker is started again, and how long the parts of a start took.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"

namespace causeway::worker {

// The pause before a process replaces a lost one. `losses` (≥ 1): how many processes in a row were
// lost that neither produced a token nor lived for a second. There is no pause before the first
// restart; it is `least` before the second, and then doubles up to `most`.
Nanos restart_pause(std::int64_t losses, Nanos least, Nanos most);

//  lost ─┬─ killed ──────── end ────────▶ reaped ─┐
//        └─ started ─ hello ─▶ prepare ─▶ wait ───┴─ open ─▶ serves again
//
// The times of a start; if several were needed, of the last.
struct RestartParts {
  std::int64_t starts = 1;
  Nanos end = {};      // the old process, from SIGKILL until waitpid returned it
  Nanos hello = {};    // from the start of the new process until its Hello
  Nanos prepare = {};  // until it was prepared
  Nanos wait = {};     // from then until the old process had ended
  Nanos open = {};     // until its slices were open
  Nanos all = {};      // from the time at which the loss was noticed
};

// The parts in one line, which tests/e2e/fleet_replay.py reads.
std::string in_words(const RestartParts& parts);

}  // namespace causeway::worker
