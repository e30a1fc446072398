// Memory, streams, events and checks of the programs that use the CUDA runtime. Everything throws
// Wrong when CUDA refuses; destructors do not.
#pragma once

#include <cuda_runtime.h>

#include <string>
#include <utility>
#include <vector>

#include "kernels.cuh"
#include "program.h"

namespace program {

void gpu_ok(cudaError_t status, const char* call, int line);
#define GPU_OK(call) ::program::gpu_ok((call), #call, __LINE__)
// What a destructor gets back: a refusal is forgotten, or the next launch would be told of it.
void forgive(cudaError_t status);

class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) : bytes_(bytes) { GPU_OK(cudaMalloc(&data_, bytes)); }
  ~DeviceMemory() { release(); }
  DeviceMemory(DeviceMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  DeviceMemory& operator=(DeviceMemory&&) = delete;

  unsigned char* data() const { return static_cast<unsigned char*>(data_); }
  std::size_t bytes() const { return bytes_; }
  void release() { forgive(cudaFree(std::exchange(data_, nullptr))); }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

enum class Host { kPinned, kPageable, kRegistered, kWriteCombined, kMapped, kManaged };

// Host memory; the pinned kinds as the runtime gives them, kRegistered from mmap().
class HostMemory {
 public:
  HostMemory(std::size_t bytes, Host kind = Host::kPinned);
  ~HostMemory();
  HostMemory(HostMemory&& other) noexcept
      : kind_(other.kind_), data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  HostMemory& operator=(HostMemory&&) = delete;

  unsigned char* data() const { return static_cast<unsigned char*>(data_); }
  std::size_t bytes() const { return bytes_; }

 private:
  Host kind_;
  void* data_ = nullptr;
  std::size_t bytes_;
};

class Stream {
 public:
  explicit Stream(unsigned flags = cudaStreamNonBlocking, int priority = 0) {
    GPU_OK(cudaStreamCreateWithPriority(&stream_, flags, priority));
  }
  ~Stream() { destroy(); }
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }

  operator cudaStream_t() const { return stream_; }
  void wait() const { GPU_OK(cudaStreamSynchronize(stream_)); }
  void destroy() {
    if (stream_ != nullptr) forgive(cudaStreamDestroy(std::exchange(stream_, nullptr)));
  }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  explicit Event(unsigned flags = cudaEventDisableTiming) {
    GPU_OK(cudaEventCreateWithFlags(&event_, flags));
  }
  ~Event() {
    if (event_ != nullptr) forgive(cudaEventDestroy(event_));
  }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;

  operator cudaEvent_t() const { return event_; }
  void record(cudaStream_t stream) const { GPU_OK(cudaEventRecord(event_, stream)); }
  void make_wait(cudaStream_t stream) const { GPU_OK(cudaStreamWaitEvent(stream, event_, 0)); }
  void wait() const { GPU_OK(cudaEventSynchronize(event_)); }

 private:
  cudaEvent_t event_ = nullptr;
};

// Whether there is work left; throws Wrong for any state but that and done. (A query that says "not
// ready" is remembered by the runtime as if it were an error: these forget it.)
bool is_pending(cudaStream_t stream);
bool is_pending(cudaEvent_t event);

void fill_device(cudaStream_t stream, void* out, std::size_t bytes, Pattern pattern);
void xor_device(cudaStream_t stream, void* to, const void* from, std::size_t bytes,
                unsigned char key);
// Launches every kernel but the late ones once on the current GPU and waits: the first launch of a
// kernel may wait for work under way, such as a kernel that waits for the host.
void load_kernels();
// Occupies the stream with one thread on one SM.
void spin(cudaStream_t stream, double milliseconds);

// Keeps a stream occupied until it is released, or for `seconds` at most.
class Hold {
 public:
  explicit Hold(cudaStream_t stream, double seconds = 20);
  // Returns when the kernel is gone, which reads the flag until then.
  ~Hold() {
    release();
    forgive(cudaEventSynchronize(ended_));
  }
  void release() { *flag() = 1; }

 private:
  volatile unsigned* flag() const { return reinterpret_cast<volatile unsigned*>(memory_.data()); }
  HostMemory memory_;
  Event ended_;
};

// Checks of device memory, in stream order, on the GPU that was current when it was made.
class DeviceCheck {
 public:
  DeviceCheck();

  // Looks at in[0 … bytes) when `stream` is there.
  void add(cudaStream_t stream, const void* in, std::size_t bytes, Pattern pattern,
           const std::string& what);
  // Waits for the streams' checks and throws Wrong for the first that found a difference.
  void finish();

 private:
  static constexpr std::size_t kMost = 256;

  struct One {
    std::string what;
    std::size_t bytes;
    Event done;
  };

  DeviceMemory found_;
  HostMemory seen_;
  std::vector<One> checks_;
};

// bytes of `memory` around [offset, offset + bytes), 256 at most on each side, hold the guard
// pattern.
inline constexpr std::size_t kGuard = 256;
inline constexpr std::uint64_t kGuardSeed = 0x6a09e667;
void put_guards(unsigned char* begin, std::size_t bytes);  // begin - kGuard … is writable
void expect_guards(const unsigned char* begin, std::size_t bytes, const char* what);

// A number and its name, of an error code: "invalid argument (1)".
std::string error_words(cudaError_t status);

// What round trips use: lengths that are small, odd, and larger than any threshold.
std::vector<std::size_t> interesting_sizes(Random& random, int random_ones);

// Copies to the GPU and back through `stream`, bytes checked on both sides; waits.
void round_trip(cudaStream_t stream, std::size_t bytes, std::uint64_t seed);

}  // namespace program
