// How often tests with random input repeat.
#pragma once

#include <algorithm>

namespace causeway {

// GCC defines a macro, Clang has a feature.
#if defined(__has_feature)
inline constexpr bool kSanitized =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// `all` in builds without sanitizers, a tenth of it with them, because they make the same work take
// several times as long. Sanitizers check each access; the many histories are the release build's
// to test.
template <typename Count>
constexpr Count rounds(Count all) {
  return kSanitized ? std::max<Count>(1, all / 10) : all;
}

}  // namespace causeway
