#include "transfer/testing/machines.h"

namespace causeway::transfer::testing {
namespace {

using device::kHostEnd;
using device::LinkModel;
using device::LinkPath;
using device::LinkProfile;

void share(LinkPath& path, int resource, double cost) {
  if (path.costs.empty()) path.costs.assign(path.route.size(), 1);
  path.route.push_back(resource);
  path.costs.push_back(cost);
}

}  // namespace

LinkProfile eight_h200() {
  LinkProfile profile = device::make_link_tree({.devices = 8, .latency = micros(1)});
  const auto add = [&](const char* name, double rate) {
    profile.resources.push_back({name, rate});
    return static_cast<int>(profile.resources.size()) - 1;
  };
  const int read = add("memory.read", 168e9);
  const int write = add("memory.write", 132e9);
  const int far_read = add("socket.read", 89e9);
  for (LinkPath& path : profile.paths) {
    if (path.source == kHostEnd) {
      share(path, read, path.target < 4 ? 1.1 : 1);
      if (path.target < 4) share(path, far_read, 1);
    } else if (path.target == kHostEnd) {
      share(path, write, path.source < 4 ? 1.8 : 1);
    }
  }
  return profile;
}

Result<double> ModelProber::duplex_rate(int link) {
  LinkModel model(profile_.resources);
  double sum = 0;
  std::vector<device::FlowId> flows;
  for (const auto& [source, target] : {std::pair(kHostEnd, link), std::pair(link, kHostEnd)}) {
    const LinkPath* path = profile_.find(source, target);
    flows.push_back(model.start(
        {gib(64), path->route, device::CopyPriority::kStep, Nanos(0), path->costs}, Nanos(0)));
  }
  for (const device::FlowId flow : flows) sum += model.bytes_per_second(flow);
  return sum;
}

Result<double> ModelProber::peer_rate(int source, int target) {
  LinkModel model(profile_.resources);
  const LinkPath* path = profile_.find(source, target);
  return model.bytes_per_second(model.start(
      {gib(64), path->route, device::CopyPriority::kStep, Nanos(0), path->costs}, Nanos(0)));
}

LinkMap map_of(const LinkProfile& profile, int links) {
  ModelProber prober(profile, links);
  return measure_link_map("modelled", prober, {.runs = 1}).value();
}

BestSet exhaustive_best(const LinkProfile& profile, int links, SteadyLoad load) {
  BestSet best;
  for (std::uint64_t bits = 1; bits < std::uint64_t{1} << links; ++bits) {
    load.links = LinkSet{bits};
    const double rate = steady_rate(profile, load);
    if (rate > best.rate) best = {load.links, rate};
  }
  return best;
}

}  // namespace causeway::transfer::testing
