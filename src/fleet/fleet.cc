#include "fleet/fleet.h"

namespace causeway::fleet {

std::string_view name_of(ModelState state) {
  switch (state) {
    case ModelState::kUnloaded: return "unloaded";
    case ModelState::kLoading: return "loading";
    case ModelState::kReady: return "ready";
    case ModelState::kActive: return "active";
  }
  return "unknown";
}

}  // namespace causeway::fleet
