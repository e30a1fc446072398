// A CUDA driver for tests on machines without one. Behind the same table of entry points it has
// GPUs made of ordinary memory that do work at once, checks the driver's own rules (a current
// context, registered host memory, access to peers), and has its faults planted. It forgets host
// memory that was registered in a green context together with the context, because the driver does
// not promise that it stays.
//
// It does not model speed or asynchrony: events only take a while to be noticed, and work behind a
// wait for a word of memory is done by the first call that finds the value there. Only one exists
// in a process at a time, because the driver's functions carry no state; thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "device/cuda/cuda_api.h"

namespace causeway::device::testing {

struct FakeCudaOptions {
  int gpus = 2;
  int sms = 132;
  int finest_units_max = 16;  // units of 8 SMs that it gives; larger ones: as many as fit
  Bytes memory = mib(256);  // of each GPU
  int memory_clock = 2'619'000;  // kHz; as an H100's
  int memory_bus = 5'120;        // bits
  bool peers = true;
  bool memory_operations = true;  // streams wait for words of memory
  bool read_only = true;          // memory that may not be written is registered
  int polls_until_ready = 2;      // queries that an event or stream answers with "not ready" first
  int driver_version = kCudaVersionMin;
};

class FakeCuda {
 public:
  explicit FakeCuda(FakeCudaOptions options = {});
  ~FakeCuda();
  FakeCuda(const FakeCuda&) = delete;
  FakeCuda& operator=(const FakeCuda&) = delete;

  CudaApi api() const;

  // The n-th call from now (1: the next) returns `result` instead of working; destruction still
  // works, as in the driver.
  void fail_call(std::int64_t n, int result);
  // As `fail_call`, for the next call of one entry point.
  void fail_next(const std::string& name, int result);
  // Every call from now on returns `result`, as after a faulting kernel.
  void lose(int result);
  // While held, no event and no stream becomes ready.
  void hold(bool held);
  std::int64_t calls() const;
  std::int64_t calls_of(const std::string& name) const;
  // Names everything that was made and not destroyed; "" when nothing is left.
  std::string leaks() const;

 private:
  friend struct FakeCudaEntries;
  struct Context {
    int gpu = 0;
    bool green = false;
  };
  struct Stream {
    Context* context = nullptr;
    int polls = 0;
    int priority = 0;
    std::int64_t at = -1;  // of the last event recorded
    // A wait that has not ended and the work behind it; each returns whether it is done.
    std::deque<std::function<bool()>> blocked;
  };
  struct Event {
    Context* context = nullptr;
    int polls = 0;
    bool recorded = false;
    std::int64_t at = 0;  // its number
    Nanos time;
    std::int64_t record = 0;  // the last of it
  };
  struct Allocation {
    int gpu = 0;
    std::size_t bytes = 0;
    int mappings = 0;
    bool shared = false;  // its pages can show at several addresses
  };
  struct Mapping {
    std::size_t bytes = 0;
    CudaMemoryHandle handle = 0;
    std::set<int> access;
  };

  // Every entry point begins with this: it counts, and returns whether to fail.
  int enter(const char* name);
  // Shows the memory of an allocation that is mapped already at another address, too.
  void map_again(CudaDevicePointer address, Allocation& allocation, CudaMemoryHandle handle);
  // Whether the thread's current context is that of a stream (or, without a stream, exists).
  bool current_is(const Context* context);
  bool ready(int& polls, std::int64_t at);
  bool may_map(CudaDevicePointer address, std::size_t bytes) const;
  // Does the work now, or when the work before it in the stream is done.
  void enqueue(CUstream_st* stream, std::function<bool()> work);
  void advance();
  int stream_word(CUstream_st* stream, CudaDevicePointer address) const;
  bool reachable(CudaDevicePointer address, std::size_t bytes, int gpu) const;
  int copy(CudaDevicePointer target, CudaDevicePointer source, std::size_t bytes,
           CUstream_st* stream);

  const FakeCudaOptions options_;
  mutable std::mutex mutex_;  // guards what follows
  std::int64_t calls_ = 0;
  std::map<std::string, std::int64_t> calls_of_;
  std::int64_t fail_at_ = 0;
  int fail_with_ = 0;
  std::map<std::string, int> fail_next_;
  int lost_ = 0;
  bool held_ = false;

  std::vector<Context> primaries_;
  std::vector<int> retained_;  // by GPU
  std::map<CUgreenCtx_st*, std::unique_ptr<Context>> greens_;
  std::map<CUstream_st*, std::unique_ptr<Stream>> streams_;
  std::map<CUevent_st*, std::unique_ptr<Event>> events_;
  std::map<CudaDevicePointer, std::size_t> reserved_;
  std::map<CudaMemoryHandle, Allocation> allocations_;
  std::map<CudaDevicePointer, Mapping> mappings_;
  std::map<CudaDevicePointer, std::size_t> registered_;
  std::map<CudaDevicePointer, const Context*> registered_in_;  // some of these no longer exist
  std::map<std::thread::id, std::vector<Context*>> current_;
  std::vector<std::size_t> used_;  // bytes, by GPU
  CudaMemoryHandle next_handle_ = 1;
  // Recorded events are numbered; everything recorded before a ready event is ready, anywhere.
  std::int64_t next_at_ = 0;
  std::int64_t noticed_ = -1;
  std::int64_t next_record_ = 1;
  std::set<std::int64_t> blocked_records_;
  const RealClock clock_;
};

}  // namespace causeway::device::testing
