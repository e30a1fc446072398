#include "device/cuda/cuda_slice.h"

#include <utility>

#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_stream.h"

namespace causeway::device {
namespace {

const CudaSlice& slice_of(const Device& device) {
  const auto* slice = dynamic_cast<const CudaSlice*>(&device);
  CAUSEWAY_CHECK(slice != nullptr, "the device is not one of a CudaMachine");
  return *slice;
}

}  // namespace

CudaSlice::CudaSlice(CudaMachine::State& machine, DeviceId id, Capabilities capabilities,
                     std::unique_ptr<CudaContext> context, std::unique_ptr<ArenaMemory> memory)
    : machine_(machine),
      id_(id),
      capabilities_(std::move(capabilities)),
      context_(std::move(context)),
      arena_(std::move(memory), capabilities_.arena_bytes / capabilities_.extent_bytes,
             capabilities_.extent_bytes) {}

CudaSlice::~CudaSlice() {
  machine_.events.forget(*context_);
  {
    const std::lock_guard lock(machine_.mutex);
    machine_.devices.erase(id_);
  }
  if (!context_->green() || !health().ok()) return;
  arena_.trim();  // slow, and others may wait for semaphores meanwhile
  closing_.emplace(machine_.waits);
}

Result<std::unique_ptr<Stream>> CudaSlice::make_stream(const std::string& name) {
  return make_stream(name, CopyPriority::kStep);
}

Result<std::unique_ptr<Stream>> CudaSlice::make_stream(const std::string& name,
                                                       CopyPriority priority) {
  CAUSEWAY_TRY(health());
  return CudaStream::create(*this, capabilities_.name + "/" + name, priority);
}

Result<std::unique_ptr<Event>> CudaSlice::make_event() {
  return std::unique_ptr<Event>(std::make_unique<CudaEvent>(machine_.events));
}

Result<std::unique_ptr<Event>> CudaSlice::make_mark() {
  return std::unique_ptr<Event>(std::make_unique<CudaEvent>(machine_.events, false));
}

Result<std::unique_ptr<Semaphore>> CudaSlice::make_semaphore() {
  CAUSEWAY_TRY(health());
  if (!capabilities_.semaphores) {
    return unsupported(context_->physical().label() +
                       " cannot wait for words of host memory, which semaphores need");
  }
  CAUSEWAY_ASSIGN(const CudaSemaphorePool::Slot slot, machine_.semaphores.take(*this));
  return std::unique_ptr<Semaphore>(
      std::make_unique<CudaSemaphore>(machine_.semaphores, slot, *context_, machine_.events));
}

Status CudaSlice::make_reachable(HostAddress address, Bytes bytes) {
  return machine_.regions.make_reachable(address, bytes, *context_);
}

bool CudaSlice::is_reachable(HostAddress address, Bytes bytes) const {
  return machine_.regions.is_reachable(address, bytes);
}

void CudaSlice::make_unreachable(HostAddress address, Bytes bytes) {
  machine_.regions.make_unreachable(address, bytes);
}

CUctx_st* cuda_context_of(const Device& device) { return slice_of(device).context().handle(); }

int cuda_ordinal_of(const Device& device) {
  return slice_of(device).context().physical().ordinal();
}

CUstream_st* cuda_stream_of(const Stream& stream) {
  const auto* own = dynamic_cast<const CudaStream*>(&stream);
  CAUSEWAY_CHECK(own != nullptr, "the stream is not one of a CudaMachine");
  return own->native();
}

Status cuda_enqueue(Stream& stream, std::function<Status(CUstream_st*)> launch) {
  auto* own = dynamic_cast<CudaStream*>(&stream);
  CAUSEWAY_CHECK(own != nullptr, "the stream is not one of a CudaMachine");
  return own->enqueue(std::move(launch));
}

Result<CudaDevicePointer> cuda_address_of(Device& device, HostAddress address, Bytes bytes) {
  const CudaSlice& slice = slice_of(device);
  return slice.machine().regions.address_of(address, bytes, slice.context());
}

HostMemory& cuda_host_memory_of(Device& device) {
  return slice_of(device).machine().regions.memory();
}

Result<std::unique_ptr<Stream>> make_cuda_stream(Device& device, const std::string& name,
                                                 CopyPriority priority) {
  auto* slice = dynamic_cast<CudaSlice*>(&device);
  CAUSEWAY_CHECK(slice != nullptr, "the device is not one of a CudaMachine");
  return slice->make_stream(name, priority);
}

Result<CudaCurrent> CudaCurrent::enter(const Device& device) {
  const CudaContext& context = slice_of(device).context();
  CAUSEWAY_TRY(context.physical().check(context.api().cuCtxPushCurrent_v2(context.handle()),
                                        "cuCtxPushCurrent"));
  return CudaCurrent(&device);
}

CudaCurrent::CudaCurrent(CudaCurrent&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)) {}

CudaCurrent::~CudaCurrent() {
  if (device_ == nullptr) return;
  CUctx_st* popped = nullptr;
  slice_of(*device_).context().api().cuCtxPopCurrent_v2(&popped);
}

}  // namespace causeway::device
