// Two replays' reports beside each other: a server's and the simulator's, or two policies'. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"

namespace causeway::bench {

// A row for each figure: of `report` (to_json() of a ReplayReport), of `other`, and by how much the
// first is more, in percent of the second or, of shares, in points. What one of them does not say
// is a dash. kCorrupt: `other` is no report of a replay.
Result<std::string> beside_text(const nlohmann::ordered_json& report,
                                const nlohmann::ordered_json& other);

}  // namespace causeway::bench
