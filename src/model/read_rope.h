// The rotary position embedding of a config.json. Internal to this room.
#pragma once

#include "model/config.h"
#include "model/config_fields.h"

namespace causeway::model {

// Sets rope_theta, rotary_dim and rope_scaling, and with YaRN max_position. `config` has its shape
// already.
void read_rope(Fields& fields, ModelConfig& config);

}  // namespace causeway::model
