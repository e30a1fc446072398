#include "transfer_machine.h"

#include "device/link_profile.h"

namespace causeway::app {
namespace {

Status open_gpus(TransferMachine& machine, Bytes arena, const Clock& clock) {
  CAUSEWAY_ASSIGN(const device::CudaApi api, device::load_cuda_api());
  CAUSEWAY_ASSIGN(machine.cuda, device::CudaMachine::create(api, {}, clock, machine.memory));
  for (int gpu = 0; gpu < machine.cuda->gpus(); ++gpu) {
    device::SliceSpec slice;
    slice.name = "gpu" + std::to_string(gpu);
    slice.physical_device = gpu;
    slice.arena_bytes = arena;
    CAUSEWAY_ASSIGN(auto device, machine.cuda->open(slice));
    machine.devices.push_back(std::move(device));
  }
  return {};
}

Status open_modelled(TransferMachine& machine, const TransferMachineOptions& options,
                     const Clock& clock) {
  device::LinkTree tree;
  tree.devices = options.modelled;
  tree.link = options.modelled_link;
  tree.link_duplex = 1.8 * options.modelled_link;
  tree.peer_link = 7 * options.modelled_link;
  CAUSEWAY_ASSIGN(machine.host, device::HostMachine::create({.devices = options.modelled,
                                                             .links = device::make_link_tree(tree),
                                                             .extent_bytes = mib(2)},
                                                            clock, machine.memory));
  for (int d = 0; d < options.modelled; ++d) {
    device::SliceSpec slice;
    slice.name = "modelled" + std::to_string(d);
    slice.physical_device = d;
    slice.arena_bytes = options.arena_bytes;
    CAUSEWAY_ASSIGN(auto device, machine.host->open(slice));
    machine.devices.push_back(std::move(device));
  }
  return {};
}

}  // namespace

std::vector<device::Device*> TransferMachine::pointers() const {
  std::vector<device::Device*> pointers;
  for (const auto& device : devices) pointers.push_back(device.get());
  return pointers;
}

Result<std::unique_ptr<TransferMachine>> open_transfer_machine(
    const TransferMachineOptions& options, const Clock& clock) {
  auto machine = std::make_unique<TransferMachine>();
  if (options.modelled > 0) {
    CAUSEWAY_TRY(open_modelled(*machine, options, clock));
  } else {
    CAUSEWAY_TRY(open_gpus(*machine, options.arena_bytes, clock));
  }
  return machine;
}

}  // namespace causeway::app
