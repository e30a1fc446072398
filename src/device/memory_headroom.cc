#include "device/memory_headroom.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

namespace causeway::device {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();
constexpr int kGroupDepthMax = 64;

// The kernel makes these files small, but tests and containers mount others.
std::optional<std::string> read_text(const std::string& path) {
  constexpr std::size_t kBytesMax = 1 << 20;
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::string text(kBytesMax, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

std::optional<std::int64_t> parse_number(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  // Version 1 writes "no limit" as a number that may not even fit.
  if (error == std::errc::result_out_of_range) return kUnlimited;
  if (error != std::errc() || end == text.data() || number < 0) return std::nullopt;
  return number;
}

// Parses the number after `key` at the start of a line.
std::optional<std::int64_t> number_after(std::string_view text, std::string_view key) {
  for (std::size_t line = 0; line < text.size();) {
    const std::size_t end = std::min(text.find('\n', line), text.size());
    const std::string_view content = text.substr(line, end - line);
    if (content.substr(0, key.size()) == key) return parse_number(content.substr(key.size()));
    line = end + 1;
  }
  return std::nullopt;
}

// The file names of one version.
struct GroupFiles {
  const char* limit;
  const char* usage;
};
constexpr GroupFiles kVersion2 = {"/memory.max", "/memory.current"};
constexpr GroupFiles kVersion1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes"};

// What one group still allows; nullopt when it sets no limit.
std::optional<std::int64_t> group_headroom(const std::string& folder, const GroupFiles& files) {
  const auto limit_text = read_text(folder + files.limit);
  const auto usage_text = read_text(folder + files.usage);
  if (!limit_text || !usage_text) return std::nullopt;
  const auto limit = parse_number(*limit_text);
  const auto usage = parse_number(*usage_text);
  // Version 2 writes "max", which is no number; version 1 a number next to 2^63.
  if (!limit || !usage || *limit > kUnlimited / 2) return std::nullopt;
  std::int64_t cache = 0;
  if (const auto stat = read_text(folder + "/memory.stat")) {
    for (const char* key : {"active_file ", "inactive_file "}) {
      cache += std::min(number_after(*stat, key).value_or(0), kUnlimited / 8);
    }
  }
  const std::int64_t used = *usage > cache ? *usage - cache : 0;
  return std::max<std::int64_t>(0, *limit - used);
}

void limit_by_group(std::string root, std::string path, const GroupFiles& files,
                    MemoryHeadroom& headroom) {
  // A process may be told of parent groups that its mount does not show; their files are missing
  // then.
  if (path == "/") path.clear();
  for (int depth = 0; depth < kGroupDepthMax; ++depth) {
    if (const auto left = group_headroom(root + path, files);
        left && *left < headroom.bytes.count) {
      headroom = {Bytes(*left), "the limit of control group " + (path.empty() ? "/" : path)};
    }
    if (path.empty()) return;
    const std::size_t slash = path.rfind('/');
    path.resize(slash == std::string::npos ? 0 : slash);
  }
}

}  // namespace

Result<MemoryHeadroom> read_memory_headroom(const SystemPaths& paths) {
  const std::string meminfo = paths.proc + "/meminfo";
  const auto text = read_text(meminfo);
  if (!text) return Error{ErrorCode::kIo, "cannot read " + meminfo};
  const auto available = number_after(*text, "MemAvailable:");
  if (!available || *available > kUnlimited / 1024) {
    return corrupt(meminfo + " has no plausible MemAvailable");
  }
  MemoryHeadroom headroom{kib(*available), "the machine's available memory"};
  const auto groups = read_text(paths.proc + "/self/cgroup");
  std::istringstream lines(groups.value_or(""));
  for (std::string line; std::getline(lines, line);) {  // hierarchy:controllers:path
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      limit_by_group(paths.cgroup, path, kVersion2, headroom);
    } else if (controllers.find(",memory,") != std::string::npos) {
      limit_by_group(paths.cgroup + "/memory", path, kVersion1, headroom);
    }
  }
  return headroom;
}

}  // namespace causeway::device
