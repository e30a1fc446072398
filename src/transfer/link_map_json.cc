// Link maps as JSON, and the cache of them. What is read may come from anywhere.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/json_numbers.h"
#include "transfer/link_map.h"

namespace causeway::transfer {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kBytesMax = 1 << 20;
constexpr int kDepthMax = 8;
constexpr std::size_t kSetsMax = 8'192;
constexpr std::size_t kNameMax = 128;

Json links_json(LinkSet links) {
  auto list = Json::array();
  for (int link = 0; link < kLinksMax; ++link) {
    if (links.has(link)) list.push_back(link);
  }
  return list;
}

Json way_json(const LinkMap& map, Direction direction) {
  auto own = Json::array();
  for (const SetRate& set : map.own[index_of(direction)]) {
    own.push_back({{"links", links_json(set.links)}, {"rate", set.rate}});
  }
  auto relayed = Json::array();
  for (const RelayRate& set : map.relayed[index_of(direction)]) {
    relayed.push_back(
        {{"target", set.target}, {"links", links_json(set.links)}, {"rate", set.rate}});
  }
  return {{"own", own}, {"relayed", relayed}};
}

bool too_deep(std::string_view text) {
  int depth = 0;
  for (const char c : text) {
    // Brackets in strings count too; no name in a map contains any.
    if ((c == '[' || c == '{') && ++depth > kDepthMax) return true;
    if (c == ']' || c == '}') --depth;
  }
  return false;
}

Error wrong(const std::string& what) { return corrupt("link map: " + what); }

Result<const Json*> field(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  if (!object.is_object() || found == object.end()) return wrong(std::string(name) + " is missing");
  return &*found;
}

Result<int> small(const Json& json, const char* name, int most) {
  if (!json.is_number_integer() || json < 0 || json > most) {
    return wrong(std::string(name) + " is no number up to " + std::to_string(most));
  }
  return json.get<int>();
}

Result<int> small_field(const Json& object, const char* name, int most) {
  CAUSEWAY_ASSIGN(const Json* json, field(object, name));
  return small(*json, name, most);
}

Result<double> rate_field(const Json& object, const char* name) {
  CAUSEWAY_ASSIGN(const Json* json, field(object, name));
  if (!json->is_number()) return wrong(std::string(name) + " is no number");
  return json->get<double>();
}

Result<const Json*> list_field(const Json& object, const char* name, std::size_t most) {
  CAUSEWAY_ASSIGN(const Json* json, field(object, name));
  if (!json->is_array() || json->size() > most) {
    return wrong(std::string(name) + " is no list, or too long");
  }
  return json;
}

Result<LinkSet> links_field(const Json& object) {
  CAUSEWAY_ASSIGN(const Json* list, list_field(object, "links", kLinksMax));
  LinkSet links;
  for (const Json& entry : *list) {
    CAUSEWAY_ASSIGN(const int link, small(entry, "links", kLinksMax - 1));
    links = links.with(link);
  }
  return links;
}

Status read_way(const Json& json, std::vector<SetRate>& own, std::vector<RelayRate>& relayed) {
  CAUSEWAY_ASSIGN(const Json* own_list, list_field(json, "own", kSetsMax));
  for (const Json& entry : *own_list) {
    CAUSEWAY_ASSIGN(const LinkSet links, links_field(entry));
    CAUSEWAY_ASSIGN(const double rate, rate_field(entry, "rate"));
    own.push_back({links, rate});
  }
  CAUSEWAY_ASSIGN(const Json* relayed_list, list_field(json, "relayed", kSetsMax));
  for (const Json& entry : *relayed_list) {
    CAUSEWAY_ASSIGN(const int target, small_field(entry, "target", kLinksMax - 1));
    CAUSEWAY_ASSIGN(const LinkSet links, links_field(entry));
    CAUSEWAY_ASSIGN(const double rate, rate_field(entry, "rate"));
    relayed.push_back({target, links, rate});
  }
  return {};
}

Status read_fields(const Json& json, LinkMap& map) {
  CAUSEWAY_ASSIGN(const Json* machine, field(json, "machine"));
  if (!machine->is_string() || machine->get_ref<const std::string&>().size() > kNameMax) {
    return wrong("machine is no name");
  }
  map.machine = machine->get<std::string>();
  CAUSEWAY_ASSIGN(map.links, small_field(json, "links", kLinksMax));
  for (const Direction direction : kBothDirections) {
    const std::string name(name_of(direction));
    CAUSEWAY_ASSIGN(const Json* way, field(json, name.c_str()));
    const std::size_t d = index_of(direction);
    CAUSEWAY_TRY(read_way(*way, map.own[d], map.relayed[d]).with_context(name));
  }
  CAUSEWAY_ASSIGN(const Json* duplex, list_field(json, "duplex", kLinksMax));
  for (const Json& rate : *duplex) {
    if (!rate.is_number()) return wrong("duplex has an entry that is no number");
    map.duplex.push_back(rate.get<double>());
  }
  CAUSEWAY_ASSIGN(const Json* peers, list_field(json, "peers", kLinksMax * kLinksMax));
  for (const Json& entry : *peers) {
    PeerRate peer;
    CAUSEWAY_ASSIGN(peer.source, small_field(entry, "source", kLinksMax - 1));
    CAUSEWAY_ASSIGN(peer.target, small_field(entry, "target", kLinksMax - 1));
    CAUSEWAY_ASSIGN(peer.rate, rate_field(entry, "rate"));
    map.peers.push_back(peer);
  }
  return {};
}

Status write_all(int file, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return io_error("cannot write '" + path + "'", errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::fsync(file) != 0) return io_error("cannot write '" + path + "'", errno);
  return {};
}

}  // namespace

std::string write_link_map(const LinkMap& map) {
  auto peers = Json::array();
  for (const PeerRate& peer : map.peers) {
    peers.push_back({{"source", peer.source}, {"target", peer.target}, {"rate", peer.rate}});
  }
  const Json json = {{"causeway_link_map", kLinkMapVersion},
                     {"machine", map.machine},
                     {"links", map.links},
                     {"in", way_json(map, Direction::kIn)},
                     {"out", way_json(map, Direction::kOut)},
                     {"duplex", map.duplex},
                     {"peers", peers}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<LinkMap> read_link_map(std::string_view text) {
  if (text.size() > kBytesMax) return wrong("larger than 1 MiB");
  if (too_deep(text)) return wrong("nested too deep");
  std::string buffer;
  const Json json = Json::parse(plain_json_numbers(text, buffer), nullptr, false);
  if (json.is_discarded()) return wrong("no valid JSON");
  CAUSEWAY_ASSIGN(const int version, small_field(json, "causeway_link_map", 1 << 30));
  if (version > kLinkMapVersion) {
    return unsupported("link map: version " + std::to_string(version) +
                       "; this program reads up to " + std::to_string(kLinkMapVersion));
  }
  LinkMap map;
  CAUSEWAY_TRY(read_fields(json, map));
  CAUSEWAY_TRY(check(map));
  return map;
}

std::string link_map_path(const std::string& folder, const std::string& machine) {
  return folder + "/links-" + machine + ".json";
}

Result<LinkMap> load_link_map(const std::string& folder, const std::string& machine) {
  const std::string path = link_map_path(folder, machine);
  std::ifstream file(path, std::ios::binary);
  if (!file) return not_found("no link map '" + path + "': the links have not been measured");
  std::string text(kBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  auto map = read_link_map(text);
  if (!map.ok()) return map.error().with_context("'" + path + "'");
  if (map->machine != machine) {
    return corrupt("'" + path + "' is the link map of another machine; measure again");
  }
  return map;
}

Status save_link_map(const std::string& folder, const LinkMap& map) {
  CAUSEWAY_TRY(check(map));
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) return io_error("cannot make '" + folder + "'", failure.value());
  const std::string path = link_map_path(folder, map.machine);
  const std::string part = path + "." + std::to_string(::getpid()) + ".part";
  const int file = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return io_error("cannot write '" + part + "'", errno);
  const Status written = write_all(file, write_link_map(map), part);
  ::close(file);
  if (written.ok() && std::rename(part.c_str(), path.c_str()) == 0) return {};
  const int why = errno;
  ::unlink(part.c_str());
  return written.ok() ? io_error("cannot replace '" + path + "'", why) : written;
}

}  // namespace causeway::transfer
