// The manual page causeway(1), made of what --help says.
#pragma once

#include <string>

#include "program_text.h"

namespace causeway::app {

// A page in man(7)'s macros: the program, then every command with its options. Texts may hold any
// UTF-8; what is no ASCII is written as \[uXXXX]. No date: same program, same bytes.
std::string man_page(const CommandText& program, const std::string& version);

}  // namespace causeway::app
