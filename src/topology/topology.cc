#include "topology/topology.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <optional>

namespace causeway::topology {
namespace {

std::optional<unsigned> take_hex(std::string_view text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Status check_node(const Machine& machine, std::size_t index) {
  const Node& node = machine.nodes[index];
  const std::string where = "topology node " + std::to_string(index);
  if (index == 0) {
    if (node.kind == NodeKind::kMachine && node.parent == -1) return {};
    return corrupt(where + " must be the machine, without a parent");
  }
  if (node.kind == NodeKind::kMachine) return corrupt(where + " is a second machine");
  if (node.parent < 0 || static_cast<std::size_t>(node.parent) >= index) {
    return corrupt(where + " has parent " + std::to_string(node.parent) +
                   ", which does not come before it");
  }
  if (node.kind == NodeKind::kGpu && (node.index < 0 || node.index >= std::ssize(machine.gpus))) {
    return corrupt(where + " has the index of GPU " + std::to_string(node.index) +
                   ", which is not listed");
  }
  return {};
}

}  // namespace

std::string_view name_of(NodeKind kind) {
  switch (kind) {
    case NodeKind::kMachine: return "machine";
    case NodeKind::kPackage: return "package";
    case NodeKind::kNuma: return "numa";
    case NodeKind::kBridge: return "bridge";
    case NodeKind::kGpu: return "gpu";
  }
  return "?";
}

std::string_view name_of(MigState state) {
  switch (state) {
    case MigState::kUnknown: return "unknown";
    case MigState::kUnsupported: return "unsupported";
    case MigState::kNoPermission: return "no permission";
    case MigState::kDisabled: return "disabled";
    case MigState::kEnabled: return "enabled";
  }
  return "?";
}

double PcieLink::bytes_per_second() const {
  // Transfers per second and lane, less the encoding: 8b/10b up to generation 2, 128b/130b up to 5,
  // then 242 of the 256 bytes of a flit.
  constexpr std::array<double, 8> kTransfers = {0, 2.5e9, 5e9, 8e9, 16e9, 32e9, 64e9, 128e9};
  if (generation < 1 || generation > 7 || lanes < 1) return 0;
  const double coding = generation <= 2 ? 0.8 : generation <= 5 ? 128.0 / 130 : 242.0 / 256;
  return kTransfers[static_cast<std::size_t>(generation)] * coding * lanes / 8;
}

double NvLinks::bytes_per_second() const {
  constexpr std::array<double, 6> kPort = {0, 20e9, 25e9, 25e9, 25e9, 50e9};
  if (version < 1 || version >= std::ssize(kPort)) return 0;
  return kPort[static_cast<std::size_t>(version)] * active;
}

Status check(const Machine& machine) {
  if (machine.nodes.empty()) return corrupt("a topology has at least the machine");
  for (std::size_t i = 0; i < machine.nodes.size(); ++i) CAUSEWAY_TRY(check_node(machine, i));
  for (std::size_t g = 0; g < machine.gpus.size(); ++g) {
    for (const int peer : machine.gpus[g].peers) {
      if (peer >= 0 && peer < std::ssize(machine.gpus) && peer != static_cast<int>(g)) continue;
      return corrupt("GPU " + std::to_string(g) + " has peer " + std::to_string(peer) +
                     ", which is not another GPU of the machine");
    }
  }
  return {};
}

int node_of_gpu(const Machine& machine, int gpu) {
  for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
    const Node& node = machine.nodes[i];
    if (node.kind == NodeKind::kGpu && node.index == gpu) return static_cast<int>(i);
  }
  return -1;
}

std::string normal_pci_id(std::string_view id) {
  const auto part = [&](char separator) -> std::optional<unsigned> {
    const std::size_t end = id.rfind(separator);
    const std::size_t from = end == std::string_view::npos ? 0 : end + 1;
    const auto value = take_hex(id.substr(from));
    id = id.substr(0, end == std::string_view::npos ? 0 : end);
    return value;
  };
  if (id.size() > 32 || std::count(id.begin(), id.end(), ':') < 1) return "";
  const auto function = part('.');
  const auto device = part(':');
  const auto bus = part(':');
  const auto domain = id.empty() ? std::optional<unsigned>(0) : part(':');
  if (!function || !device || !bus || !domain || !id.empty()) return "";
  if (*function > 7 || *device > 31 || *bus > 255) return "";
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.%x", *domain, *bus, *device, *function);
  return text.data();
}

}  // namespace causeway::topology
