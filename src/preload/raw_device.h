// The transfer engine's Device, Stream and Event over a GPU of Gpus (gpus.h). Private to Gpus.
#pragma once

#include <map>
#include <optional>

#include "device/stream_failure.h"
#include "preload/gpus.h"

namespace causeway::preload {

class RawEvent final : public device::Event {
 public:
  explicit RawEvent(Gpus& gpus) : gpus_(gpus) {}
  ~RawEvent() override;
  RawEvent(const RawEvent&) = delete;
  RawEvent& operator=(const RawEvent&) = delete;

  Result<bool> done() const override;
  Status wait(Nanos timeout) const override;
  Result<Nanos> completed_at() const override;

 private:
  friend class RawStream;
  struct Mark {
    int link = -1;
    CUevent_st* native = nullptr;
  };
  Gpus& gpus_;
  std::map<int, CUevent_st*> natives_;  // by link: an event serves streams of its own context
  Mark last_;                           // of the last record; none: nothing was recorded
  std::optional<Error> failure_;
};

class RawStream final : public device::Stream {
 public:
  static Result<std::unique_ptr<device::Stream>> create(Gpus& gpus, int link, std::string name);
  RawStream(Gpus& gpus, int link, std::string name);
  ~RawStream() override;
  RawStream(const RawStream&) = delete;
  RawStream& operator=(const RawStream&) = delete;

  Status copy(std::span<const device::Copy> copies, device::CopyPriority priority) override;
  // The engine does not use this function here: kUnsupported.
  Status run(std::function<Status()> work) override;
  Status record(device::Event& event) override;
  Status wait(const device::Event& event) override;
  // Semaphores are kUnsupported, too.
  Status signal(device::Semaphore& semaphore, std::uint32_t value) override;
  Status wait(const device::Semaphore& semaphore, std::uint32_t value) override;
  Status synchronize(Nanos timeout) override;

 private:
  // A native stream, and the link whose context it belongs to.
  struct Spot {
    int link = -1;
    CUstream_st* native = nullptr;
  };
  struct End {
    CudaDevicePointer address = 0;
    int link = -1;  // of a GPU's memory
    bool staging = false;
  };
  End resolve(const device::MemoryAddress& address) const;
  Result<Spot> spot_for(const End& target, const End& source);
  Status go_to(const Spot& spot);
  Status issue(const Spot& spot, std::span<const device::Copy> copies);
  Status keep(Status status);

  Gpus& gpus_;
  const int link_;
  device::StreamFailure failure_;
  Spot home_;
  Spot at_;  // where the latest work is
  RawEvent moved_;
};

class RawDevice final : public device::Device {
 public:
  RawDevice(Gpus& gpus, int link, std::unique_ptr<device::ArenaMemory> memory, Bytes staging,
            Bytes extent, bool relays);

  device::DeviceId id() const override { return device::DeviceId(link_); }
  const device::Capabilities& capabilities() const override { return capabilities_; }
  device::Arena& arena() override { return arena_; }
  Result<std::unique_ptr<device::Stream>> make_stream(const std::string& name) override;
  Result<std::unique_ptr<device::Event>> make_event() override;
  Result<std::unique_ptr<device::Semaphore>> make_semaphore() override;
  Status health() const override;

 private:
  Gpus& gpus_;
  const int link_;
  device::Capabilities capabilities_;
  device::Arena arena_;
};

}  // namespace causeway::preload
