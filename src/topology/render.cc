#include "topology/render.h"

#include <fmt/format.h>

#include <algorithm>

namespace causeway::topology {
namespace {

std::string describe(const Machine& machine, const Node& node) {
  const std::string cpus = node.cpus.empty() ? "" : ", CPUs " + node.cpus;
  switch (node.kind) {
    case NodeKind::kMachine: return "machine";
    case NodeKind::kPackage:
      return fmt::format("package {} ({}{})", node.index,
                         node.name.empty() ? "unknown processor" : node.name, cpus);
    case NodeKind::kNuma:
      return fmt::format("NUMA node {} ({}{})", node.index, size_text(node.memory), cpus);
    case NodeKind::kBridge:
      return node.name.empty() ? "PCI host bridge" : "PCI bridge " + node.name;
    case NodeKind::kGpu: {
      const Gpu& gpu = machine.gpus[static_cast<std::size_t>(node.index)];
      std::string peers;
      for (const int peer : gpu.peers) peers += (peers.empty() ? "" : ", ") + std::to_string(peer);
      if (!peers.empty()) {
        peers =
            fmt::format(", NVLink {} to GPU {}", rate_text(gpu.nvlinks.bytes_per_second()), peers);
      }
      return fmt::format("GPU {} ({} at {}{})", node.index, gpu.name, gpu.pci_id, peers);
    }
  }
  return "?";
}

void render_below(const Machine& machine, int parent, const std::string& indent,
                  std::string& text) {
  std::vector<int> children;
  for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
    if (machine.nodes[i].parent == parent) children.push_back(static_cast<int>(i));
  }
  for (const int child : children) {
    const bool last = child == children.back();
    text += indent + (last ? "└─ " : "├─ ") +
            describe(machine, machine.nodes[static_cast<std::size_t>(child)]) + "\n";
    // Bounds what a hostile snapshot could nest.
    if (indent.size() < 256) render_below(machine, child, indent + (last ? "   " : "│  "), text);
  }
}

std::string pcie_text(const PcieLink& link) {
  if (link.generation == 0 || link.lanes == 0) return "?";
  return fmt::format("{} x{}", link.generation, link.lanes);
}

std::string mig_text(const Gpu& gpu) {
  if (gpu.mig_instances.empty()) return std::string(name_of(gpu.mig));
  return fmt::format("{} instances", gpu.mig_instances.size());
}

}  // namespace

std::string rate_text(double bytes_per_second) {
  return bytes_per_second > 0 ? fmt::format("{:.1f} GB/s", bytes_per_second * 1e-9) : "?";
}

std::string size_text(Bytes bytes) {
  if (bytes.count <= 0) return "? memory";
  const double mebi = static_cast<double>(bytes.count) / (1 << 20);
  if (mebi < 8192) return fmt::format("{:.0f} MiB", mebi);
  return fmt::format("{:.1f} GiB", mebi / 1024);
}

std::string render_tree(const Machine& machine) {
  std::string text = fmt::format("CPUs     {} cores, {} threads, {} usable by this process",
                                 machine.cores, machine.cpus, machine.cpus_usable);
  if (machine.cpu_quota > 0) {
    text += fmt::format(" for {:.3g} CPUs' worth of time", machine.cpu_quota);
  }
  text +=
      fmt::format("\nmemory   {}, {} available to this process (by {})\n",
                  size_text(machine.memory), size_text(machine.memory_available),
                  machine.memory_limited_by.empty() ? "no known limit" : machine.memory_limited_by);
  if (!machine.driver.empty()) {
    text += fmt::format("driver   NVIDIA {}, CUDA {}.{}\n", machine.driver, machine.cuda / 1000,
                        machine.cuda % 1000 / 10);
  }
  text += "\n" + (machine.nodes.empty() ? "" : describe(machine, machine.nodes[0])) + "\n";
  render_below(machine, 0, "", text);
  return text;
}

std::string render_gpus(const Machine& machine) {
  if (machine.gpus.empty()) return "";
  std::string text = fmt::format(
      "{:<4} {:<24} {:>10} {:>4} {:>5} {:>9} {:>9} {:>12} {:>5} {:>10} {}\n", "GPU", "name",
      "memory", "SMs", "sm_", "PCIe now", "PCIe max", "by spec", "NUMA", "NVLinks", "MIG");
  for (std::size_t g = 0; g < machine.gpus.size(); ++g) {
    const Gpu& gpu = machine.gpus[g];
    const NvLinks& links = gpu.nvlinks;
    text += fmt::format(
        "{:<4} {:<24} {:>10} {:>4} {:>5} {:>9} {:>9} {:>12} {:>5} {:>10} {}\n", g, gpu.name,
        size_text(gpu.memory), gpu.sms > 0 ? std::to_string(gpu.sms) : "?",
        gpu.compute > 0 ? std::to_string(gpu.compute) : "?", pcie_text(gpu.pcie_now),
        pcie_text(gpu.pcie_max), rate_text(gpu.pcie_max.bytes_per_second()),
        gpu.numa >= 0 ? std::to_string(gpu.numa) : "?",
        links.active > 0 ? fmt::format("{} of v{}", links.active, links.version) : "none",
        mig_text(gpu));
    for (const MigInstance& instance : gpu.mig_instances) {
      text += fmt::format("     MIG {}/{}: {} SMs, {}\n", instance.gpu_instance,
                          instance.compute_instance, instance.sms, size_text(instance.memory));
    }
  }
  return text;
}

std::string render_notes(const Machine& machine) {
  std::string text;
  for (const std::string& note : machine.notes) text += "note: " + note + "\n";
  return text;
}

}  // namespace causeway::topology
