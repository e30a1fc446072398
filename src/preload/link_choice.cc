#include "preload/link_choice.h"

#include <dirent.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>

#include "base/dcheck.h"
#include "transfer/link_map_part.h"

namespace causeway::preload {
namespace {

using transfer::LinkMap;

constexpr std::size_t kMapBytesMax = std::size_t{1} << 20;

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

// The driver lists all GPUs of the machine, including those that this process may not use.
std::vector<std::string> gpus_of_machine() {
  std::vector<std::string> ids;
  for (const std::string& id : names_in("/proc/driver/nvidia/gpus")) {
    ids.push_back(topology::normal_pci_id(id));
  }
  return ids;
}

// nullopt when the driver does not tell.
std::optional<std::vector<std::string>> ids_of(const Gpus& gpus) {
  std::vector<std::string> ids;
  for (int link = 0; link < gpus.count(); ++link) {
    std::array<char, 32> id{};
    const int result = gpus.native().api.cuDeviceGetPCIBusId(
        id.data(), static_cast<int>(id.size()) - 1, gpus.context(link).physical().handle());
    if (result != device::kCudaSuccess) return std::nullopt;
    ids.push_back(topology::normal_pci_id(id.data()));
  }
  return ids;
}

// The part of a file's map that concerns these GPUs.
Result<LinkMap> read_map(const std::string& file, const Gpus& gpus) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return Error{ErrorCode::kIo, "it cannot be read"};
  std::string text;
  text.resize(kMapBytesMax);
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  CAUSEWAY_ASSIGN(const LinkMap map, transfer::read_link_map(text));
  const auto ids = ids_of(gpus);
  if (!ids) return unsupported("the driver does not say which of the machine's GPUs these are");
  return transfer::part_for(map, *ids, gpus_of_machine());
}

}  // namespace

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
    // A map that was found, and was not named by the user, is ignored silently.
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
      CAUSEWAY_DCHECK((way.best[target] & possible.reach[target]) == way.best[target],
                      "a map adds no link that this process cannot use");
    }
  }
  return facts;
}

}  // namespace causeway::preload
