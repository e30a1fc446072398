#include "topology/topology.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "commands/command.h"
#include "device/cuda/cuda_machine.h"
#include "device/cuda/link_rates.h"
#include "this_machine.h"
#include "topology/render.h"
#include "topology/snapshot.h"
#include "transfer/device_prober.h"
#include "transfer/link_map_part.h"
#include "transfer_machine.h"

namespace causeway::app {
namespace {

using device::LinkRate;
using topology::Gpu;
using topology::Machine;

// Rates of the links, by the GPU's place in the topology.
struct Measured {
  std::vector<int> gpus;  // of each device
  device::MachineLinkRates rates;
};

int place_of(const Machine& machine, const std::string& pci_id, int otherwise) {
  for (std::size_t g = 0; g < machine.gpus.size(); ++g) {
    if (machine.gpus[g].pci_id == pci_id) return static_cast<int>(g);
  }
  return otherwise;
}

Result<Measured> measure(const Machine& machine, const Clock& clock) {
  const device::LinkRateOptions options;
  CAUSEWAY_ASSIGN(const device::CudaApi api, device::load_cuda_api());
  device::HostMemory memory;
  CAUSEWAY_ASSIGN(const auto cuda, device::CudaMachine::create(api, {}, clock, memory));
  Measured measured;
  std::vector<std::unique_ptr<device::Device>> devices;
  std::vector<device::Device*> pointers;
  for (int ordinal = 0; ordinal < cuda->gpus(); ++ordinal) {
    CAUSEWAY_ASSIGN(const device::CudaGpu gpu, cuda->describe(ordinal));
    measured.gpus.push_back(place_of(machine, topology::normal_pci_id(gpu.pci_id), ordinal));
    device::SliceSpec slice;
    slice.name = "gpu" + std::to_string(ordinal);
    slice.physical_device = ordinal;
    slice.arena_bytes = options.bytes * 2;
    CAUSEWAY_ASSIGN(auto opened, cuda->open(slice));
    pointers.push_back(opened.get());
    devices.push_back(std::move(opened));
  }
  CAUSEWAY_ASSIGN(measured.rates, device::measure_links(pointers, memory, options));
  return measured;
}

// The devices in the order in which a map counts GPUs.
Result<std::vector<device::Device*>> in_order_of_ids(const Machine& machine,
                                                     const TransferMachine& gpus) {
  std::vector<std::string> seen, all;
  for (int ordinal = 0; ordinal < gpus.cuda->gpus(); ++ordinal) {
    CAUSEWAY_ASSIGN(const device::CudaGpu gpu, gpus.cuda->describe(ordinal));
    seen.push_back(topology::normal_pci_id(gpu.pci_id));
  }
  for (const topology::Gpu& gpu : machine.gpus) {
    all.push_back(topology::normal_pci_id(gpu.pci_id));
  }
  auto order = transfer::order_for_map(seen, all);
  if (!order.ok()) {
    return invalid_argument(order.error().message + "; unset CUDA_VISIBLE_DEVICES");
  }
  std::vector<device::Device*> devices;
  for (const std::size_t index : *order) devices.push_back(gpus.pointers()[index]);
  return devices;
}

// Which links help each other, for transfers over all of them. Kept for programs that start later.
Result<transfer::LinkMap> measure_map(const Machine& machine, const std::string& folder,
                                      const Clock& clock) {
  const transfer::DeviceProberOptions options;
  CAUSEWAY_ASSIGN(
      const auto gpus,
      open_transfer_machine(
          {.arena_bytes = options.bytes * transfer::DeviceProber::kBuffers + mib(128)}, clock));
  CAUSEWAY_ASSIGN(const auto devices, in_order_of_ids(machine, *gpus));
  CAUSEWAY_ASSIGN(const auto prober,
                  transfer::DeviceProber::create(devices, gpus->memory, clock, options));
  CAUSEWAY_ASSIGN(auto map,
                  transfer::measure_link_map(transfer::machine_identity(machine), *prober));
  CAUSEWAY_TRY(transfer::save_link_map(folder, map));
  return map;
}

void print_map(const transfer::LinkMap& map, const std::string& folder) {
  fmt::print("\n{:<10} {:<32} {}\n", "GPU", "best links in", "best links out");
  const auto text = [&](int gpu, transfer::Direction direction) {
    const auto best = transfer::best_set(map, gpu, direction);
    return fmt::format("{} ({:.1f} GB/s)", transfer::text_of(best.links), best.rate * 1e-9);
  };
  for (int gpu = 0; gpu < map.links; ++gpu) {
    fmt::print("{:<10} {:<32} {}\n", gpu, text(gpu, transfer::Direction::kIn),
               text(gpu, transfer::Direction::kOut));
  }
  fmt::print("kept in {}\n", transfer::link_map_path(folder, map.machine));
}

// What the specification allows a link; 0: unknown.
double pcie_limit(const Machine& machine, int gpu) {
  if (gpu < 0 || gpu >= std::ssize(machine.gpus)) return 0;
  return machine.gpus[static_cast<std::size_t>(gpu)].pcie_max.bytes_per_second();
}

double peer_limit(const Machine& machine, int a, int b) {
  if (std::max(a, b) >= std::ssize(machine.gpus) || std::min(a, b) < 0) return 0;
  return std::min(machine.gpus[static_cast<std::size_t>(a)].nvlinks.bytes_per_second(),
                  machine.gpus[static_cast<std::size_t>(b)].nvlinks.bytes_per_second());
}

struct LinkRow {
  std::string link;
  LinkRate rate;
  double limit = 0;
};

std::vector<LinkRow> rows_of(const Machine& machine, const Measured& measured) {
  std::vector<LinkRow> rows;
  double sum = 0;
  for (std::size_t d = 0; d < measured.rates.devices.size(); ++d) {
    const int gpu = measured.gpus[d];
    const auto& rates = measured.rates.devices[d];
    const double limit = pcie_limit(machine, gpu);
    sum += limit;
    rows.push_back({fmt::format("host → GPU {}", gpu), rates.in, limit});
    rows.push_back({fmt::format("GPU {} → host", gpu), rates.out, limit});
    rows.push_back({fmt::format("host ⇄ GPU {}, sum", gpu), rates.both, 2 * limit});
  }
  if (measured.rates.devices.size() > 1) {
    rows.push_back({"host → all GPUs at once", measured.rates.all_in, sum});
    rows.push_back({"all GPUs → host at once", measured.rates.all_out, sum});
  }
  for (const auto& peer : measured.rates.peers) {
    const int source = measured.gpus[static_cast<std::size_t>(peer.source)];
    const int target = measured.gpus[static_cast<std::size_t>(peer.target)];
    const double limit = peer_limit(machine, source, target);
    rows.push_back({fmt::format("GPU {} → GPU {}", source, target), peer.one_way, limit});
    if (peer.source < peer.target) {
      rows.push_back({fmt::format("GPU {} ⇄ GPU {}, sum", source, target), peer.both, 2 * limit});
    }
  }
  return rows;
}

void print_rows(const std::vector<LinkRow>& rows) {
  fmt::print("\n{:<28} {:>14} {:>20} {:>12} {:>6}\n", "measured link", "median",
             "slowest – fastest", "by spec", "ratio");
  for (const LinkRow& row : rows) {
    const std::string spread =
        fmt::format("{:.1f} – {:.1f}", row.rate.low * 1e-9, row.rate.high * 1e-9);
    fmt::print("{:<28} {:>14} {:>20} {:>12} {:>6}\n", row.link,
               topology::rate_text(row.rate.median), spread, topology::rate_text(row.limit),
               row.limit > 0 ? fmt::format("{:.2f}", row.rate.median / row.limit) : "?");
  }
}

nlohmann::ordered_json json_of(const std::vector<LinkRow>& rows) {
  auto list = nlohmann::ordered_json::array();
  for (const LinkRow& row : rows) {
    list.push_back({{"link", row.link},
                    {"bytes_per_second", row.rate.median},
                    {"lowest", row.rate.low},
                    {"highest", row.rate.high},
                    {"by_specification", row.limit}});
  }
  return list;
}

class Topology final : public Command {
 public:
  Topology(Options& parent, const Clock& clock)
      : Command(parent, "topology",
                "Show this machine: CPUs, PCI, GPUs and NVLinks, with measured link rates"),
        clock_(clock) {
    options().add_flag("--json", json_, "print JSON, which --from reads");
    measure_option_ =
        options().add_flag("--measure,!--no-measure", measure_,
                           "measure the links of GPUs: about a second, and 512 MiB of GPU and host "
                           "memory for each (default: on); if given on the command line it also "
                           "measures sets of links, and keeps that link map for transfers");
    options()
        .add_option("--link-map-dir", link_map_folder_, "folder in which that link map is kept")
        .show_default();
    options()
        .add_option("--from", from_, "show a recorded topology instead of this machine's")
        .existing_file();
  }

  Status run() override {
    CAUSEWAY_ASSIGN(Machine machine,
                    from_.empty() ? look_at_machine() : topology::load_snapshot(from_));
    std::vector<LinkRow> rows;
    Status status;
    if (measure_ && from_.empty() && !machine.gpus.empty()) {
      const auto measured = measure(machine, clock_);
      if (measured.ok()) {
        rows = rows_of(machine, *measured);
      } else {
        status = measured.error().with_context("the links were not measured");
      }
      // GPUs that this process may not use (CUDA_VISIBLE_DEVICES) are no fault.
      if (!status.ok() && status.error().code == ErrorCode::kUnavailable) {
        machine.notes.push_back(status.error().message);
        status = Status();
      }
    }
    json_ ? print_json(machine, rows) : print_text(machine, rows);
    CAUSEWAY_TRY(status);
    if (rows.empty() || measure_option_.count() == 0) return {};
    CAUSEWAY_ASSIGN(const transfer::LinkMap map, measure_map(machine, link_map_folder_, clock_));
    if (!json_) print_map(map, link_map_folder_);
    return {};
  }

 private:
  static void print_text(const Machine& machine, const std::vector<LinkRow>& rows) {
    fmt::print("{}", topology::render_tree(machine));
    const std::string gpus = topology::render_gpus(machine);
    if (!gpus.empty()) fmt::print("\n{}", gpus);
    if (!rows.empty()) print_rows(rows);
    const std::string notes = topology::render_notes(machine);
    if (!notes.empty()) fmt::print("\n{}", notes);
  }

  static void print_json(const Machine& machine, const std::vector<LinkRow>& rows) {
    auto document = nlohmann::ordered_json::parse(topology::write_snapshot(machine));
    if (!rows.empty()) document["measured_links"] = json_of(rows);
    fmt::print("{}\n", document.dump(1));
  }

  const Clock& clock_;
  bool json_ = false;
  bool measure_ = true;
  Option measure_option_{nullptr};
  std::string link_map_folder_ = default_cache_folder();
  std::string from_;
};

}  // namespace

std::unique_ptr<Command> make_topology(Options& parent, const Clock& clock) {
  return std::make_unique<Topology>(parent, clock);
}

}  // namespace causeway::app
