// All GPUs of this machine opened for transfers, or modelled ones of the CPU backend in their
// place.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "device/cuda/cuda_machine.h"
#include "device/host/host_machine.h"

namespace causeway::app {

struct TransferMachine {
  device::HostMemory memory;
  std::unique_ptr<device::CudaMachine> cuda;
  std::unique_ptr<device::HostMachine> host;
  std::vector<std::unique_ptr<device::Device>> devices;  // one a GPU, in the driver's order

  std::vector<device::Device*> pointers() const;
};

struct TransferMachineOptions {
  Bytes arena_bytes;           // of each device
  int modelled = 0;            // devices; 0: the machine's GPUs
  double modelled_link = 1e9;  // bytes per second, each way
};

// kUnavailable without a GPU. `clock` must outlive the machine.
Result<std::unique_ptr<TransferMachine>> open_transfer_machine(
    const TransferMachineOptions& options, const Clock& clock);

}  // namespace causeway::app
