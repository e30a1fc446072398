// Bodies of the admin port's listings. They wake no model.
#pragma once

#include <string>

#include "fleet/fleet.h"

namespace causeway::server {

// One model as /v1/models has it, with "pinned" and "attached" (to a slice).
std::string admin_model_body(const fleet::Fleet& fleet, const fleet::CatalogueEntry& model);
// All of them, and whether the server drains or its models sleep.
struct ServerState {
  bool draining = false;
  bool asleep = false;
};
std::string admin_models_body(const fleet::Fleet& fleet, const ServerState& state);

// {"is_sleeping": …, "loaded": [names of models that are on a slice]}
std::string sleep_body(const fleet::Fleet& fleet, bool asleep);
// {"is_sleeping": …}, as vLLM has it.
std::string is_sleeping_body(bool asleep);

// {"added": [names], "removed": [names], "kept": [{"model", "why"}], "left_out": [likewise]}
std::string reload_body(const fleet::ReloadReport& report);

// The models as llama.cpp's router lists them: "status": {"value": "loaded", "loading", "sleeping"
// (in host memory, on no slice) or "unloaded", "failed": true after a load that failed}.
std::string router_models_body(const fleet::Fleet& fleet);

}  // namespace causeway::server
