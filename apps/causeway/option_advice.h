// Which option changes what an error says. The libraries' errors carry facts and know no options;
// the program adds these where it prints an error.
#pragma once

#include <string>

namespace causeway::app {

// The message, and behind it the options that its facts depend on, if there are any: "… (see
// --weights-memory-bytes)". An option that it names already is not named again.
std::string with_options(const std::string& message);

}  // namespace causeway::app
