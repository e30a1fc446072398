// What a program without this library would do: copies in one stream of the target's GPU. On a GPU
// the driver's own calls with nothing in between, so that what the library costs shows.
//
// Used by one thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "device/cuda/cuda_api.h"
#include "device/cuda/cuda_device.h"

namespace causeway::transfer::bench {

class NativeCopies {
 public:
  enum class How { kLoop, kBatch };  // one call a copy, or one for at most 4,096
  // How the caller learns of the end: by asking the stream, or an event recorded behind the copies,
  // as a caller that goes on submitting to the stream must.
  enum class End { kStream, kEvent };
  virtual ~NativeCopies() = default;

  // What a program that makes such copies has on its thread all the time: its GPU's context,
  // current while the result lives. Nothing on modelled machines.
  virtual Result<std::optional<device::CudaCurrent>> enter() { return {std::nullopt}; }
  // What the calls below copy. Addresses are looked up here, once.
  virtual Status prepare(const std::vector<device::Copy>& copies) = 0;
  // Issues all. Not blocking.
  virtual Status issue(How how) = 0;
  // Whether all that was issued has arrived.
  virtual Result<bool> done() = 0;
  // From the first call until the caller knows that all has arrived.
  virtual Result<Nanos> time(How how, const Clock& clock, End end = End::kStream) = 0;
};

// Through device.h: modelled machines.
Result<std::unique_ptr<NativeCopies>> make_stream_copies(device::Device& device);

// Through the driver, on `device`; copies may name any of `devices`, all of one CudaMachine.
Result<std::unique_ptr<NativeCopies>> make_driver_copies(
    const device::CudaApi& api, device::Device& device,
    const std::vector<device::Device*>& devices);

}  // namespace causeway::transfer::bench
