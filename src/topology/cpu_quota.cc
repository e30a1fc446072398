#include <algorithm>
#include <fstream>
#include <sstream>

#include "topology/discover.h"

namespace causeway::topology {
namespace {

constexpr int kGroupDepthMax = 64;

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line(256, '\0');
  file.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<std::size_t>(file.gcount()));
  return line.substr(0, line.find('\n'));
}

double ratio(double quota, double period) { return quota > 0 && period > 0 ? quota / period : 0; }

// Parses "200000 100000", or "max 100000" for no limit.
double quota_of_version2(const std::string& folder) {
  std::istringstream fields(read_line(folder + "/cpu.max"));
  double quota = 0;
  double period = 0;
  return fields >> quota >> period ? ratio(quota, period) : 0;
}

double quota_of_version1(const std::string& folder) {
  std::istringstream fields(read_line(folder + "/cpu.cfs_quota_us") + " " +
                            read_line(folder + "/cpu.cfs_period_us"));
  double quota = 0;
  double period = 0;
  return fields >> quota >> period ? ratio(quota, period) : 0;
}

double tightest(const std::string& root, std::string path, double (*quota_of)(const std::string&)) {
  double least = 0;
  if (path == "/") path.clear();
  for (int depth = 0; depth < kGroupDepthMax; ++depth) {
    const double quota = quota_of(root + path);
    if (quota > 0) least = least > 0 ? std::min(least, quota) : quota;
    if (path.empty()) break;
    const std::size_t slash = path.rfind('/');
    path.resize(slash == std::string::npos ? 0 : slash);
  }
  return least;
}

}  // namespace

double read_cpu_quota(const std::string& proc, const std::string& cgroup) {
  std::ifstream groups(proc + "/self/cgroup");
  double least = 0;
  for (std::string line; std::getline(groups, line);) {  // hierarchy:controllers:path
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    double quota = 0;
    if (controllers == ",,") {
      quota = tightest(cgroup, path, quota_of_version2);
    } else if (controllers.find(",cpu,") != std::string::npos) {
      quota = tightest(cgroup + "/cpu", path, quota_of_version1);
    }
    if (quota > 0) least = least > 0 ? std::min(least, quota) : quota;
  }
  return least;
}

}  // namespace causeway::topology
