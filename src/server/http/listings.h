// Bodies of the endpoints that only tell: none of them wakes a model.
#pragma once

#include <string>

#include "fleet/fleet.h"

namespace causeway::server {

std::string models_body(const fleet::Fleet& fleet);
std::string model_body(const fleet::CatalogueEntry& model, const fleet::ModelStatus& status);
std::string version_body(std::string_view version);

}  // namespace causeway::server
