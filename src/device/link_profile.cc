#include "device/link_profile.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

namespace causeway::device {
namespace {

constexpr double kCostMax = 1e3;

std::string end_name(int end) {
  return end == kHostEnd ? "the host" : "device " + std::to_string(end);
}

}  // namespace

const LinkPath* LinkProfile::find(int source, int target) const {
  for (const LinkPath& path : paths) {
    if (path.source == source && path.target == target) return &path;
  }
  return nullptr;
}

Status check(const LinkProfile& profile) {
  for (const LinkResource& resource : profile.resources) {
    if (!std::isfinite(resource.bytes_per_second) || resource.bytes_per_second < 1) {
      return invalid_argument("link resource '" + resource.name + "' has no plausible bandwidth");
    }
  }
  std::set<std::pair<int, int>> ends;
  for (const LinkPath& path : profile.paths) {
    const std::string name =
        "the path from " + end_name(path.source) + " to " + end_name(path.target);
    if (!ends.emplace(path.source, path.target).second)
      return invalid_argument(name + " is twofold");
    if (path.latency.count < 0) return invalid_argument(name + " has a negative latency");
    const std::set<int> route(path.route.begin(), path.route.end());
    if (route.size() != path.route.size()) {
      return invalid_argument(name + " crosses a resource twice");
    }
    const bool costs_fit = path.costs.empty() || path.costs.size() == path.route.size();
    if (!costs_fit || std::any_of(path.costs.begin(), path.costs.end(),
                                  [](double cost) { return !(cost > 0 && cost <= kCostMax); })) {
      return invalid_argument(name + " has implausible costs");
    }
    if (!route.empty() &&
        (*route.begin() < 0 || *route.rbegin() >= static_cast<int>(profile.resources.size()))) {
      return invalid_argument(name + " crosses an unknown resource");
    }
  }
  return {};
}

LinkProfile make_link_tree(const LinkTree& tree) {
  LinkProfile profile;
  const auto add = [&](std::string name, double bytes_per_second) {
    profile.resources.push_back({std::move(name), bytes_per_second});
    return static_cast<int>(profile.resources.size()) - 1;
  };
  int switch_down = -1, switch_up = -1;
  std::vector<int> peer_in, peer_out;
  for (int d = 0; d < tree.devices; ++d) {
    const std::string device = "device" + std::to_string(d);
    if (tree.devices_per_switch > 0 && d % tree.devices_per_switch == 0) {
      const std::string name = "switch" + std::to_string(d / tree.devices_per_switch);
      switch_down = add(name + ".down", tree.switch_link);
      switch_up = add(name + ".up", tree.switch_link);
    }
    const int in = add(device + ".in", tree.link);
    const int out = add(device + ".out", tree.link);
    const int duplex = add(device + ".duplex", tree.link_duplex);
    LinkPath down{kHostEnd, d, {in, duplex}, tree.latency};
    LinkPath up{d, kHostEnd, {out, duplex}, tree.latency};
    if (switch_down >= 0) {
      down.route.push_back(switch_down);
      up.route.push_back(switch_up);
    }
    profile.paths.push_back(std::move(down));
    profile.paths.push_back(std::move(up));
    if (tree.peer_link <= 0) continue;
    peer_in.push_back(add(device + ".peer_in", tree.peer_link));
    peer_out.push_back(add(device + ".peer_out", tree.peer_link));
  }
  for (std::size_t a = 0; a < peer_in.size(); ++a) {
    for (std::size_t b = 0; b < peer_in.size(); ++b) {
      if (a == b) continue;
      profile.paths.push_back(
          {static_cast<int>(a), static_cast<int>(b), {peer_out[a], peer_in[b]}, tree.latency});
    }
  }
  return profile;
}

}  // namespace causeway::device
