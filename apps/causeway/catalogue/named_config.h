// A shape under a name.
#pragma once

#include <string>

#include "model/config.h"

namespace causeway::bench {

struct NamedConfig {
  std::string name;
  model::ModelConfig config;
};

}  // namespace causeway::bench
