// How many files and sockets this process may have open (RLIMIT_NOFILE). Many systems start
// programs with 1,024, too few for a server, though they allow far more.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace causeway {

// Raises the soft limit to at least `needed`, as far as the hard limit allows, and returns what it
// is then: less than `needed` when the hard limit is. Never lowers it. For the start of a program.
Result<std::int64_t> allow_open_files(std::int64_t needed);

}  // namespace causeway
