// A stream of the CUDA backend (cuda_machine.h says how it works). Private to device/cuda.
//
//   direct    caller ──────────────────────▶ CUDA stream
//   deferred  caller ──▶ queue ──▶ thread ──▶ CUDA stream     while work of run() is outstanding
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

#include "device/cuda/cuda_state.h"
#include "device/stream_failure.h"

namespace causeway::device {

class CudaSlice;

class CudaStream final : public Stream {
 public:
  static constexpr std::int64_t kCopiesMax = 4096;
  static constexpr std::size_t kQueueMax = 65'536;
  using Launch = std::function<Status(CUstream_st*)>;

  static Result<std::unique_ptr<Stream>> create(CudaSlice& slice, std::string name,
                                                CopyPriority priority);
  CudaStream(CudaSlice& slice, std::string name);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  Status copy(std::span<const Copy> copies, CopyPriority priority) override;
  Status run(std::function<Status()> work) override;
  Status record(Event& event) override;
  Status copy_marked(std::span<const Copy> copies, CopyPriority priority, Event& event) override;
  Status wait(const Event& event) override;
  Status signal(Semaphore& semaphore, std::uint32_t value) override;
  Status wait(const Semaphore& semaphore, std::uint32_t value) override;
  Status synchronize(Nanos timeout) override;

  // Kernel launches, in order with the other work (cuda_device.h).
  Status enqueue(Launch launch);
  CUstream_st* native() const { return stream_; }

 private:
  struct CopyWork {
    std::vector<CudaDevicePointer> targets;
    std::vector<CudaDevicePointer> sources;
    std::vector<std::size_t> bytes;
  };
  struct RunWork {
    std::function<Status()> work;
  };
  struct RecordWork {
    CudaRecord record;
  };
  struct WaitWork {
    CudaRecord record;
  };
  struct LaunchWork {
    Launch launch;
  };
  struct SignalWork {
    const CudaSemaphore* semaphore;
    std::uint32_t value;
  };
  struct AwaitWork {
    const CudaSemaphore* semaphore;
    std::uint32_t value;
  };
  using Work =
      std::variant<CopyWork, RunWork, RecordWork, WaitWork, LaunchWork, SignalWork, AwaitWork>;

  struct Resolved {
    CudaDevicePointer address = 0;
    int gpu = -1;  // -1: the host
    Bytes bytes;   // as far as one registered piece of host memory reaches
  };
  // A copy whose ends this GPU reaches, or its first part, up to the end of a registered piece.
  struct OneCopy {
    CudaDevicePointer target = 0;
    CudaDevicePointer source = 0;
    std::size_t bytes = 0;
  };
  // With mutex_ held.
  Status resolve_one(const Copy& copy, OneCopy& resolved);
  bool at_hand(const Copy& copy, OneCopy& resolved) const;
  bool at_hand(const MemoryAddress& address, Bytes bytes, CudaDevicePointer& resolved) const;
  Status look_up(const Copy& copy, OneCopy& resolved);  // when at_hand() fails
  Result<Resolved> resolve(const MemoryAddress& address, Bytes bytes);
  Result<CopyWork> resolve_all(std::span<const Copy> copies);
  Status copy_all(std::span<const Copy> copies);

  Status check_path(const Resolved& source, const Resolved& target) const;
  const CudaEvent& own(const Event& event) const;
  const CudaSemaphore& own(const Semaphore& semaphore) const;

  // With mutex_ held.
  Status copy_one(const OneCopy& copy, const CudaScope& scope);
  Status push_one(const OneCopy& copy);
  Status mark(const CudaEvent& event, const CudaScope& scope);
  bool deferred() const { return busy_ || !queue_.empty(); }
  enum class Way { kAsMode, kQueued };
  Status push(Work work, Way way = Way::kAsMode);
  Status start_thread();
  Status failure() const;

  void loop();
  void cancel_rest();
  // Does the work, on the thread, or on the caller's with mutex_ held.
  Status perform(Work& work, const std::optional<Error>& failed);
  Status issue_copies(CopyWork& work);
  Status issue_batch(CopyWork& work);
  Status perform_wait(const CudaRecord& record);
  Status perform_signal(const SignalWork& signal);
  Status perform_await(const AwaitWork& wait);
  Status launch(const Launch& launch);
  Status drain(Nanos timeout, bool stoppable);

  CudaMachine::State& machine_;
  CudaContext& context_;
  const CudaApi& api_;
  // Copied from the slice, because a small copy takes only as long as some cache misses.
  const DeviceId id_;
  const int gpu_;
  Arena& arena_;
  const CudaDevicePointer arena_base_;
  CUstream_st* stream_ = nullptr;
  std::atomic<bool> stop_{false};

  std::mutex mutex_;              // guards what follows; taken before the event board's
  CudaHostRegions::View region_;  // the region that was copied from or to last
  bool busy_ = false;             // the thread works on an entry of the queue
  std::deque<Work> queue_;
  std::condition_variable changed_;
  StreamFailure failure_;
  std::thread thread_;
};

}  // namespace causeway::device
