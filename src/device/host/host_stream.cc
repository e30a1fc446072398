#include "device/host/host_stream.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

namespace causeway::device {

Result<std::unique_ptr<Stream>> HostStream::create(HostMachine::State& machine, std::string name) {
  auto stream = std::make_unique<HostStream>(machine, std::move(name));
  try {
    stream->thread_ = std::thread([raw = stream.get()] { raw->loop(); });
  } catch (const std::system_error& failure) {
    return exhausted("no thread for " + stream->failure_.label() + ": " + failure.what());
  }
  return std::unique_ptr<Stream>(std::move(stream));
}

HostStream::HostStream(HostMachine::State& machine, std::string name)
    : machine_(machine), failure_(std::move(name)) {}

HostStream::~HostStream() {
  {
    const std::lock_guard lock(mutex_);
    stop_.store(true);
    changed_.notify_all();
  }
  machine_.pacer.wake();
  machine_.events.wake();
  machine_.semaphores.wake();
  if (thread_.joinable()) thread_.join();
}

Result<HostStream::Resolved> HostStream::resolve(const MemoryAddress& address, Bytes bytes) const {
  if (!address.device.valid()) {
    const auto span = machine_.memory.resolve({address.region, address.offset}, bytes);
    return Resolved{span.data(), kHostEnd};
  }
  const auto device = machine_.find(address.device);
  if (!device) {
    return invalid_argument("a copy names device " + std::to_string(address.device.value) +
                            ", which is not open");
  }
  if (!device->arena->allocated(address.offset, bytes)) {
    return invalid_argument("a copy of " + std::to_string(bytes.count) + " bytes at offset " +
                            std::to_string(address.offset.count) +
                            " is not within extents of device " +
                            std::to_string(address.device.value) + " that are handed out");
  }
  return Resolved{device->arena->base() + address.offset.count, device->physical};
}

Status HostStream::copy(std::span<const Copy> copies, CopyPriority priority) {
  if (std::ssize(copies) > kCopiesMax) {
    return invalid_argument("a batch of " + std::to_string(copies.size()) +
                            " copies; the most is " + std::to_string(kCopiesMax));
  }
  CopyWork work;
  work.priority = priority;
  for (const Copy& copy : copies) {
    CAUSEWAY_CHECK(copy.bytes.count >= 0, "a copy of a negative size");
    CAUSEWAY_ASSIGN(const Resolved target, resolve(copy.target, copy.bytes));
    CAUSEWAY_ASSIGN(const Resolved source, resolve(copy.source, copy.bytes));
    const CopyEnds ends{source.end, target.end};
    if (!machine_.pacer.connected(ends)) {
      return unsupported("this machine has no direct path from end " + std::to_string(ends.source) +
                         " to end " + std::to_string(ends.target) + " (-1 is the host)");
    }
    work.pieces[ends].push_back({target.bytes, source.bytes, to_size(copy.bytes)});
  }
  if (work.pieces.empty()) return {};
  const std::lock_guard lock(mutex_);
  return submit(std::move(work));
}

Status HostStream::run(std::function<Status()> work) {
  CAUSEWAY_CHECK(work != nullptr, "no work to run");
  const std::lock_guard lock(mutex_);
  return submit(RunWork{std::move(work)});
}

Status HostStream::record(Event& event) {
  auto* own = dynamic_cast<HostEvent*>(&event);
  CAUSEWAY_CHECK(own != nullptr && &own->board() == &machine_.events,
                 "the event belongs to another machine");
  const std::lock_guard lock(mutex_);
  CAUSEWAY_ASSIGN(const EventRecord record, machine_.events.begin(own->id()));
  Status submitted = submit(RecordWork{record});
  // The record exists, so a thread may wait for it already.
  if (!submitted.ok()) {
    machine_.events.complete(record, machine_.clock.now(), submitted.error());
  }
  return submitted;
}

Status HostStream::wait(const Event& event) {
  const auto* own = dynamic_cast<const HostEvent*>(&event);
  CAUSEWAY_CHECK(own != nullptr && &own->board() == &machine_.events,
                 "the event belongs to another machine");
  const EventRecord record = machine_.events.latest(own->id());
  if (record.record == 0) return {};
  const std::lock_guard lock(mutex_);
  return submit(WaitWork{record});
}

const HostSemaphore& HostStream::own(const Semaphore& semaphore) const {
  const auto* own = dynamic_cast<const HostSemaphore*>(&semaphore);
  CAUSEWAY_CHECK(own != nullptr && &own->board() == &machine_.semaphores,
                 "the semaphore belongs to another machine");
  return *own;
}

Status HostStream::signal(Semaphore& semaphore, std::uint32_t value) {
  (void)own(semaphore);
  const std::lock_guard lock(mutex_);
  return submit(SignalWork{static_cast<HostSemaphore*>(&semaphore), value});
}

Status HostStream::wait(const Semaphore& semaphore, std::uint32_t value) {
  const HostSemaphore& counter = own(semaphore);
  if (reached(counter.value(), value)) return {};
  const std::lock_guard lock(mutex_);
  return submit(AwaitWork{&counter, value});
}

Status HostStream::submit(Work work) {
  if (queue_.size() >= kQueueMax) return failure_.full(kQueueMax);
  queue_.push_back(std::move(work));
  ++submitted_;
  changed_.notify_all();
  return {};
}

Status HostStream::synchronize(Nanos timeout) {
  constexpr Nanos kWaitMax = seconds(365 * 24 * 3600);  // more would overflow the deadline
  const Nanos limit = std::clamp(timeout, Nanos(0), kWaitMax);
  std::unique_lock lock(mutex_);
  const std::int64_t all = submitted_;
  if (!changed_.wait_for(lock, std::chrono::nanoseconds(limit.count),
                         [&] { return completed_ >= all; })) {
    return Error{ErrorCode::kDeadlineExceeded,
                 failure_.label() + " was not done within " +
                     std::to_string(static_cast<std::int64_t>(to_millis(limit))) +
                     " ms: " + std::to_string(all - completed_) + " pieces of work are left"};
  }
  return failure_.status();
}

void HostStream::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_.load() || !queue_.empty(); });
    if (queue_.empty()) return;
    Work work = std::move(queue_.front());
    queue_.pop_front();
    if (stop_.load()) failure_.cancel();
    const std::optional<Error> failure = failure_.first();
    lock.unlock();
    // After a failure no work is done any more, but threads that wait for an event must be told.
    Status status;
    if (const auto* mark = std::get_if<RecordWork>(&work)) {
      machine_.events.complete(mark->record, machine_.clock.now(), failure);
    } else if (!failure) {
      status = perform(work);
    }
    work = RunWork{};  // freed before a waiter learns that it is done
    lock.lock();
    if (!status.ok()) failure_.set(status.error());
    ++completed_;
    changed_.notify_all();
  }
}

Status HostStream::perform(Work& work) {
  if (auto* copy = std::get_if<CopyWork>(&work)) {
    for (const auto& [ends, pieces] : copy->pieces) {
      CAUSEWAY_TRY(machine_.pacer.move(ends, pieces, copy->priority, stop_));
    }
    return {};
  }
  if (auto* wait = std::get_if<WaitWork>(&work)) {
    return machine_.events.wait_unless(wait->record, stop_);
  }
  if (const auto* signal = std::get_if<SignalWork>(&work)) {
    signal->semaphore->raise(signal->value);
    return {};
  }
  if (const auto* wait = std::get_if<AwaitWork>(&work)) {
    return machine_.semaphores.wait_unless(*wait->semaphore, wait->value, stop_);
  }
  return std::get<RunWork>(work).work();
}

}  // namespace causeway::device
