// Captures what is logged during its life, from level "debug" on, instead of letting it out. Only
// one may live at a time.
#pragma once

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

namespace causeway {

class LogLines {
 public:
  LogLines() : before_(spdlog::default_logger()) {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_);
    auto logger = std::make_shared<spdlog::logger>("lines", std::move(sink));
    logger->set_level(spdlog::level::debug);
    spdlog::set_default_logger(std::move(logger));
  }
  ~LogLines() { spdlog::set_default_logger(before_); }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  // How many lines hold this text.
  std::int64_t count(const std::string& text) const {
    std::istringstream all(lines_.str());
    std::int64_t found = 0;
    for (std::string line; std::getline(all, line);) {
      found += line.find(text) != std::string::npos ? 1 : 0;
    }
    return found;
  }

 private:
  std::shared_ptr<spdlog::logger> before_;
  std::ostringstream lines_;
};

}  // namespace causeway
