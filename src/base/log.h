// Logging: spdlog to standard error, one line an event, level by --log-level. Levels as in spdlog.
// Library code logs sparingly: an error that is returned is not logged too.
#pragma once

#include <spdlog/spdlog.h>

namespace causeway {

// Sets format and level ("trace", "debug", "info", "warning", "error", "off"); call once at start.
void set_up_logging(const std::string& level);

}  // namespace causeway
