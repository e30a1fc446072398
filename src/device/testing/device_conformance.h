// The required behaviour of every backend of device.h, as tests over backends:
//
//   INSTANTIATE_TEST_SUITE_P(Host, DeviceConformance, testing::Values(conformance("host", make)),
//                            conformance_name);
//
// The tests are registered by the library that defines conformance(); the host backend and the CUDA
// backend over a fake driver run them everywhere, the CUDA backend on machines with a GPU.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "device/arena.h"
#include "device/device.h"

namespace causeway::device::testing {

// A machine under test with extents of kConformanceExtent, over `memory`.
class ConformanceMachine {
 public:
  virtual ~ConformanceMachine() = default;
  virtual Result<std::unique_ptr<Device>> open(const SliceSpec& slice) = 0;
  virtual int physical_devices() const = 0;
};

inline constexpr Bytes kConformanceExtent = mib(2);

struct ConformanceBackend {
  std::string name;
  // May return an error: then the tests are skipped with its message.
  Result<std::unique_ptr<ConformanceMachine>> (*make)(const Clock& clock, HostMemory& memory);
};

ConformanceBackend conformance(std::string name, decltype(ConformanceBackend::make) make);
std::string conformance_name(const ::testing::TestParamInfo<ConformanceBackend>& info);

// The first two devices of the machine (one, if it has one), each with an arena of 8 MiB handed out
// whole, and a host region of 8 MiB.
class DeviceConformance : public ::testing::TestWithParam<ConformanceBackend> {
 protected:
  void SetUp() override;
  void TearDown() override;

  std::unique_ptr<Stream> stream(int device = 0);
  std::unique_ptr<Event> event();
  std::unique_ptr<Semaphore> semaphore(int device = 0);
  MemoryAddress host(Bytes offset) const;
  MemoryAddress arena(Bytes offset, int device = 0) const;
  Status copy(Stream& on, const Copy& copy);
  // The arena's bytes, through a copy.
  std::vector<std::byte> read(Bytes offset, Bytes bytes, int device = 0);
  bool has_peers() const;

  RealClock clock_;
  HostMemory memory_;
  std::unique_ptr<ConformanceMachine> machine_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<Extents> extents_;
  RegionId region_;
  std::span<std::byte> host_;
};

}  // namespace causeway::device::testing
