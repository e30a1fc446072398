#include "topology/discover.h"

#include <hwloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <utility>

namespace causeway::topology {
namespace {

constexpr unsigned kNvidia = 0x10de;
constexpr unsigned kDisplayClass = 0x03;  // VGA and 3D controllers

struct Unload {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Hwloc = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, Unload>;
using Cpus = std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)>;

Result<Hwloc> load_hwloc(const std::string& xml) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) {
    return Error{ErrorCode::kIo, "hwloc does not start: out of memory"};
  }
  Hwloc topology(raw);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_BRIDGE, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (!xml.empty() &&
      hwloc_topology_set_xmlbuffer(raw, xml.c_str(), static_cast<int>(xml.size()) + 1) != 0) {
    return corrupt("hwloc does not understand the description of the machine");
  }
  if (hwloc_topology_load(raw) != 0) {
    return Error{ErrorCode::kIo, "hwloc cannot read this machine's topology"};
  }
  return topology;
}

// The CPUs that this process may use, by its control groups and by the affinity of the calling
// thread, which threads that it starts inherit. A machine that is only described has no affinity,
// and neither has one whose system does not tell. nullptr: out of memory.
Cpus usable_cpus(hwloc_topology_t topology) {
  Cpus usable(hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology)), hwloc_bitmap_free);
  const Cpus bound(hwloc_bitmap_alloc(), hwloc_bitmap_free);
  if (usable == nullptr || bound == nullptr) return usable;
  if (hwloc_get_cpubind(topology, bound.get(), HWLOC_CPUBIND_THREAD) == 0) {
    hwloc_bitmap_and(usable.get(), usable.get(), bound.get());
  }
  return usable;
}

std::string list_of(hwloc_const_bitmap_t set) {
  char* text = nullptr;
  if (hwloc_bitmap_list_asprintf(&text, set) < 0 || text == nullptr) return "";
  const std::unique_ptr<char, decltype(&std::free)> owner(text, std::free);
  return text;
}

std::string bus_id(const decltype(hwloc_obj_attr_u::pcidev)& pci) {
  char text[40];
  std::snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", static_cast<unsigned>(pci.domain), pci.bus,
                pci.dev, pci.func);
  return text;
}

bool is_gpu(hwloc_obj_t object) {
  return object->type == HWLOC_OBJ_PCI_DEVICE && object->attr->pcidev.vendor_id == kNvidia &&
         object->attr->pcidev.class_id >> 8 == kDisplayClass;
}

// Turns hwloc's objects into nodes of the machine.
class Builder {
 public:
  Builder(hwloc_topology_t topology, Machine& machine)
      : topology_(topology), machine_(machine), usable_(usable_cpus(topology)) {}

  void build() {
    hwloc_obj_t root = hwloc_get_root_obj(topology_);
    add(NodeKind::kMachine, -1);
    machine_.memory = Bytes(static_cast<std::int64_t>(root->total_memory));
    machine_.cores = std::max(0, hwloc_get_nbobjs_by_type(topology_, HWLOC_OBJ_CORE));
    machine_.cpus = std::max(0, hwloc_bitmap_weight(root->complete_cpuset));
    if (usable_ != nullptr) {
      machine_.cpus_usable = std::max(0, hwloc_bitmap_weight(usable_.get()));
    }
    add_cpus(root, 0, 0);
    add_devices(root, 0);
    add_strays();
  }

 private:
  static constexpr int kDepthMax = 256;

  int add(NodeKind kind, int parent) {
    Node node;
    node.kind = kind;
    node.parent = parent;
    machine_.nodes.push_back(std::move(node));
    return static_cast<int>(machine_.nodes.size()) - 1;
  }
  Node& node(int index) { return machine_.nodes[static_cast<std::size_t>(index)]; }

  std::string usable(hwloc_obj_t object) {
    const Cpus set(hwloc_bitmap_alloc(), hwloc_bitmap_free);
    if (object->cpuset == nullptr || usable_ == nullptr || set == nullptr) return "";
    hwloc_bitmap_and(set.get(), object->cpuset, usable_.get());
    return list_of(set.get());
  }

  void add_cpus(hwloc_obj_t object, int parent, int depth) {
    if (depth > kDepthMax) return;
    int here = parent;
    if (object->type == HWLOC_OBJ_PACKAGE) {
      here = add(NodeKind::kPackage, parent);
      const char* model = hwloc_obj_get_info_by_name(object, "CPUModel");
      node(here).name = model == nullptr ? "" : model;
      node(here).index = static_cast<int>(object->os_index);
      node(here).cpus = usable(object);
    }
    packages_[object] = here;
    for (hwloc_obj_t memory = object->memory_first_child; memory != nullptr;
         memory = memory->next_sibling) {
      if (memory->type != HWLOC_OBJ_NUMANODE) continue;
      const int numa = add(NodeKind::kNuma, here);
      node(numa).index = static_cast<int>(memory->os_index);
      node(numa).cpus = usable(memory);
      node(numa).memory = Bytes(static_cast<std::int64_t>(memory->attr->numanode.local_memory));
      numas_[static_cast<int>(memory->os_index)] = numa;
    }
    for (unsigned i = 0; i < object->arity; ++i) add_cpus(object->children[i], here, depth + 1);
  }

  // The one NUMA node that an object is close to; -1 when there are several or none.
  static int numa_of(hwloc_obj_t object) {
    while (object != nullptr && object->nodeset == nullptr) object = object->parent;
    if (object == nullptr || hwloc_bitmap_weight(object->nodeset) != 1) return -1;
    return hwloc_bitmap_first(object->nodeset);
  }

  void add_devices(hwloc_obj_t object, int depth) {
    if (depth > kDepthMax) return;
    for (hwloc_obj_t device = object->io_first_child; device != nullptr;
         device = device->next_sibling) {
      const auto numa = numas_.find(numa_of(object));
      add_device(device, numa == numas_.end() ? packages_[object] : numa->second, depth);
    }
    for (unsigned i = 0; i < object->arity; ++i) add_devices(object->children[i], depth + 1);
  }

  static bool leads_to_gpu(hwloc_obj_t object, int depth) {
    if (is_gpu(object)) return true;
    if (depth > kDepthMax) return false;
    for (hwloc_obj_t child = object->io_first_child; child != nullptr;
         child = child->next_sibling) {
      if (leads_to_gpu(child, depth + 1)) return true;
    }
    return false;
  }

  void add_device(hwloc_obj_t object, int parent, int depth) {
    if (depth > kDepthMax || !leads_to_gpu(object, 0)) return;
    if (is_gpu(object)) return add_gpu(object, parent);
    const int here = add(NodeKind::kBridge, parent);
    if (object->type == HWLOC_OBJ_BRIDGE &&
        object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI) {
      node(here).name = bus_id(object->attr->bridge.upstream.pci);
    }
    for (hwloc_obj_t child = object->io_first_child; child != nullptr;
         child = child->next_sibling) {
      add_device(child, here, depth + 1);
    }
  }

  void add_gpu(hwloc_obj_t object, int parent) {
    const std::string id = bus_id(object->attr->pcidev);
    const auto found = std::find_if(machine_.gpus.begin(), machine_.gpus.end(),
                                    [&](const Gpu& gpu) { return gpu.pci_id == id; });
    if (found == machine_.gpus.end()) {
      unmanaged_.push_back(id);
      return;
    }
    const int here = add(NodeKind::kGpu, parent);
    node(here).index = static_cast<int>(found - machine_.gpus.begin());
    found->numa = numa_of(object);
  }

  // Adds what only one of the two sources knows.
  void add_strays() {
    for (std::size_t g = 0; g < machine_.gpus.size(); ++g) {
      if (node_of_gpu(machine_, static_cast<int>(g)) >= 0) continue;
      const int here = add(NodeKind::kGpu, 0);
      node(here).index = static_cast<int>(g);
      machine_.notes.push_back("GPU " + std::to_string(g) + " at " + machine_.gpus[g].pci_id +
                               " is not among the PCI devices that the system shows, so what it " +
                               "hangs behind is unknown");
    }
    for (const std::string& id : unmanaged_) {
      machine_.notes.push_back("an NVIDIA GPU at " + id + " is on the bus, but the driver does " +
                               "not offer it to this process");
    }
  }

  hwloc_topology_t topology_;
  Machine& machine_;
  const Cpus usable_;                    // by this process
  std::map<hwloc_obj_t, int> packages_;  // the node that stands for an object or what it is in
  std::map<int, int> numas_;             // by the system's number
  std::vector<std::string> unmanaged_;
};

}  // namespace

Result<Machine> discover(const DiscoverOptions& options) {
  Machine machine;
  if (options.nvml == nullptr) {
    machine.notes.push_back(options.no_nvml_because.empty() ? "GPUs were not looked for"
                                                            : "no GPU: " + options.no_nvml_because);
  } else if (const Status read = read_gpus(*options.nvml, machine); !read.ok()) {
    machine.notes.push_back("no GPU: " + read.error().message);
  } else if (machine.gpus.empty()) {
    machine.notes.push_back("no GPU: the NVIDIA driver lists none");
  }
  CAUSEWAY_ASSIGN(const Hwloc topology, load_hwloc(options.hwloc_xml));
  Builder(topology.get(), machine).build();
  machine.cpu_quota = read_cpu_quota(options.proc, options.cgroup);
  machine.memory_available = options.memory_available;
  // A virtual machine's memory may grow while it is used, before its NUMA nodes show that.
  machine.memory = std::max(machine.memory, options.memory_available);
  machine.memory_limited_by = options.memory_limited_by;
  CAUSEWAY_TRY(check(machine));
  return machine;
}

}  // namespace causeway::topology
