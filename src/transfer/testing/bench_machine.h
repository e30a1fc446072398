// A machine of the CPU backend with an engine over it, host memory and device memory to copy
// between, and faults to inject. Bytes of devices can be read and written directly.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"
#include "device/host/host_machine.h"
#include "transfer/engine.h"
#include "transfer/testing/faulty_device.h"

namespace causeway::transfer::testing {

inline constexpr Nanos kPatience = seconds(120);

struct BenchMachineOptions {
  int devices = 3;
  Bytes host_bytes = mib(8);
  Bytes device_bytes = mib(8);   // of each, handed out for data
  Bytes staging_bytes = mib(1);  // of each arena beyond that
  std::optional<device::LinkProfile> links = {};
};

// Small chunks, so that small transfers already use all paths.
TransferEngineOptions small_chunks();

class BenchMachine {
 public:
  explicit BenchMachine(BenchMachineOptions options = {});

  // After faults have been chosen. Again: the engine before is destroyed.
  void start(TransferEngineOptions options = small_chunks());
  void start(TransferEngineOptions options, PathFacts facts);
  void stop() { engine.reset(); }

  device::MemoryAddress host(Bytes offset) const;
  device::MemoryAddress data(int device, Bytes offset) const;
  std::span<std::byte> host_bytes(Bytes offset, Bytes bytes);
  std::span<std::byte> device_bytes(int device, Bytes offset, Bytes bytes);
  device::Device& device(int index) { return *faulty_[static_cast<std::size_t>(index)]; }
  FaultPlan& faults(int index) { return *plans_[static_cast<std::size_t>(index)]; }

  TransferRequest request(Direction direction, int target, Bytes bytes,
                          Bytes host_offset = Bytes(0), Bytes device_offset = Bytes(0)) const;
  // Fills the source with random bytes, moves them, waits and compares.
  Status move_and_compare(Direction direction, int target, Bytes bytes, std::uint64_t seed = 1);

  RealClock clock;
  device::HostMemory memory;

 private:
  std::vector<std::unique_ptr<FaultPlan>> plans_;
  std::unique_ptr<device::HostMachine> machine_;
  std::vector<std::unique_ptr<device::Device>> devices_;
  std::vector<std::unique_ptr<FaultyDevice>> faulty_;
  std::vector<device::Extents> extents_;
  RegionId region_;

 public:
  std::unique_ptr<TransferEngine> engine;  // before the devices go
};

void fill(std::span<std::byte> bytes, Random& random);

}  // namespace causeway::transfer::testing
