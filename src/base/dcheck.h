// CAUSEWAY_DCHECK: a CAUSEWAY_CHECK (check.h) whose condition costs too much for every run, or
// whose failure must not end a program that is not ours. Debug and sanitizer builds, in which the
// tests run, evaluate it; other builds only compile it.
#pragma once

#include "base/check.h"

#if !defined(CAUSEWAY_DCHECKS)
#if !defined(NDEBUG) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CAUSEWAY_DCHECKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CAUSEWAY_DCHECKS 1
#endif
#endif
#endif
#if !defined(CAUSEWAY_DCHECKS)
#define CAUSEWAY_DCHECKS 0
#endif

namespace causeway {

inline constexpr bool kDchecks = CAUSEWAY_DCHECKS != 0;

}  // namespace causeway

#define CAUSEWAY_DCHECK(condition, ...)                                                    \
  do {                                                                                     \
    if (::causeway::kDchecks && !(condition)) [[unlikely]] {                               \
      ::causeway::check_failed(#condition, __FILE__, __LINE__, std::string_view{__VA_ARGS__}); \
    }                                                                                      \
  } while (false)
