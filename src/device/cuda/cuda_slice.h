// The Device of an opened slice. Private to device/cuda.
#pragma once

#include <optional>

#include "device/cuda/cuda_state.h"

namespace causeway::device {

class CudaSlice final : public Device {
 public:
  CudaSlice(CudaMachine::State& machine, DeviceId id, Capabilities capabilities,
            std::unique_ptr<CudaContext> context, std::unique_ptr<ArenaMemory> memory);
  ~CudaSlice() override;
  CudaSlice(const CudaSlice&) = delete;
  CudaSlice& operator=(const CudaSlice&) = delete;

  DeviceId id() const override { return id_; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Arena& arena() override { return arena_; }
  Result<std::unique_ptr<Stream>> make_stream(const std::string& name) override;
  Result<std::unique_ptr<Event>> make_event() override;
  Result<std::unique_ptr<Event>> make_mark() override;
  Result<std::unique_ptr<Semaphore>> make_semaphore() override;
  Status make_reachable(HostAddress address, Bytes bytes) override;
  bool is_reachable(HostAddress address, Bytes bytes) const override;
  void make_unreachable(HostAddress address, Bytes bytes) override;
  Status health() const override { return context_->physical().health(); }

  Result<std::unique_ptr<Stream>> make_stream(const std::string& name, CopyPriority priority);
  CudaContext& context() const { return *context_; }
  CudaMachine::State& machine() const { return machine_; }

 private:
  CudaMachine::State& machine_;
  const DeviceId id_;
  const Capabilities capabilities_;
  std::optional<CudaStreamWaits::Hold> closing_;  // while a green context is destroyed
  const std::unique_ptr<CudaContext> context_;
  Arena arena_;  // destroyed before the context
};

}  // namespace causeway::device
