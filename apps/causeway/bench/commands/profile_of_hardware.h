// The option that names a machine for the simulator.
#pragma once

#include <string>

#include "base/result.h"
#include "simulate/hardware_profile.h"

namespace causeway::app {

// A built-in profile's name, or a JSON file of the same form. Errors of find_profile() and
// parse_profile().
Result<simulate::HardwareProfile> profile_of_hardware(const std::string& hardware);

}  // namespace causeway::app
