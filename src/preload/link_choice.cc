#include "preload/link_choice.h"

#include <dirent.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

namespace causeway::preload {
namespace {

using transfer::LinkMap;
using transfer::LinkSet;

constexpr std::size_t kMapBytesMax = std::size_t{1} << 20;

// In new numbers; nullopt when a link of the set is left out.
std::optional<LinkSet> renumbered(LinkSet set, const std::vector<int>& links) {
  LinkSet fresh;
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (set.has(links[i])) fresh = fresh.with(static_cast<int>(i));
  }
  if (fresh.count() != set.count()) return std::nullopt;
  return fresh;
}

std::optional<int> renumbered(int link, const std::vector<int>& links) {
  const auto found = std::find(links.begin(), links.end(), link);
  if (found == links.end()) return std::nullopt;
  return static_cast<int>(found - links.begin());
}

std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  DIR* const folder = ::opendir(path.c_str());
  if (folder == nullptr) return names;
  while (const dirent* entry = ::readdir(folder)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  ::closedir(folder);
  return names;
}

// The driver lists all GPUs of the machine, whatever this process may use.
std::vector<std::string> gpus_of_machine() { return names_in("/proc/driver/nvidia/gpus"); }

std::optional<std::vector<int>> links_of(const Gpus& gpus) {
  std::vector<std::string> ids;
  for (int link = 0; link < gpus.count(); ++link) {
    std::array<char, 32> id{};
    const int result = gpus.native().api.cuDeviceGetPCIBusId(
        id.data(), static_cast<int>(id.size()) - 1, gpus.context(link).physical().handle());
    if (result != device::kCudaSuccess) return std::nullopt;
    ids.push_back(topology::normal_pci_id(id.data()));
  }
  std::vector<std::string> machine;
  for (const std::string& id : gpus_of_machine()) machine.push_back(topology::normal_pci_id(id));
  return ranks_of(ids, std::move(machine));
}

// The part of a file's map that is about these GPUs.
Result<LinkMap> read_map(const std::string& file, const Gpus& gpus) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return Error{ErrorCode::kIo, "it cannot be read"};
  std::string text;
  text.resize(kMapBytesMax);
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  CAUSEWAY_ASSIGN(const LinkMap map, transfer::read_link_map(text));
  const auto links = links_of(gpus);
  if (!links) return unsupported("which of the machine's GPUs these are is not known");
  const bool fits =
      std::all_of(links->begin(), links->end(), [&](int link) { return link < map.links; });
  if (!fits) return invalid_argument("the machine has more GPUs than it is about");
  LinkMap part = part_of(map, *links);
  CAUSEWAY_TRY(transfer::check(part));
  return part;
}

}  // namespace

LinkMap part_of(const LinkMap& map, const std::vector<int>& links) {
  LinkMap part;
  part.machine = map.machine;
  part.links = static_cast<int>(links.size());
  for (const transfer::Direction direction : transfer::kBothDirections) {
    const std::size_t way = transfer::index_of(direction);
    for (const transfer::SetRate& known : map.own[way]) {
      if (const auto set = renumbered(known.links, links)) {
        part.own[way].push_back({*set, known.rate});
      }
    }
    for (const transfer::RelayRate& known : map.relayed[way]) {
      const auto set = renumbered(known.links, links);
      const auto target = renumbered(known.target, links);
      if (set && target) part.relayed[way].push_back({*target, *set, known.rate});
    }
  }
  for (const int link : links) {
    const auto at = static_cast<std::size_t>(link);
    part.duplex.push_back(at < map.duplex.size() ? map.duplex[at] : 0);
  }
  for (const transfer::PeerRate& peer : map.peers) {
    const auto source = renumbered(peer.source, links);
    const auto target = renumbered(peer.target, links);
    if (source && target) part.peers.push_back({*source, *target, peer.rate});
  }
  return part;
}

std::optional<std::vector<int>> ranks_of(const std::vector<std::string>& ids,
                                         std::vector<std::string> machine) {
  std::sort(machine.begin(), machine.end());
  std::vector<int> ranks;
  for (const std::string& id : ids) {
    const auto found = std::lower_bound(machine.begin(), machine.end(), id);
    if (id.empty() || found == machine.end() || *found != id) return std::nullopt;
    ranks.push_back(static_cast<int>(found - machine.begin()));
  }
  return ranks;
}

std::string only_map_in(const std::string& folder, std::size_t gpus) {
  const std::string begin = "links-" + std::to_string(gpus) + "x-";
  std::vector<std::string> maps;
  for (const std::string& name : folder.empty() ? maps : names_in(folder)) {
    if (name.starts_with(begin) && name.ends_with(".json")) maps.push_back(folder + "/" + name);
  }
  return maps.size() == 1 ? maps.front() : "";
}

transfer::PathFacts paths_for(const Gpus& gpus, const std::string& file, const std::string& folder,
                              const std::function<void(const std::string&)>& say) {
  const transfer::PathFacts assumed = assumed_paths(gpus);
  const std::string found = file.empty() ? only_map_in(folder, gpus_of_machine().size()) : file;
  if (found.empty() || found == "none") return assumed;
  const Result<LinkMap> map = read_map(found, gpus);
  if (!map.ok()) {
    // Nobody asked for one that is only found.
    if (!file.empty()) say("CAUSEWAY_LINK_MAP=" + file + " is ignored: " + map.error().message);
    return assumed;
  }
  transfer::PathFacts facts = transfer::facts_of(*map);
  for (const transfer::Direction direction : transfer::kBothDirections) {
    transfer::WayFacts& way = facts.way(direction);
    const transfer::WayFacts& possible = assumed.way(direction);
    for (std::size_t target = 0; target < way.reach.size(); ++target) {
      way.reach[target] = way.reach[target] & possible.reach[target];
      way.best[target] = way.best[target] & possible.reach[target];
      if (way.best[target].empty()) way.best[target] = possible.best[target];
    }
  }
  return facts;
}

}  // namespace causeway::preload
