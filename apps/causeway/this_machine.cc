#include "this_machine.h"

#include <cstdlib>

#include "device/memory_headroom.h"
#include "topology/discover.h"

namespace causeway::app {

Result<topology::Machine> look_at_machine() {
  topology::DiscoverOptions options;
  const auto headroom = device::read_memory_headroom();
  if (headroom.ok()) {
    options.memory_available = headroom->bytes;
    options.memory_limited_by = headroom->limited_by;
  }
  const auto nvml = topology::load_nvml();
  if (nvml.ok()) {
    options.nvml = &*nvml;
  } else {
    options.no_nvml_because = nvml.error().message;
  }
  return topology::discover(options);
}

std::string default_cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    return std::string(cache) + "/causeway";
  }
  const char* home = std::getenv("HOME");
  return std::string(home == nullptr ? "." : home) + "/.cache/causeway";
}

}  // namespace causeway::app
