#include "base/open_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <limits>

namespace causeway {

Result<std::int64_t> allow_open_files(std::int64_t needed) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return io_error("getrlimit", errno);
  const auto wanted =
      std::min(static_cast<rlim_t>(std::max<std::int64_t>(needed, 0)), limit.rlim_max);
  if (wanted > limit.rlim_cur) {
    limit.rlim_cur = wanted;
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return io_error("setrlimit", errno);
  }
  constexpr auto kMost = static_cast<rlim_t>(std::numeric_limits<std::int64_t>::max());
  return static_cast<std::int64_t>(std::min(limit.rlim_cur, kMost));
}

}  // namespace causeway
