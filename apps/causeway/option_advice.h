// Which option, environment variable or command changes what an error says. The libraries' errors
// carry facts and know none of them; the program adds them where it prints an error.
#pragma once

#include <string>

namespace causeway::app {

// The message, and behind it what its facts depend on, if there is anything: "… (see
// --weights-memory-bytes)". What the message names already is not named again.
std::string with_options(const std::string& message);

}  // namespace causeway::app
