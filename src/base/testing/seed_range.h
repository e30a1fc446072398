// Which seeds of random histories a test runs.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

namespace causeway {

struct SeedRange {
  int first = 1;
  int last = 1;  // included
  int count() const { return last - first + 1; }
};

// 1 to `histories`, or what the environment's `variable` says: "N" for 1 to N, "FIRST-LAST" for a
// part that runs beside others. `only`, if it is not 0: that one.
inline SeedRange seeds_of(const char* variable, int histories, int only = 0) {
  if (only != 0) return {only, only};
  const char* const chosen = std::getenv(variable);  // tidy: a test's own
  if (chosen == nullptr) return {1, histories};
  const std::string text = chosen;
  const auto dash = text.find('-');
  if (dash == std::string::npos) return {1, std::atoi(chosen)};
  return {std::atoi(chosen), std::atoi(text.c_str() + dash + 1)};
}

}  // namespace causeway
