#include "topology/snapshot.h"

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "base/json_numbers.h"

namespace causeway::topology {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kBytesMax = 4 << 20;
constexpr int kDepthMax = 16;
constexpr std::size_t kNodesMax = 16'384;
constexpr std::size_t kGpusReadMax = 1'024;
constexpr std::size_t kListMax = 1'024;
constexpr std::size_t kStringMax = 512;
// Bounds the text of a list of CPUs: where they alternate between nodes each CPU is named, 384 in
// 712 bytes.
constexpr std::size_t kCpusMax = 8'192;
constexpr std::int64_t kIntMax = 1 << 30;

constexpr std::initializer_list<NodeKind> kNodeKinds = {
    NodeKind::kMachine, NodeKind::kPackage, NodeKind::kNuma, NodeKind::kBridge, NodeKind::kGpu};
constexpr std::initializer_list<MigState> kMigStates = {MigState::kUnknown, MigState::kUnsupported,
                                                        MigState::kNoPermission,
                                                        MigState::kDisabled, MigState::kEnabled};

Json pcie_json(const PcieLink& link) {
  return {{"generation", link.generation}, {"lanes", link.lanes}};
}

Json gpu_json(const Gpu& gpu) {
  auto instances = Json::array();
  for (const MigInstance& instance : gpu.mig_instances) {
    instances.push_back({{"gpu_instance", instance.gpu_instance},
                         {"compute_instance", instance.compute_instance},
                         {"sms", instance.sms},
                         {"memory", instance.memory.count}});
  }
  return {{"name", gpu.name},
          {"pci_id", gpu.pci_id},
          {"memory", gpu.memory.count},
          {"sms", gpu.sms},
          {"compute", gpu.compute},
          {"numa", gpu.numa},
          {"pcie_now", pcie_json(gpu.pcie_now)},
          {"pcie_max", pcie_json(gpu.pcie_max)},
          {"nvlinks",
           {{"version", gpu.nvlinks.version},
            {"active", gpu.nvlinks.active},
            {"to_switch", gpu.nvlinks.to_switch}}},
          {"peers", gpu.peers},
          {"mig", name_of(gpu.mig)},
          {"mig_instances", instances}};
}

Json node_json(const Node& node) {
  Json json = {{"kind", name_of(node.kind)}, {"parent", node.parent}};
  if (!node.name.empty()) json["name"] = node.name;
  if (node.index >= 0) json["index"] = node.index;
  if (!node.cpus.empty()) json["cpus"] = node.cpus;
  if (node.memory.count > 0) json["memory"] = node.memory.count;
  return json;
}

// Rejects deep nesting before the parser builds a tree of it.
bool too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDepthMax) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

// Reads the fields of an object, and remembers the first wrong one with its path.
class Reader {
 public:
  Reader(const Json& json, std::string where, Status& status)
      : json_(json), where_(std::move(where)), status_(status) {
    if (!json_.is_object()) fail("", "is no object");
  }

  std::int64_t integer(const char* key, std::int64_t least, std::int64_t most,
                       std::int64_t otherwise) {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_number_integer()) return fail(key, "is no integer"), otherwise;
    // Unsigned numbers beyond int64 would wrap around.
    if (value->is_number_unsigned() &&
        value->get<std::uint64_t>() > static_cast<std::uint64_t>(most)) {
      return fail(key, "is too large"), otherwise;
    }
    const auto number = value->get<std::int64_t>();
    if (number < least || number > most) return fail(key, "is out of range"), otherwise;
    return number;
  }
  int small(const char* key, int least = 0) {
    return static_cast<int>(integer(key, least, kIntMax, least));
  }
  Bytes bytes(const char* key) { return Bytes(integer(key, 0, std::int64_t{1} << 60, 0)); }
  double number(const char* key) {
    const Json* value = find(key);
    if (value == nullptr) return 0;
    if (!value->is_number()) return fail(key, "is no number"), 0;
    const double number = value->get<double>();
    if (!(number >= 0 && number < 1e12)) return fail(key, "is out of range"), 0;
    return number;
  }
  std::string text(const char* key, std::size_t most = kStringMax) {
    const Json* value = find(key);
    if (value == nullptr) return "";
    return text_of(*value, key, most);
  }
  std::string text_of(const Json& value, const char* key, std::size_t most = kStringMax) {
    if (!value.is_string()) return fail(key, "is no string"), "";
    const auto& string = value.get_ref<const std::string&>();
    const bool plain = std::none_of(string.begin(), string.end(), [](char c) {
      return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    });
    if (string.size() > most || !plain) {
      return fail(key, "is too long or has control characters"), "";
    }
    return string;
  }
  // Returns an empty array when the field is absent.
  const Json& list(const char* key, std::size_t most) {
    static const Json kNone = Json::array();
    const Json* value = find(key);
    if (value == nullptr) return kNone;
    if (!value->is_array() || value->size() > most) {
      return fail(key, "is no list, or too long"), kNone;
    }
    return *value;
  }
  const Json* find(const char* key) {
    if (!json_.is_object()) return nullptr;
    const auto found = json_.find(key);
    return found == json_.end() ? nullptr : &*found;
  }
  template <typename Kind>
  Kind kind(const char* key, std::initializer_list<Kind> kinds) {
    const std::string name = text(key);
    for (const Kind kind : kinds) {
      if (name_of(kind) == name) return kind;
    }
    fail(key, "is unknown: '" + name + "'");
    return *kinds.begin();
  }
  void fail(const std::string& key, const std::string& what) {
    if (!status_.ok()) return;
    status_ = corrupt("topology snapshot: " + where_ + (key.empty() ? "" : "." + key) + " " + what);
  }

 private:
  const Json& json_;
  const std::string where_;
  Status& status_;
};

PcieLink read_pcie(Reader& parent, const char* key, const std::string& where, Status& status) {
  const Json* json = parent.find(key);
  if (json == nullptr) return {};
  Reader reader(*json, where + "." + key, status);
  PcieLink link;
  link.generation = reader.small("generation");
  link.lanes = reader.small("lanes");
  return link;
}

Gpu read_gpu(const Json& json, const std::string& where, Status& status) {
  Reader reader(json, where, status);
  Gpu gpu;
  gpu.name = reader.text("name");
  gpu.pci_id = reader.text("pci_id");
  gpu.memory = reader.bytes("memory");
  gpu.sms = reader.small("sms");
  gpu.compute = reader.small("compute");
  gpu.numa = reader.small("numa", -1);
  gpu.pcie_now = read_pcie(reader, "pcie_now", where, status);
  gpu.pcie_max = read_pcie(reader, "pcie_max", where, status);
  if (const Json* links = reader.find("nvlinks")) {
    Reader nvlinks(*links, where + ".nvlinks", status);
    gpu.nvlinks.version = nvlinks.small("version");
    gpu.nvlinks.active = nvlinks.small("active");
    gpu.nvlinks.to_switch = nvlinks.small("to_switch");
  }
  for (const Json& peer : reader.list("peers", kGpusReadMax)) {
    if (!peer.is_number_integer() || peer < 0 || peer > kGpusReadMax) {
      reader.fail("peers", "has an entry that is no GPU");
      break;
    }
    gpu.peers.push_back(peer.get<int>());
  }
  gpu.mig = reader.kind("mig", kMigStates);
  for (const Json& entry : reader.list("mig_instances", kListMax)) {
    Reader one(entry, where + ".mig_instances", status);
    gpu.mig_instances.push_back({one.small("gpu_instance"), one.small("compute_instance"),
                                 one.small("sms"), one.bytes("memory")});
  }
  return gpu;
}

Node read_node(const Json& json, const std::string& where, Status& status) {
  Reader reader(json, where, status);
  Node node;
  node.kind = reader.kind("kind", kNodeKinds);
  node.parent = reader.small("parent", -1);
  node.name = reader.text("name");
  node.index = reader.small("index", -1);
  node.cpus = reader.text("cpus", kCpusMax);
  node.memory = reader.bytes("memory");
  return node;
}

void read_machine(Reader& reader, Machine& machine, Status& status) {
  machine.cores = reader.small("cores");
  machine.cpus = reader.small("cpus");
  machine.cpus_usable = reader.small("cpus_usable");
  machine.cpu_quota = reader.number("cpu_quota");
  machine.memory = reader.bytes("memory");
  machine.memory_available = reader.bytes("memory_available");
  machine.memory_limited_by = reader.text("memory_limited_by");
  machine.driver = reader.text("driver");
  machine.cuda = reader.small("cuda");
  for (const Json& node : reader.list("nodes", kNodesMax)) {
    const std::string where = "nodes[" + std::to_string(machine.nodes.size()) + "]";
    machine.nodes.push_back(read_node(node, where, status));
    if (!status.ok()) return;
  }
  for (const Json& gpu : reader.list("gpus", kGpusReadMax)) {
    const std::string where = "gpus[" + std::to_string(machine.gpus.size()) + "]";
    machine.gpus.push_back(read_gpu(gpu, where, status));
    if (!status.ok()) return;
  }
  for (const Json& note : reader.list("notes", kListMax)) {
    machine.notes.push_back(reader.text_of(note, "notes"));
  }
}

}  // namespace

std::string write_snapshot(const Machine& machine) {
  auto nodes = Json::array();
  for (const Node& node : machine.nodes) nodes.push_back(node_json(node));
  auto gpus = Json::array();
  for (const Gpu& gpu : machine.gpus) gpus.push_back(gpu_json(gpu));
  const Json json = {{"causeway_topology", kSnapshotVersion},
                     {"cores", machine.cores},
                     {"cpus", machine.cpus},
                     {"cpus_usable", machine.cpus_usable},
                     {"cpu_quota", machine.cpu_quota},
                     {"memory", machine.memory.count},
                     {"memory_available", machine.memory_available.count},
                     {"memory_limited_by", machine.memory_limited_by},
                     {"driver", machine.driver},
                     {"cuda", machine.cuda},
                     {"nodes", nodes},
                     {"gpus", gpus},
                     {"notes", machine.notes}};
  // Names come from the system, which does not promise valid UTF-8.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Machine> read_snapshot(std::string_view text) {
  if (text.size() > kBytesMax) return corrupt("topology snapshot: larger than 4 MiB");
  if (too_deep(text)) return corrupt("topology snapshot: nested too deep");
  std::string buffer;
  const Json json = Json::parse(plain_json_numbers(text, buffer), nullptr, false);
  if (json.is_discarded()) return corrupt("topology snapshot: no valid JSON");
  Status status;
  Reader reader(json, "file", status);
  const std::int64_t version = reader.integer("causeway_topology", 1, kIntMax, 0);
  CAUSEWAY_TRY(status);
  if (version == 0) return corrupt("topology snapshot: file.causeway_topology is missing");
  if (version > kSnapshotVersion) {
    return unsupported("topology snapshot: version " + std::to_string(version) +
                       "; this program reads up to " + std::to_string(kSnapshotVersion));
  }
  Machine machine;
  read_machine(reader, machine, status);
  CAUSEWAY_TRY(status);
  CAUSEWAY_TRY(check(machine));
  return machine;
}

Result<Machine> load_snapshot(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{ErrorCode::kIo, "cannot read topology snapshot '" + path + "'"};
  std::string text(kBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return read_snapshot(text).with_context("'" + path + "'");
}

}  // namespace causeway::topology
