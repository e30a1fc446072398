// What is done about requests when all models are sent to sleep.
#pragma once

#include <cstdint>

namespace causeway::fleet {

enum class SleepMode : std::uint8_t {
  kIdle,   // nothing: models that have some stay
  kWait,   // those that are there end first; models that have got others by then stay
  kAbort,  // those that are there are cancelled; then as kWait
};

}  // namespace causeway::fleet
