// The pauses before a lost worker is started again, and how long each part of a start took.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"

namespace causeway::worker {

// Before a process is started in place of one that was lost. `losses`: in a row, 1 or more, of
// processes that neither gave a token nor lived for a second. None before the first restart;
// `least` before the second, then doubled, to `most`.
Nanos restart_pause(std::int64_t losses, Nanos least, Nanos most);

//  lost ─┬─ killed ──────── end ────────▶ reaped ─┐
//        └─ started ─ hello ─▶ prepare ─▶ wait ───┴─ open ─▶ serves again
//
// Of the last start, if it took several.
struct RestartParts {
  std::int64_t starts = 1;
  Nanos end = {};      // of the old process, from SIGKILL until waitpid has it
  Nanos hello = {};    // from the start of the new one to its Hello
  Nanos prepare = {};  // until it was prepared
  Nanos wait = {};     // from then until the old one had ended
  Nanos open = {};     // until its slices were open
  Nanos all = {};      // since the loss was noticed
};

// The parts in one line, which tests/e2e/fleet_replay.py reads.
std::string in_words(const RestartParts& parts);

}  // namespace causeway::worker
