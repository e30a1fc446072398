#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

#include "base/log_text.h"

namespace causeway {

void set_up_logging(const std::string& level) {
  auto logger = spdlog::stderr_color_mt("causeway");
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  logger->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(logger));
}

void log_warning(const std::string& text) { spdlog::warn("{}", text); }

}  // namespace causeway
