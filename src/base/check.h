// CAUSEWAY_CHECK: an always-on assertion of what only a bug can break. It prints the condition, the
// place and a message, and aborts. What the environment or a user can break is a Result (result.h).
#pragma once

#include <string_view>

namespace causeway {

[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               std::string_view message);

}  // namespace causeway

// The message names the fault, not the rule that it breaks: "an extent is committed twice", "a step
// of no model". It stands behind the condition in what is printed.
#define CAUSEWAY_CHECK(condition, ...)                                                   \
  do {                                                                                   \
    if (!(condition)) [[unlikely]] {                                                     \
      ::causeway::check_failed(#condition, __FILE__, __LINE__, std::string_view{__VA_ARGS__}); \
    }                                                                                    \
  } while (false)
