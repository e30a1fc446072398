// Logging for .cu files: nvcc cannot read spdlog's headers.
#pragma once

#include <string>

namespace causeway {

void log_warning(const std::string& text);

}  // namespace causeway
