// The time of day, for what leaves the process: records that other machines put in order. Never for
// measuring: it is set now and then, and may run backwards.
#pragma once

#include "base/units.h"

namespace causeway {

// Since 1970.
Nanos unix_time();

}  // namespace causeway
