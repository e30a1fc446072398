// The machine that the program runs on, as several commands look at it.
#pragma once

#include <string>

#include "base/result.h"
#include "topology/topology.h"

namespace causeway::app {

// What it is made of.
Result<topology::Machine> look_at_machine();

// Where what was measured of it is kept: of XDG_CACHE_HOME, or of the home folder.
std::string default_cache_folder();

}  // namespace causeway::app
