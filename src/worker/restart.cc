#include "worker/restart.h"

#include <fmt/format.h>

#include <algorithm>

namespace causeway::worker {

Nanos restart_pause(std::int64_t losses, Nanos least, Nanos most) {
  if (losses <= 1) return Nanos(0);
  Nanos pause = std::min(least, most);
  for (std::int64_t loss = 2; loss < losses && Nanos(0) < pause && pause < most; ++loss) {
    pause = std::min(pause * 2, most);
  }
  return pause;
}

std::string in_words(const RestartParts& parts) {
  const std::string starts =
      parts.starts > 1 ? fmt::format(" and {} starts", parts.starts) : std::string();
  return fmt::format(
      "{:.0f} ms{} after it was lost: end of the old process {:.0f} ms, beside it start {:.0f} ms "
      "and preparing {:.0f} ms, waiting for that end {:.0f} ms, opening {:.0f} ms",
      to_millis(parts.all), starts, to_millis(parts.end), to_millis(parts.hello),
      to_millis(parts.prepare), to_millis(parts.wait), to_millis(parts.open));
}

}  // namespace causeway::worker
