// What a config.json says of how layers compute: windows, the activation, soft caps. Internal to
// this room.
#pragma once

#include "model/config.h"
#include "model/config_fields.h"

namespace causeway::model {

// `fields` are those of `root`; `config` has its shape already.
void read_layers(Fields& fields, const nlohmann::json& root, ModelConfig& config);

}  // namespace causeway::model
