// What a long command is doing, on the error output.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>

namespace causeway::app {

inline void print_step(const std::string& what) { fmt::print(stderr, "{} …\n", what); }

}  // namespace causeway::app
