// How a slice changes from one model to another: by layers, as many as are needed; and baselines
// that are measured beside it in the same server.
#pragma once

#include <cstdint>

namespace causeway::slice {

enum class Switching : std::uint8_t {
  kLayers,
  kReload,  // all of a model comes, and gives way, at once; it is computed when all is there
  // Likewise, and what gives way is copied to host memory first, though it is there (as vLLM's
  // sleep and wake).
  kSleep,
};

}  // namespace causeway::slice
