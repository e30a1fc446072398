// The CUDA behind a Device and its Streams. Only code of CUDA backends (launchers of kernels, graph
// capture) includes this. The objects must come from a CudaMachine: anything else is a bug.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "device/cuda/cuda_types.h"
#include "device/device.h"

namespace causeway::device {

// The context of a slice: primary, or green with its own SMs. Lives as long as the device.
CUctx_st* cuda_context_of(const Device& device);
// The GPU's ordinal, as the CUDA runtime counts.
int cuda_ordinal_of(const Device& device);

// The stream itself, for capture and for events of one's own. Do not mix with run() on the same
// stream: while such work is outstanding, what is launched directly overtakes what is queued.
CUstream_st* cuda_stream_of(const Stream& stream);

// Launches in order with the stream's other work, its context current: at once on this thread, or
// on the stream's own while work of run() is outstanding. `launch` only enqueues; it must not wait.
// Its failure sticks to the stream. On a stream that has failed: that failure.
Status cuda_enqueue(Stream& stream, std::function<Status(CUstream_st*)> launch);

// Where kernels see host memory. A region of which nothing is registered is registered whole; see
// Device::make_reachable() for pieces of it. Valid until the region is released. kUnsupported for a
// range in pieces that the GPU does not see as neighbours.
Result<CudaDevicePointer> cuda_address_of(Device& device, HostAddress address, Bytes bytes);

// The host memory of the slice's machine.
HostMemory& cuda_host_memory_of(Device& device);

// A stream whose kernels the GPU prefers as `priority` says. Copy engines know no priorities: a
// caller that wants urgent copies first holds back the others.
Result<std::unique_ptr<Stream>> make_cuda_stream(Device& device, const std::string& name,
                                                 CopyPriority priority);

// Makes the slice's context current on this thread while it lives, for calls of the CUDA runtime.
class CudaCurrent {
 public:
  static Result<CudaCurrent> enter(const Device& device);
  CudaCurrent(CudaCurrent&& other) noexcept;
  CudaCurrent& operator=(CudaCurrent&&) = delete;
  ~CudaCurrent();

 private:
  explicit CudaCurrent(const Device* device) : device_(device) {}
  const Device* device_;
};

}  // namespace causeway::device
