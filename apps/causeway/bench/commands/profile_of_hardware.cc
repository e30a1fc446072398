#include "bench/commands/profile_of_hardware.h"

#include <filesystem>

#include "weights/checked_json.h"

namespace causeway::app {

Result<simulate::HardwareProfile> profile_of_hardware(const std::string& hardware) {
  std::error_code ignored;
  if (!std::filesystem::exists(hardware, ignored)) return simulate::find_profile(hardware);
  CAUSEWAY_ASSIGN(const std::string text, weights::read_small_file(hardware, mib(1)));
  return simulate::parse_profile(text).with_context(hardware);
}

}  // namespace causeway::app
