#include "preload/session.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <system_error>
#include <utility>

#include "base/dcheck.h"
#include "preload/link_choice.h"
#include "preload/own_threads.h"
#include "preload/pointers.h"

namespace causeway::preload {
namespace {

using transfer::Direction;

constexpr int kCudaUnknownError = 999;
constexpr Nanos kNever = Nanos(std::numeric_limits<std::int64_t>::max());
// A program may hold up its stream for as long as it likes.
constexpr Nanos kForever = seconds(10LL * 365 * 24 * 3600);
constexpr Nanos kRescueMax = seconds(20);
constexpr Nanos kSpinMax = millis(50);
constexpr std::chrono::microseconds kPause(200);
// A stand-in that has not started by then may be in a context that has died.
constexpr Nanos kSuspicious = millis(100);

Bytes total_of(std::span<const CopyCall> copies) {
  Bytes total;
  CAUSEWAY_DCHECK(!copies.empty(), "a call that copies nothing");
  for (const CopyCall& copy : copies) total += Bytes(static_cast<std::int64_t>(copy.bytes));
  return total;
}

device::MemoryAddress address_of(CudaDevicePointer pointer, device::DeviceId device) {
  CAUSEWAY_DCHECK(pointer <= std::numeric_limits<std::int64_t>::max(),
                  "memory that the driver knows has an address that an offset holds");
  device::MemoryAddress address;
  address.device = device;
  address.offset = Bytes(static_cast<std::int64_t>(pointer));
  return address;
}

// Disables cancellation of the thread: a thread that was cancelled while it waits would free its
// stack, which the engine writes to.
class Uncancelled {
 public:
  Uncancelled() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~Uncancelled() { ::pthread_setcancelstate(before_, nullptr); }
  Uncancelled(const Uncancelled&) = delete;
  Uncancelled& operator=(const Uncancelled&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// While another thread captures a graph, the program's thread may not ask about events, unless its
// capture mode is relaxed. This relaxes it for a while.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Native& native) : native_(native) {
    (void)native_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  ~RelaxedCapture() { (void)native_.cuThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Native& native_;
  int mode_ = kCudaCaptureRelaxed;
};

}  // namespace

// A caller that waits. It lies on the caller's stack.
struct Session::Waiter {
  enum State { kWaiting, kMoved, kNotMoved };
  std::atomic<int> state{kWaiting};
  Pending* pending = nullptr;  // while the copy is in pending_
  FlagUse use;
};

// A copy that was taken over. It is the event that tells the engine to start, and the engine's
// listener.
class Session::Pending final : public device::Event, public transfer::TransferListener {
 public:
  Pending(Session& owner, FlagUse its_use, Nanos taken_at)
      : session(owner), use(its_use), since(taken_at) {}

  Result<bool> done() const override {
    if (abandoned.load()) return Error{ErrorCode::kCancelled, "the copy was let go"};
    return use.started();
  }
  Status wait(Nanos /*timeout*/) const override { return unsupported("the engine polls"); }
  Result<Nanos> completed_at() const override { return unsupported("a flag keeps no time"); }
  void transfer_ended(const Status& outcome) override { session.ended(*this, outcome); }

  Session& session;
  const FlagUse use;
  const Nanos since;
  bool hold() const { return waiter == nullptr; }

  std::vector<CopyCall> copies;
  int link = 0;
  Waiter* waiter = nullptr;  // none: the stream is held
  std::atomic<bool> abandoned{false};
  bool told = false;  // the keeper has told how long it takes
};

Session::Session(const Native& native, const SessionOptions& options, Statistics& statistics,
                 const Clock& clock)
    : native_(native), options_(options), statistics_(statistics), clock_(clock) {}

Result<std::unique_ptr<Session>> Session::open(const Native& native, const SessionOptions& options,
                                               Statistics& statistics, const Clock& clock) {
  CAUSEWAY_TRY(check_complete(native));
  auto session = std::make_unique<Session>(native, options, statistics, clock);
  CAUSEWAY_TRY(session->start());
  return session;
}

Status Session::start() {
  const Settings& settings = options_.settings;
  CAUSEWAY_ASSIGN(const device::CudaFacts facts, device::ask_cuda(native_.api));
  GpusOptions gpus;
  std::vector<int> all(static_cast<std::size_t>(std::min(facts.devices, transfer::kLinksMax)));
  std::iota(all.begin(), all.end(), 0);
  gpus.gpus = settings.gpus.value_or(all);
  gpus.relays = settings.relays.value_or(gpus.gpus);
  gpus.staging = settings.staging;
  if (gpus.gpus.size() < 2 || gpus.relays.empty()) {
    return unavailable("there is one GPU only, or none may relay: every copy is native");
  }
  CAUSEWAY_ASSIGN(gpus_, Gpus::open(native_, gpus, clock_));
  for (int link = 0; link < gpus_->count(); ++link) {
    CAUSEWAY_TRY(gpus_->prepare(link));
    for (int relay = 0; relay < gpus_->count(); ++relay) {
      if (gpus_->can_relay(relay, link)) helped_ = helped_.with(gpus_->ordinal(link));
    }
  }
  CAUSEWAY_DCHECK(gpus_->count() <= transfer::kLinksMax, "more links than a set holds");
  if (helped_.empty()) return unavailable("no GPU reaches another: every copy is native");
  const device::CudaScope scope(native_.api, gpus_->context(0).handle());
  CAUSEWAY_ASSIGN(flags_, Flags::create(native_));
  CAUSEWAY_ASSIGN(stand_in_, make_stand_in(native_, settings.order, gpus_->primaries()));
  CAUSEWAY_TRY(make_own_streams());
  const OwnThreads ours;
  CAUSEWAY_TRY(make_engine());
  try {
    keeper_ = std::thread([this] { keep(); });
  } catch (const std::system_error& failure) {
    return exhausted(std::string("no thread for the session: ") + failure.what());
  }
  return {};
}

Status Session::make_engine() {
  const Settings& settings = options_.settings;
  transfer::TransferEngineOptions engine = options_.engine;
  engine.dispatch.depth = settings.depth;
  engine.dispatch.chunk_bytes = {settings.chunk, settings.chunk};
  engine.dispatch.multipath_bytes_min = settings.threshold;
  engine.dispatch.chunk_bytes_min = std::min(engine.dispatch.chunk_bytes_min, settings.chunk);
  engine.staging_bytes_max = settings.staging;
  engine.after_time_max = kForever;
  // A copy that may still write would corrupt memory that is used for something else.
  engine.drain_max = kForever;
  engine.poll_pause = micros(2);
  engine.poll_pause_max = micros(20);
  std::vector<transfer::EngineLink> links;
  for (int link = 0; link < gpus_->count(); ++link) links.push_back({{&gpus_->device(link)}});
  CAUSEWAY_DCHECK(!links.empty(), "an engine without a link");
  CAUSEWAY_ASSIGN(
      engine_,
      transfer::TransferEngine::create(
          std::move(engine), std::move(links),
          paths_for(*gpus_, settings.link_map, settings.link_map_folder, options_.say), clock_));
  return {};
}

Status Session::make_own_streams() {
  for (int link = 0; link < gpus_->count(); ++link) {
    for (auto* streams : {&rescue_streams_, &copy_streams_}) {
      CAUSEWAY_ASSIGN(CUstream_st* const stream, gpus_->context(link).make_stream(0, 2));
      streams->push_back(stream);
    }
  }
  CAUSEWAY_DCHECK(std::ssize(rescue_streams_) == gpus_->count() &&
                      rescue_streams_.size() == copy_streams_.size(),
                  "a link without a stream for rescues or for copies");
  return {};
}

Session::~Session() {
  close(seconds(1));
  for (const auto* streams : {&rescue_streams_, &copy_streams_}) {
    for (std::size_t link = 0; link < streams->size() && !gpus_->stopped(); ++link) {
      gpus_->context(static_cast<int>(link)).destroy_stream((*streams)[link]);
    }
  }
}

bool Session::leave(Verdict verdict, Bytes bytes) {
  statistics_.count(verdict, bytes);
  return false;
}

Decision Session::decide_for(std::span<const CopyCall> copies, CUstream_st* stream) const {
  CopyFacts facts;
  facts.bytes = total_of(copies);
  if (facts.bytes < options_.settings.threshold) return {Verdict::kSmall};
  int capturing = 0;
  // Calls that fail here (no context, a capture that forbids the default stream) fail natively,
  // too.
  if (native_.api.cuStreamIsCapturing(stream, &capturing) != device::kCudaSuccess) {
    return {Verdict::kCapturing};
  }
  facts.capturing = capturing != 0;
  Pointers pointers(native_, gpus_->primaries());
  Decision first;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    facts.target = pointers.at(copies[i].target, copies[i].bytes);
    facts.source = pointers.at(copies[i].source, copies[i].bytes);
    const Decision decision = decide(facts, options_.settings.threshold, helped_);
    if (decision.verdict != Verdict::kMultipath) return decision;
    if (i == 0) first = decision;
    if (decision.direction != first.direction || decision.gpu != first.gpu) {
      return {Verdict::kNotHostGpu};
    }
  }
  CAUSEWAY_DCHECK(gpus_->link_of(first.gpu) >= 0, "only GPUs with a link are helped");
  return first;
}

// Counts first and then checks; Settled and retire() do it in the opposite order, so one sees the
// other.
std::optional<Verdict> Session::may_begin(bool hold) {
  pending_count_.fetch_add(1);
  if (hold) held_count_.fetch_add(1);
  if (!closing_.load() && (!hold || settling_.load() == 0)) return {};
  CAUSEWAY_DCHECK(pending_count_.load() > 0, "a place is given up that was not taken");
  give_up_place(hold);
  return closing_.load() ? Verdict::kOff : Verdict::kSettling;
}

bool Session::copy(std::span<const CopyCall> copies, CUstream_st* stream, bool synchronous) {
  CAUSEWAY_DCHECK(stream != nullptr, "the default streams have names");
  const Bytes total = total_of(copies);
  const Async async = options_.settings.async;
  if (!synchronous && async == Async::kNative) return leave(Verdict::kAsynchronous, total);
  if (synchronous && options_.settings.native_sync) return leave(Verdict::kSynchronous, total);
  if (!closing_.load() && !gpus_->same_contexts()) {
    gpus_->stop();
    retire(Nanos());
  }
  if (closing_.load()) return leave(Verdict::kOff, total);
  const Decision decision = decide_for(copies, stream);
  if (decision.verdict != Verdict::kMultipath) return leave(decision.verdict, total);
  const bool hold = !synchronous && async == Async::kHold;
  if (const auto refused = may_begin(hold)) return leave(*refused, total);
  const Uncancelled until_it_is_done;
  Waiter waiter;
  if (const auto refused = take_over(decision, copies, stream, hold ? nullptr : &waiter)) {
    return leave(*refused, total);
  }
  const Nanos start_by = synchronous ? kNever : clock_.now() + options_.start_max;
  if (!hold && !await(waiter, start_by)) {
    return leave(synchronous ? Verdict::kRefused : Verdict::kBusy, total);
  }
  statistics_.count(Verdict::kMultipath, total);
  return true;
}

// Places the stand-in first: should the engine refuse, the stream is released, and the native call
// follows in the same order.
std::optional<Verdict> Session::take_over(const Decision& decision,
                                          std::span<const CopyCall> copies, CUstream_st* stream,
                                          Waiter* waiter) {
  const bool hold = waiter == nullptr;
  const auto use = flags_->take();
  if (!use) {
    give_up_place(hold);
    return Verdict::kExhausted;
  }
  if (!stand_in_->place(stream, *use, hold).ok()) {
    // Part of the stand-in may still write its flag, so the pair is not used again.
    give_up_place(hold);
    return Verdict::kRefused;
  }
  CAUSEWAY_DCHECK(decision.verdict == Verdict::kMultipath, "a native copy is taken over");
  auto owned = std::make_unique<Pending>(*this, *use, clock_.now());
  Pending& pending = *owned;
  pending.copies.assign(copies.begin(), copies.end());
  pending.link = gpus_->link_of(decision.gpu);
  CAUSEWAY_DCHECK(pending.link >= 0, "a copy for a GPU that has no link");
  pending.waiter = waiter;
  if (!hold) {
    waiter->pending = &pending;
    waiter->use = *use;
  }
  transfer::TransferRequest request = request_for(decision.direction, pending);
  {
    const std::lock_guard lock(mutex_);
    pending_.emplace(&pending, std::move(owned));
    changed_.notify_all();  // the keeper
  }
  if (engine_->submit(std::move(request)).ok()) return {};
  use->release();
  flags_->give_back(*use);
  forget(pending);
  return Verdict::kRefused;
}

transfer::TransferRequest Session::request_for(Direction direction, Pending& pending) const {
  CAUSEWAY_DCHECK(pending.link < gpus_->count(), "a transfer goes to a link that there is");
  transfer::TransferRequest request;
  request.direction = direction;
  request.target = gpus_->device(pending.link).id();
  for (const CopyCall& copy : pending.copies) {
    const bool in = direction == Direction::kIn;
    request.segments.push_back({address_of(in ? copy.source : copy.target, {}),
                                address_of(in ? copy.target : copy.source, request.target),
                                Bytes(static_cast<std::int64_t>(copy.bytes))});
  }
  request.after = &pending;
  request.listener = &pending;
  return request;
}

// Waits until the copy has ended; returns whether the bytes are in place. Like the native call, it
// polls at first.
bool Session::await(Waiter& waiter, Nanos start_by) {
  CAUSEWAY_DCHECK(waiter.use.pair != nullptr, "only a copy that was taken over is waited for");
  const Nanos spin_until = clock_.now() + kSpinMax;
  while (waiter.state.load(std::memory_order_acquire) == Waiter::kWaiting) {
    const Nanos now = clock_.now();
    if (now > start_by) {
      if (!waiter.use.started()) let_go(waiter);
      start_by = kNever;
    }
    if (now < spin_until) {
      std::this_thread::yield();
      continue;
    }
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(1));
  }
  return waiter.state.load() == Waiter::kMoved;
}

// Ends the copy without a byte moved, unless the engine has begun with it.
void Session::let_go(const Waiter& waiter) {
  CAUSEWAY_DCHECK(waiter.pending != nullptr, "only a copy that was taken over is let go");
  const std::lock_guard lock(mutex_);
  const auto found = pending_.find(waiter.pending);
  if (found == pending_.end()) return;
  // Another copy may lie at the address of the waiter's copy once that has ended.
  if (found->second->waiter == &waiter) found->second->abandoned.store(true);
}

// Called on the engine's thread, or on that of close().
void Session::ended(Pending& pending, const Status& outcome) {
  if (outcome.ok()) return finish(pending, true);
  if (!pending.hold() || pending.abandoned.load()) return finish(pending, false);
  const std::lock_guard lock(mutex_);
  CAUSEWAY_DCHECK(std::find(failed_.begin(), failed_.end(), &pending) == failed_.end(),
                  "the engine tells the end of a copy once");
  failed_.push_back(&pending);
  changed_.notify_all();
}

void Session::finish(Pending& pending, bool moved) {
  // The flags are destroyed with the contexts.
  if (!gpus_->stopped()) {
    pending.use.release();
    flags_->give_back(pending.use);
  }
  Waiter* const waiter = pending.waiter;
  CAUSEWAY_DCHECK(waiter == nullptr || waiter->state.load() == Waiter::kWaiting,
                  "a copy ends twice");
  forget(pending);
  if (waiter != nullptr) {
    waiter->state.store(moved ? Waiter::kMoved : Waiter::kNotMoved, std::memory_order_release);
  }
}

void Session::forget(const Pending& pending) {
  const std::lock_guard lock(mutex_);
  CAUSEWAY_DCHECK(pending_.contains(&pending), "a copy is forgotten twice");
  CAUSEWAY_DCHECK(std::ssize(pending_) <= pending_count_.load(), "copies are miscounted");
  if (pending.hold()) held_count_.fetch_sub(1);
  pending_.erase(&pending);
  pending_count_.fetch_sub(1);
  changed_.notify_all();
}

void Session::give_up_place(bool hold) {
  const std::lock_guard lock(mutex_);
  CAUSEWAY_DCHECK(pending_count_.load() > 0 && (!hold || held_count_.load() > 0),
                  "a place is given up that was not taken");
  if (hold) held_count_.fetch_sub(1);
  pending_count_.fetch_sub(1);
  changed_.notify_all();
}

bool Session::wait_until_none(const std::atomic<int>& count, Nanos timeout) {
  CAUSEWAY_DCHECK(timeout >= Nanos(0), "a wait of a negative length");
  if (count.load() == 0) return true;
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::nanoseconds(timeout.count),
                           [&] { return count.load() == 0; });
}

Session::Settled::Settled(Session& session, Nanos most) : session_(session) {
  const Uncancelled meanwhile;
  session_.settling_.fetch_add(1);
  (void)session_.wait_until_none(session_.held_count_, most);
}

// Asks until the driver's answer is another than "not ready".
template <typename Ask>
int Session::poll_outside(Ask ask) {
  const Nanos spin_until = clock_.now() + kSpinMax;
  for (int result = ask();; result = ask()) {
    if (result != device::kCudaNotReady) return result;
    if (clock_.now() < spin_until) {
      std::this_thread::yield();
      continue;
    }
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPause);
  }
}

// The driver's answer about the work in the stream, once that is done, however long it takes: the
// native call would wait as long. nullopt: no stream is held any more, or the answer cannot be had.
std::optional<int> Session::wait_while_held(CUstream_st* stream) {
  CUevent_st* event = nullptr;
  if (native_.api.cuEventCreate(&event, device::kCudaEventDisableTiming) != device::kCudaSuccess) {
    return {};
  }
  bool known = native_.api.cuEventRecord(event, stream) == device::kCudaSuccess;
  const int result = !known ? device::kCudaSuccess : poll_outside([&] {
    const int answer = native_.api.cuEventQuery(event);
    if (answer != device::kCudaNotReady) return answer;
    known = held_count_.load() > 0 && !closing_.load();
    return known ? answer : device::kCudaSuccess;
  });
  native_.api.cuEventDestroy_v2(event);
  if (!known) return {};
  return result;
}

// The link of the stream's context; null streams belong to the current context.
std::optional<int> Session::link_of(CUstream_st* stream) const {
  const bool named = stream == kLegacyStream || stream == kThreadStream;
  CUctx_st* context = nullptr;
  if (!named && native_.cuStreamGetCtx == nullptr) return {};
  const int asked =
      named ? native_.api.cuCtxGetCurrent(&context) : native_.cuStreamGetCtx(stream, &context);
  if (asked != device::kCudaSuccess) return {};
  for (int link = 0; link < gpus_->count(); ++link) {
    if (gpus_->context(link).handle() == context) return link;
  }
  return {};
}

std::optional<int> Session::copy_outside(std::span<const CopyCall> copies, CUstream_st* stream) {
  if (held_count_.load() == 0 || closing_.load() || !gpus_->same_contexts()) return {};
  const auto link = link_of(stream);
  if (!link) return {};
  const Uncancelled until_it_is_done;
  const RelaxedCapture meanwhile(native_);
  const device::CudaScope scope(native_.api, gpus_->context(*link).handle());
  if (scope.result() != device::kCudaSuccess) return {};
  const auto before = wait_while_held(stream);
  if (!before) return {};
  CAUSEWAY_DCHECK(*link < std::ssize(copy_streams_), "a link without a stream of ours");
  CUstream_st* const own = copy_streams_[static_cast<std::size_t>(*link)];
  int result = *before;
  for (std::size_t i = 0; i < copies.size() && result == device::kCudaSuccess; ++i) {
    result = native_.api.cuMemcpyAsync(copies[i].target, copies[i].source, copies[i].bytes, own);
  }
  const int ended = poll_outside([&] { return native_.api.cuStreamQuery(own); });
  return result != device::kCudaSuccess ? result : ended;
}

void Session::keep() {
  relax_capture(native_);
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (pending_.empty()) {
      changed_.wait(lock, [&] { return stop_ || !pending_.empty(); });
      continue;
    }
    if (failed_.empty()) {
      changed_.wait_for(lock, std::chrono::nanoseconds(options_.look_every.count),
                        [&] { return stop_ || !failed_.empty(); });
    }
    const std::vector<Pending*> failed = std::exchange(failed_, {});
    CAUSEWAY_DCHECK(failed.size() <= pending_.size(), "what failed is pending until it is rescued");
    lock.unlock();
    for (Pending* pending : failed) finish_failed(*pending);
    look_for_dead_contexts();
    tell_of_long_copies();
    lock.lock();
  }
}

// The failed copy of a held stream. When the session is closed the process ends, and with it all
// that could read the bytes. While the bytes can still arrive the stream stays held, because late
// bytes are better than wrong ones.
void Session::finish_failed(Pending& pending) {
  if (closing_.load()) return finish(pending, false);
  CAUSEWAY_DCHECK(pending.hold(), "a caller that waits makes the native copy itself");
  Status moved = rescue(pending);
  while (!moved.ok() && moved.error().code == ErrorCode::kDeadlineExceeded && !closing_.load()) {
    options_.say("a copy of " + std::to_string(total_of(pending.copies).count) +
                 " bytes does not end: CAUSEWAY_ASYNC=native if the program hangs");
    moved = wait_for_rescue(pending);
  }
  ++(moved.ok() ? statistics_.rescued : statistics_.lost);
  if (!moved.ok() && !closing_.load()) {
    failure_.store(kCudaUnknownError);
    options_.say("a copy could not be made, and later ones return an error: " +
                 moved.error().message);
  }
  finish(pending, moved.ok());
}

// Makes the whole copy natively, as the program asked for it.
Status Session::rescue(const Pending& pending) {
  CAUSEWAY_DCHECK(pending.link < std::ssize(rescue_streams_), "a link without a stream of ours");
  CUstream_st* const stream = rescue_streams_[static_cast<std::size_t>(pending.link)];
  for (const CopyCall& copy : pending.copies) {
    CAUSEWAY_TRY(gpus_->call(pending.link, "cuMemcpyAsync", [&] {
      return native_.api.cuMemcpyAsync(copy.target, copy.source, copy.bytes, stream);
    }));
  }
  return wait_for_rescue(pending);
}

Status Session::wait_for_rescue(const Pending& pending) {
  CUstream_st* const stream = rescue_streams_[static_cast<std::size_t>(pending.link)];
  return device::poll_until(
      [&]() -> Result<bool> {
        int result = device::kCudaSuccess;
        CAUSEWAY_TRY(gpus_->call(pending.link, "cuStreamQuery", [&] {
          result = native_.api.cuStreamQuery(stream);
          return result == device::kCudaNotReady ? device::kCudaSuccess : result;
        }));
        return result == device::kCudaSuccess;
      },
      kRescueMax,
      [&](Nanos most) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, std::chrono::nanoseconds(most.count));
      });
}

// Tells the user the reason why the program seems to hang.
void Session::tell_of_long_copies() {
  const Nanos now = clock_.now();
  bool tell = false;
  {
    const std::lock_guard lock(mutex_);
    if (closing_.load()) return;
    for (const auto& [address, pending] : pending_) {
      if (!pending->hold() || pending->told || now - pending->since < options_.long_copy) continue;
      if (pending->use.started()) tell = pending->told = true;
    }
  }
  if (tell) {
    options_.say(
        "a stream has been held up for long by a copy that does not end: CAUSEWAY_ASYNC=native "
        "if the program hangs");
  }
}

// A copy that waits in a dead context never starts. The context of a held stream is not known. A
// stream that goes on all the same does so without its bytes, and the program must be told.
void Session::look_for_dead_contexts() {
  const Nanos now = clock_.now();
  const auto suspicious = [&](const Pending& pending) {
    if (pending.abandoned.load() || gpus_->stopped()) return false;
    return !pending.use.started() && now - pending.since > kSuspicious;
  };
  {
    const std::lock_guard lock(mutex_);
    const bool any = std::any_of(pending_.begin(), pending_.end(),
                                 [&](const auto& entry) { return suspicious(*entry.second); });
    if (!any) return;
  }
  if (gpus_->health().ok() || gpus_->stopped()) return;
  const std::lock_guard lock(mutex_);
  for (const auto& [address, pending] : pending_) {
    if (!suspicious(*pending)) continue;
    if (pending->hold()) failure_.store(kCudaUnknownError);
    pending->abandoned.store(true);
  }
}

void Session::retire(Nanos grace) {
  if (closing_.exchange(true)) return;
  (void)wait_until_none(pending_count_, grace);
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [address, pending] : pending_) {
      pending->abandoned.store(true);
      if (pending->hold() && !gpus_->stopped()) pending->use.release();
    }
  }
  gpus_->stop();
}

void Session::close(Nanos grace) {
  closing_.store(true);
  if (keeper_.joinable()) {
    (void)wait_until_none(pending_count_, grace);
    engine_.reset();  // tells every listener
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      changed_.notify_all();
    }
    keeper_.join();
    for (Pending* pending : std::exchange(failed_, {})) finish_failed(*pending);
  }
  engine_.reset();
  CAUSEWAY_DCHECK(pending_.empty() && failed_.empty(), "no copy outlives the engine");
}

transfer::TransferStats Session::traffic() const {
  return engine_ == nullptr ? transfer::TransferStats() : engine_->stats();
}

}  // namespace causeway::preload
