// A stream of the CPU backend: a thread that works through a queue. Private to device/host.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "device/host/host_state.h"
#include "device/stream_failure.h"

namespace causeway::device {

class HostEvent final : public Event {
 public:
  explicit HostEvent(EventBoard& board) : board_(board), id_(board.create()) {}
  ~HostEvent() override { board_.destroy(id_); }
  HostEvent(const HostEvent&) = delete;
  HostEvent& operator=(const HostEvent&) = delete;

  Result<bool> done() const override { return board_.done(board_.latest(id_)); }
  Status wait(Nanos timeout) const override { return board_.wait(board_.latest(id_), timeout); }
  Result<Nanos> completed_at() const override { return board_.completed_at(board_.latest(id_)); }

  EventBoard& board() const { return board_; }
  std::int64_t id() const { return id_; }

 private:
  EventBoard& board_;
  const std::int64_t id_;
};

class HostStream final : public Stream {
 public:
  static constexpr std::int64_t kCopiesMax = 4096;
  static constexpr std::size_t kQueueMax = 65'536;

  // kResourceExhausted when no thread is available.
  static Result<std::unique_ptr<Stream>> create(HostMachine::State& machine, std::string name);
  HostStream(HostMachine::State& machine, std::string name);
  ~HostStream() override;
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  Status copy(std::span<const Copy> copies, CopyPriority priority) override;
  Status run(std::function<Status()> work) override;
  Status record(Event& event) override;
  Status wait(const Event& event) override;
  Status signal(Semaphore& semaphore, std::uint32_t value) override;
  Status wait(const Semaphore& semaphore, std::uint32_t value) override;
  Status synchronize(Nanos timeout) override;

 private:
  struct CopyWork {
    std::map<CopyEnds, std::vector<CopyPiece>> pieces;
    CopyPriority priority = CopyPriority::kStep;
  };
  struct RunWork {
    std::function<Status()> work;
  };
  struct RecordWork {
    EventRecord record;
  };
  struct WaitWork {
    EventRecord record;
  };
  struct SignalWork {
    HostSemaphore* semaphore;
    std::uint32_t value;
  };
  struct AwaitWork {
    const HostSemaphore* semaphore;
    std::uint32_t value;
  };
  using Work = std::variant<CopyWork, RunWork, RecordWork, WaitWork, SignalWork, AwaitWork>;

  struct Resolved {
    std::byte* bytes = nullptr;
    int end = kHostEnd;
  };
  Result<Resolved> resolve(const MemoryAddress& address, Bytes bytes) const;
  const HostSemaphore& own(const Semaphore& semaphore) const;
  // With mutex_ held.
  Status submit(Work work);
  void loop();
  Status perform(Work& work);

  HostMachine::State& machine_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  // guards what follows; never taken by a thread that holds another lock here
  std::condition_variable changed_;
  std::deque<Work> queue_;
  std::int64_t submitted_ = 0;
  std::int64_t completed_ = 0;
  StreamFailure failure_;
  std::thread thread_;
};

}  // namespace causeway::device
