#include "device/cuda/cuda_stream.h"

#include <algorithm>
#include <system_error>
#include <typeinfo>
#include <utility>

#include "device/cuda/cuda_slice.h"

namespace causeway::device {

Result<std::unique_ptr<Stream>> CudaStream::create(CudaSlice& slice, std::string name,
                                                   CopyPriority priority) {
  auto stream = std::make_unique<CudaStream>(slice, std::move(name));
  CAUSEWAY_ASSIGN(stream->stream_,
                  slice.context().make_stream(static_cast<int>(priority), kCopyPriorities));
  return std::unique_ptr<Stream>(std::move(stream));
}

CudaStream::CudaStream(CudaSlice& slice, std::string name)
    : machine_(slice.machine()),
      context_(slice.context()),
      api_(context_.api()),
      id_(slice.id()),
      gpu_(context_.physical().ordinal()),
      arena_(slice.arena()),
      arena_base_(reinterpret_cast<CudaDevicePointer>(arena_.base())),
      failure_(std::move(name)) {}

CudaStream::~CudaStream() {
  {
    const std::lock_guard lock(mutex_);
    stop_.store(true);
    changed_.notify_all();
  }
  machine_.events.wake();
  if (thread_.joinable()) thread_.join();
  if (stream_ == nullptr) return;
  // Work that the GPU has begun cannot be cancelled, and its memory may be given back after this.
  const Status drained = drain(machine_.options.drain_max, false);
  if (!drained.ok() && drained.error().code == ErrorCode::kDeadlineExceeded) {
    context_.physical().declare_hung("the work of " + failure_.label() +
                                     " did not end after it was destroyed");
  }
  if (!context_.physical().hung()) context_.destroy_stream(stream_);
}

Result<CudaStream::Resolved> CudaStream::resolve(const MemoryAddress& address, Bytes bytes) {
  if (!address.device.valid()) {
    CAUSEWAY_ASSIGN(
        const CudaHostRegions::Reach seen,
        machine_.regions.resolve({address.region, address.offset}, bytes, context_, region_));
    return Resolved{seen.at, -1, seen.bytes};
  }
  CudaMachine::State::Opened device{gpu_, &arena_};
  if (address.device != id_) {
    const auto found = machine_.find(address.device);
    if (!found) {
      return invalid_argument("a copy names device " + std::to_string(address.device.value) +
                              ", which is not open");
    }
    device = *found;
  }
  if (!device.arena->allocated(address.offset, bytes)) {
    return invalid_argument("a copy of " + std::to_string(bytes.count) + " bytes at offset " +
                            std::to_string(address.offset.count) +
                            " is not within extents of device " +
                            std::to_string(address.device.value) + " that are handed out");
  }
  return Resolved{reinterpret_cast<CudaDevicePointer>(device.arena->base()) +
                      static_cast<CudaDevicePointer>(address.offset.count),
                  device.physical, bytes};
}

Status CudaStream::check_path(const Resolved& source, const Resolved& target) const {
  for (const Resolved& end : {source, target}) {
    if (end.gpu >= 0 && !context_.physical().reaches(end.gpu)) {
      return unsupported("this machine has no direct path between GPU " + std::to_string(gpu_) +
                         " and GPU " + std::to_string(end.gpu));
    }
  }
  if (source.gpu >= 0 && target.gpu >= 0 &&
      !machine_.gpus[static_cast<std::size_t>(source.gpu)]->reaches(target.gpu)) {
    return unsupported("this machine has no direct path from GPU " + std::to_string(source.gpu) +
                       " to GPU " + std::to_string(target.gpu));
  }
  return {};
}

Status CudaStream::copy(std::span<const Copy> copies, CopyPriority /*priority*/) {
  if (std::ssize(copies) > kCopiesMax) {
    return invalid_argument("a batch of " + std::to_string(copies.size()) +
                            " copies; the most is " + std::to_string(kCopiesMax));
  }
  const std::lock_guard lock(mutex_);
  if (copies.size() == 1) {
    OneCopy copy;
    CAUSEWAY_TRY(resolve_one(copies.front(), copy));
    if (copy.bytes == to_size(copies.front().bytes)) {
      return copy_one(copy, CudaScope(api_, context_.handle()));
    }
  }
  return copy_all(copies);
}

Status CudaStream::copy_all(std::span<const Copy> copies) {
  CAUSEWAY_ASSIGN(CopyWork work, resolve_all(copies));
  if (work.bytes.empty()) return {};
  return push(std::move(work));
}

Result<CudaStream::CopyWork> CudaStream::resolve_all(std::span<const Copy> copies) {
  CopyWork work;
  for (Copy rest : copies) {
    do {
      OneCopy one;
      CAUSEWAY_TRY(resolve_one(rest, one));
      if (one.bytes == 0) break;
      work.targets.push_back(one.target);
      work.sources.push_back(one.source);
      work.bytes.push_back(one.bytes);
      const Bytes done(static_cast<std::int64_t>(one.bytes));
      rest.target.offset += done;
      rest.source.offset += done;
      rest.bytes -= done;
    } while (rest.bytes.count > 0);
  }
  return work;
}

// A single copy goes without lists, and together with its mark, for small transfers, where tenths
// of a microsecond count.
Status CudaStream::copy_marked(std::span<const Copy> copies, CopyPriority priority, Event& event) {
  if (copies.size() != 1) return Stream::copy_marked(copies, priority, event);
  const std::lock_guard lock(mutex_);
  OneCopy copy;
  if (!at_hand(copies.front(), copy)) CAUSEWAY_TRY(look_up(copies.front(), copy));
  const bool whole = copy.bytes == to_size(copies.front().bytes);
  const CudaScope scope(api_, context_.handle());
  if (Status issued = whole ? copy_one(copy, scope) : copy_all(copies); !issued.ok()) return issued;
  return mark(own(event), scope);
}

// Whether the address lies in the slice's own memory or in the region that was used last.
bool CudaStream::at_hand(const MemoryAddress& address, Bytes bytes,
                         CudaDevicePointer& resolved) const {
  const auto offset = static_cast<CudaDevicePointer>(address.offset.count);
  if (address.device == id_) {
    resolved = arena_base_ + offset;
    return arena_.allocated(address.offset, bytes);
  }
  resolved = region_.at + offset;
  return !address.device.valid() &&
         machine_.regions.shows(region_, {address.region, address.offset}, bytes);
}

bool CudaStream::at_hand(const Copy& copy, OneCopy& resolved) const {
  CAUSEWAY_CHECK(copy.bytes.count >= 0, "a copy of a negative size");
  resolved.bytes = to_size(copy.bytes);
  return at_hand(copy.target, copy.bytes, resolved.target) &&
         at_hand(copy.source, copy.bytes, resolved.source);
}

Status CudaStream::resolve_one(const Copy& copy, OneCopy& resolved) {
  if (at_hand(copy, resolved)) return {};
  return look_up(copy, resolved);
}

Status CudaStream::look_up(const Copy& copy, OneCopy& resolved) {
  CAUSEWAY_ASSIGN(const Resolved target, resolve(copy.target, copy.bytes));
  CAUSEWAY_ASSIGN(const Resolved source, resolve(copy.source, copy.bytes));
  if (source.gpu != -1 || target.gpu != gpu_) {
    CAUSEWAY_TRY(check_path(source, target));
  }
  resolved.target = target.address;
  resolved.source = source.address;
  resolved.bytes = to_size(std::min(target.bytes, source.bytes));
  return {};
}

Status CudaStream::copy_one(const OneCopy& copy, const CudaScope& scope) {
  if (copy.bytes == 0) return {};
  if (deferred()) return push_one(copy);
  if (failure_.first()) return {};
  Status status = context_.call_in(scope, "cuMemcpyAsync", [&] {
    return api_.cuMemcpyAsync(copy.target, copy.source, copy.bytes, stream_);
  });
  if (!status.ok()) failure_.set(status.error());
  return status;
}

// Separate from copy_one(), which stays short.
Status CudaStream::push_one(const OneCopy& copy) {
  return push(CopyWork{{copy.target}, {copy.source}, {copy.bytes}});
}

Status CudaStream::run(std::function<Status()> work) {
  CAUSEWAY_CHECK(work != nullptr, "no work to run");
  const std::lock_guard lock(mutex_);
  CAUSEWAY_TRY(start_thread());
  return push(RunWork{std::move(work)}, Way::kQueued);
}

Status CudaStream::enqueue(Launch launch) {
  CAUSEWAY_CHECK(launch != nullptr, "nothing to launch");
  const std::lock_guard lock(mutex_);
  CAUSEWAY_TRY(failure());
  return push(LaunchWork{std::move(launch)});
}

// Compares types only, because dynamic_cast costs as much as a lock.
const CudaEvent& CudaStream::own(const Event& event) const {
  const bool of_cuda = typeid(event) == typeid(CudaEvent);
  CAUSEWAY_CHECK(of_cuda && &static_cast<const CudaEvent&>(event).board() == &machine_.events,
                 "the event belongs to another machine");
  return static_cast<const CudaEvent&>(event);
}

Status CudaStream::record(Event& event) {
  const CudaEvent& end = own(event);
  const std::lock_guard lock(mutex_);
  return mark(end, CudaScope(api_, context_.handle()));
}

Status CudaStream::mark(const CudaEvent& event, const CudaScope& scope) {
  if (!deferred()) return machine_.events.record(event, context_, scope, stream_, failure_);
  CAUSEWAY_ASSIGN(const CudaRecord record, machine_.events.begin(event.id()));
  const bool full = queue_.size() >= kQueueMax;
  Status pushed = push(RecordWork{record});
  // The record exists, so a thread may wait for it already.
  if (full) machine_.events.complete(record, pushed.error());
  return pushed;
}

Status CudaStream::wait(const Event& event) {
  const CudaRecord record = machine_.events.latest(own(event).id());
  if (record.record == 0) return {};
  const std::lock_guard lock(mutex_);
  if (!deferred()) {
    const Result<bool> issued = machine_.events.wait_in(record, context_, stream_);
    if (!issued.ok()) failure_.set(issued.error());
    if (!issued.ok() || *issued) return {};
    CAUSEWAY_TRY(start_thread());
  }
  machine_.events.add_waiter(record);
  Status pushed = push(WaitWork{record}, Way::kQueued);
  if (!pushed.ok()) machine_.events.drop_waiter(record);
  return pushed;
}

const CudaSemaphore& CudaStream::own(const Semaphore& semaphore) const {
  const bool of_cuda = typeid(semaphore) == typeid(CudaSemaphore);
  CAUSEWAY_CHECK(
      of_cuda && &static_cast<const CudaSemaphore&>(semaphore).pool() == &machine_.semaphores,
      "the semaphore belongs to another machine");
  return static_cast<const CudaSemaphore&>(semaphore);
}

Status CudaStream::signal(Semaphore& semaphore, std::uint32_t value) {
  const CudaSemaphore& counter = own(semaphore);
  const std::lock_guard lock(mutex_);
  return push(SignalWork{&counter, value});
}

Status CudaStream::wait(const Semaphore& semaphore, std::uint32_t value) {
  const CudaSemaphore& counter = own(semaphore);
  if (reached(counter.value(), value)) return {};
  const std::lock_guard lock(mutex_);
  return push(AwaitWork{&counter, value});
}

Status CudaStream::synchronize(Nanos timeout) {
  CudaEvent mark(machine_.events);
  CAUSEWAY_TRY(record(mark));
  const Status reached = mark.wait(timeout);
  if (!reached.ok() && reached.error().code == ErrorCode::kDeadlineExceeded) {
    return reached.error().with_context(failure_.label());
  }
  const std::lock_guard lock(mutex_);
  CAUSEWAY_TRY(failure());
  return reached;
}

Status CudaStream::push(Work work, Way way) {
  if (queue_.size() >= kQueueMax) return failure_.full(kQueueMax);
  if (way == Way::kQueued || deferred()) {
    queue_.push_back(std::move(work));
    changed_.notify_all();
    return {};
  }
  Status status = perform(work, failure_.first());
  if (!status.ok()) failure_.set(status.error());
  return status;
}

Status CudaStream::start_thread() {
  if (thread_.joinable()) return {};
  try {
    thread_ = std::thread([this] { loop(); });
  } catch (const std::system_error& failure) {
    return exhausted("no thread for " + failure_.label() + ": " + failure.what());
  }
  return {};
}

Status CudaStream::failure() const {
  CAUSEWAY_TRY(failure_.status());
  return context_.physical().health();
}

void CudaStream::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_.load() || !queue_.empty(); });
    if (stop_.load()) return cancel_rest();
    Work work = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    const std::optional<Error> failed = failure_.first();
    lock.unlock();
    const Status status = perform(work, failed);
    work = RunWork{};  // freed before a waiter learns that it is done
    lock.lock();
    busy_ = false;
    if (!status.ok()) failure_.set(status.error());
  }
}

void CudaStream::cancel_rest() {
  const Error cancelled = failure_.cancelled();
  for (Work& work : queue_) {
    if (const auto* mark = std::get_if<RecordWork>(&work)) {
      machine_.events.complete(mark->record, failure_.first().value_or(cancelled));
    } else if (const auto* wait = std::get_if<WaitWork>(&work)) {
      machine_.events.drop_waiter(wait->record);
    }
  }
  queue_.clear();
}

Status CudaStream::perform(Work& work, const std::optional<Error>& failed) {
  if (const auto* mark = std::get_if<RecordWork>(&work)) {
    return machine_.events.issue(mark->record, context_, stream_, failed);
  }
  if (const auto* wait = std::get_if<WaitWork>(&work)) {
    Status status = failed ? Status() : perform_wait(wait->record);
    machine_.events.drop_waiter(wait->record);
    return status;
  }
  if (failed) return {};
  if (auto* copies = std::get_if<CopyWork>(&work)) return issue_copies(*copies);
  if (const auto* launched = std::get_if<LaunchWork>(&work)) return launch(launched->launch);
  if (const auto* signal = std::get_if<SignalWork>(&work)) return perform_signal(*signal);
  if (const auto* wait = std::get_if<AwaitWork>(&work)) return perform_await(*wait);
  CAUSEWAY_TRY(drain(seconds(365 * 24 * 3600), true));
  return std::get<RunWork>(work).work();
}

Status CudaStream::perform_wait(const CudaRecord& record) {
  machine_.events.wait_issued(record, stop_);
  CAUSEWAY_ASSIGN(const bool issued, machine_.events.wait_in(record, context_, stream_));
  if (issued) return {};
  return Error{ErrorCode::kCancelled, "the wait was cancelled with its stream"};
}

// The GPU stores the value unconditionally, so a value that is reached already is not written.
Status CudaStream::perform_signal(const SignalWork& signal) {
  if (reached(signal.semaphore->value(), signal.value)) return {};
  return context_.call("cuStreamWriteValue32", [&] {
    return api_.cuStreamWriteValue32_v2(stream_, signal.semaphore->seen(), signal.value,
                                        kCudaWriteDefault);
  });
}

Status CudaStream::perform_await(const AwaitWork& wait) {
  if (reached(wait.semaphore->value(), wait.value)) return {};
  machine_.waits.note(wait.semaphore->word(), wait.value);
  return context_.call("cuStreamWaitValue32", [&] {
    return api_.cuStreamWaitValue32_v2(stream_, wait.semaphore->seen(), wait.value,
                                       kCudaWaitGreaterOrEqual);
  });
}

// On a stream of a green context a batch crashes the process inside the driver (CUDA 13 on an
// H100): there each copy is issued by itself, at some 2 µs each.
Status CudaStream::issue_copies(CopyWork& work) {
  const std::size_t count = work.bytes.size();
  if (count > 1 && !context_.green()) {
    int capturing = 0;  // CU_STREAM_CAPTURE_STATUS_NONE
    CAUSEWAY_TRY(context_.call("cuStreamIsCapturing",
                               [&] { return api_.cuStreamIsCapturing(stream_, &capturing); }));
    if (capturing == 0) return issue_batch(work);
  }
  for (std::size_t i = 0; i < count; ++i) {
    CAUSEWAY_TRY(context_.call("cuMemcpyAsync", [&] {
      return api_.cuMemcpyAsync(work.targets[i], work.sources[i], work.bytes[i], stream_);
    }));
  }
  return {};
}

// One attribute for all copies: sources are read in stream order, because the work just before may
// have written a source.
Status CudaStream::issue_batch(CopyWork& work) {
  CudaCopyAttributes attributes;
  attributes.source_order = kCudaSourceOrderStream;
  std::size_t first = 0;
  return context_.call("cuMemcpyBatchAsync", [&] {
    return api_.cuMemcpyBatchAsync_v2(work.targets.data(), work.sources.data(), work.bytes.data(),
                                      work.bytes.size(), &attributes, &first, 1, stream_);
  });
}

Status CudaStream::launch(const Launch& launch) {
  Status launched;
  CAUSEWAY_TRY(context_.call("cuCtxPushCurrent", [&] {
    launched = launch(stream_);
    return kCudaSuccess;
  }));
  if (launched.ok()) return {};
  // The launcher does not use the driver's table, so the driver is asked whether the GPU is lost.
  const int state = api_.cuStreamQuery(stream_);
  if (cuda_context_lost(state)) return context_.physical().check(state, "cuStreamQuery");
  return launched;
}

// Waits until the CUDA stream is empty. With `stoppable`, kCancelled when the stream is destroyed.
Status CudaStream::drain(Nanos timeout, bool stoppable) {
  return poll_until(
      [&]() -> Result<bool> {
        if (stoppable && stop_.load()) return failure_.cancelled();
        CAUSEWAY_TRY(context_.physical().health());
        int result = kCudaSuccess;
        CAUSEWAY_TRY(context_.call("cuStreamQuery", [&] {
          result = api_.cuStreamQuery(stream_);
          return result == kCudaNotReady ? kCudaSuccess : result;
        }));
        return result == kCudaSuccess;
      },
      timeout, [&](Nanos most) { machine_.events.pause(most); });
}

}  // namespace causeway::device
