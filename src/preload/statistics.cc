#include "preload/statistics.h"

namespace causeway::preload {

std::string Statistics::text() const {
  std::string text;
  for (int i = 0; i < kVerdicts; ++i) {
    const auto verdict = static_cast<Verdict>(i);
    if (calls(verdict) == 0) continue;
    text += "copies " + std::string(name_of(verdict)) + ": " + std::to_string(calls(verdict)) +
            ", " + std::to_string(bytes(verdict).count) + " bytes\n";
  }
  if (rescued > 0) text += "transfers rescued: " + std::to_string(rescued.load()) + "\n";
  if (lost > 0) text += "transfers lost: " + std::to_string(lost.load()) + "\n";
  return text;
}

}  // namespace causeway::preload
