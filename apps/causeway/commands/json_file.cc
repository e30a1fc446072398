#include "commands/json_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>

namespace causeway::app {

Status write_json(const std::string& file, const nlohmann::ordered_json& document) {
  if (file.empty()) return {};
  const std::string text = document.dump(2) + "\n";
  if (file == "-") {
    fmt::print("{}", text);
    return {};
  }
  std::ofstream out(file);
  out << text;
  out.flush();
  return out ? Status() : io_error("cannot write " + file, errno);
}

}  // namespace causeway::app
