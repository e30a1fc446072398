// The names that options give to engine::StepStart.
#pragma once

#include <map>
#include <string>

#include "engine/engine_core.h"

namespace causeway::app {

inline const std::map<std::string, engine::StepStart> kStepStarts = {
    {"just-in-time", engine::StepStart::kJustInTime},
    {"all-cached", engine::StepStart::kAllCached},
    {"at-once", engine::StepStart::kAtOnce},
    {"when-idle", engine::StepStart::kWhenIdle}};

}  // namespace causeway::app
