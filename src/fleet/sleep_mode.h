// What happens to requests when all models are sent to sleep.
#pragma once

#include <cstdint>

namespace causeway::fleet {

enum class SleepMode : std::uint8_t {
  kIdle,   // nothing: models with requests stay
  kWait,   // present requests end first; models that have got others by then stay
  kAbort,  // present requests are cancelled; then as kWait
};

}  // namespace causeway::fleet
