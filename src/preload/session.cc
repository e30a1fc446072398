#include "preload/session.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <system_error>
#include <utility>

#include "preload/link_choice.h"
#include "preload/pointers.h"

namespace causeway::preload {
namespace {

using transfer::Direction;

// A stream may be held up by its program for as long as it likes.
constexpr Nanos kForever = seconds(10LL * 365 * 24 * 3600);
constexpr Nanos kSettleMax = seconds(2);
constexpr Nanos kRescueMax = seconds(20);
constexpr Nanos kSpinMax = millis(50);
// A stand-in that has not started by then may be in a context that has died.
constexpr Nanos kSuspicious = millis(100);

Bytes total_of(std::span<const CopyCall> copies) {
  Bytes total;
  for (const CopyCall& copy : copies) total += Bytes(static_cast<std::int64_t>(copy.bytes));
  return total;
}

device::MemoryAddress address_of(CudaDevicePointer pointer, device::DeviceId device) {
  device::MemoryAddress address;
  address.device = device;
  address.offset = Bytes(static_cast<std::int64_t>(pointer));
  return address;
}

// The engine's thread looks at flags and events every few microseconds while something is pending;
// threads inherit how exactly they are woken.
class ExactTimers {
 public:
  ExactTimers() : before_(::prctl(PR_GET_TIMERSLACK)) { ::prctl(PR_SET_TIMERSLACK, 1UL); }
  ~ExactTimers() {
    if (before_ > 0) ::prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(before_));
  }
  ExactTimers(const ExactTimers&) = delete;
  ExactTimers& operator=(const ExactTimers&) = delete;

 private:
  const int before_;
};

}  // namespace

// A caller that waits. Lives on its stack.
struct Session::Waiter {
  enum State { kWaiting, kMoved, kNotMoved };
  std::atomic<int> state{kWaiting};
};

// A copy that was taken over: the engine's start notice and its listener.
class Session::Pending final : public device::Event, public transfer::TransferListener {
 public:
  Pending(Session& owner, Turn its_turn, Nanos taken_at)
      : session(owner), turn(its_turn), since(taken_at) {}

  Result<bool> done() const override {
    if (abandoned.load()) return Error{ErrorCode::kCancelled, "the copy was let go"};
    return turn.started();
  }
  Status wait(Nanos /*timeout*/) const override { return unsupported("the engine polls"); }
  Result<Nanos> completed_at() const override { return unsupported("a flag keeps no time"); }
  void transfer_ended(const Status& outcome) override { session.ended(*this, outcome); }

  Session& session;
  const Turn turn;
  const Nanos since;
  std::vector<CopyCall> copies;
  int link = 0;
  Waiter* waiter = nullptr;
  std::atomic<bool> abandoned{false};
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
  if (helped_.empty()) return unavailable("no GPU reaches another: every copy is native");
  const device::CudaScope scope(native_.api, gpus_->context(0).handle());
  CAUSEWAY_ASSIGN(flags_, Flags::create(native_));
  CAUSEWAY_ASSIGN(stand_in_, make_stand_in(native_, settings.order, gpus_->primaries()));
  CAUSEWAY_TRY(make_rescue_streams());
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
  engine.dispatch.chunk_bytes_min =
      std::min(engine.dispatch.chunk_bytes_min, settings.chunk);
  engine.staging_bytes_max = settings.staging;
  engine.after_time_max = kForever;
  engine.poll_pause = micros(2);
  engine.poll_pause_max = micros(20);
  std::vector<transfer::EngineLink> links;
  for (int link = 0; link < gpus_->count(); ++link) links.push_back({{&gpus_->device(link)}});
  const ExactTimers exact;
  CAUSEWAY_ASSIGN(engine_, transfer::TransferEngine::create(
                               std::move(engine), std::move(links),
                               paths_for(*gpus_, settings.link_map), clock_));
  return {};
}

Status Session::make_rescue_streams() {
  for (int link = 0; link < gpus_->count(); ++link) {
    CAUSEWAY_ASSIGN(CUstream_st* const stream, gpus_->context(link).make_stream(0, 2));
    rescue_streams_.push_back(stream);
  }
  return {};
}

Session::~Session() {
  close(seconds(1));
  for (std::size_t link = 0; link < rescue_streams_.size(); ++link) {
    gpus_->context(static_cast<int>(link)).destroy_stream(rescue_streams_[link]);
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
  // What fails here (no context, a capture that forbids the default stream) fails natively, too.
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
  return first;
}

bool Session::copy(std::span<const CopyCall> copies, CUstream_st* stream, bool wait) {
  const Bytes total = total_of(copies);
  if (closing_.load()) return leave(Verdict::kOff, total);
  const Decision decision = decide_for(copies, stream);
  if (decision.verdict != Verdict::kMultipath) return leave(decision.verdict, total);
  // First counted, then checked; Settled and close() do it the other way round.
  pending_count_.fetch_add(1);
  if (settling_.load() > 0 || closing_.load()) {
    pending_count_.fetch_sub(1);
    return leave(closing_.load() ? Verdict::kOff : Verdict::kSettling, total);
  }
  Waiter waiter;
  if (const auto refused = take_over(decision, copies, stream, wait ? &waiter : nullptr)) {
    return leave(*refused, total);
  }
  if (wait && !await(waiter)) return leave(Verdict::kRefused, total);
  statistics_.count(Verdict::kMultipath, total);
  return true;
}

// The stand-in first: should the engine refuse, the stream is released and the native call follows
// in the same order.
std::optional<Verdict> Session::take_over(const Decision& decision,
                                          std::span<const CopyCall> copies, CUstream_st* stream,
                                          Waiter* waiter) {
  const auto turn = flags_->take();
  if (!turn) {
    give_up_place();
    return Verdict::kExhausted;
  }
  if (!stand_in_->place(stream, *turn).ok()) {
    // Part of it may still write its flag, so that the pair is never used again.
    give_up_place();
    return Verdict::kRefused;
  }
  auto owned = std::make_unique<Pending>(*this, *turn, clock_.now());
  Pending& pending = *owned;
  pending.copies.assign(copies.begin(), copies.end());
  pending.link = gpus_->link_of(decision.gpu);
  pending.waiter = waiter;
  transfer::TransferRequest request = request_for(decision.direction, pending);
  {
    const std::lock_guard lock(mutex_);
    pending_.emplace(&pending, std::move(owned));
    changed_.notify_all();  // the keeper
  }
  if (engine_->submit(std::move(request)).ok()) return {};
  turn->release();
  flags_->give_back(*turn);
  forget(pending);
  return Verdict::kRefused;
}

transfer::TransferRequest Session::request_for(Direction direction, Pending& pending) const {
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

// Whether the bytes are in place. As the native call does, the caller's thread looks at first.
bool Session::await(Waiter& waiter) {
  const Nanos spin_until = clock_.now() + kSpinMax;
  while (waiter.state.load(std::memory_order_acquire) == Waiter::kWaiting) {
    if (clock_.now() < spin_until) {
      std::this_thread::yield();
      continue;
    }
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(1));
  }
  return waiter.state.load() == Waiter::kMoved;
}

// On the engine's thread, or on that of close().
void Session::ended(Pending& pending, const Status& outcome) {
  if (outcome.ok()) return finish(pending, true);
  if (pending.abandoned.load()) return finish(pending, false);
  const std::lock_guard lock(mutex_);
  failed_.push_back(&pending);
  changed_.notify_all();
}

void Session::finish(Pending& pending, bool moved) {
  pending.turn.release();
  // Of a dead context the stand-in may not have been there yet: its pair is never used again.
  if (moved || pending.turn.started()) flags_->give_back(pending.turn);
  if (pending.waiter != nullptr) {
    pending.waiter->state.store(moved ? Waiter::kMoved : Waiter::kNotMoved,
                                std::memory_order_release);
  }
  forget(pending);
}

void Session::forget(const Pending& pending) {
  const std::lock_guard lock(mutex_);
  pending_.erase(&pending);
  pending_count_.fetch_sub(1);
  changed_.notify_all();
}

void Session::give_up_place() {
  const std::lock_guard lock(mutex_);
  pending_count_.fetch_sub(1);
  changed_.notify_all();
}

bool Session::wait_until_none(Nanos timeout) {
  if (pending_count_.load() == 0) return true;
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::nanoseconds(timeout.count),
                           [&] { return pending_count_.load() == 0; });
}

Session::Settled::Settled(Session& session) : session_(session) {
  session_.settling_.fetch_add(1);
  (void)session_.wait_until_none(kSettleMax);
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
    lock.unlock();
    for (Pending* pending : failed) finish_failed(*pending);
    look_for_dead_contexts();
    lock.lock();
  }
}

// When the session is closed the process ends, and with it all who could read the bytes.
void Session::finish_failed(Pending& pending) {
  bool moved = false;
  if (!closing_.load()) {
    moved = rescue(pending).ok();
    ++(moved ? statistics_.rescued : statistics_.lost);
  }
  finish(pending, moved);
}

// One native copy of it all, as the program asked for.
Status Session::rescue(const Pending& pending) {
  device::CudaContext& context = gpus_->context(pending.link);
  CUstream_st* const stream = rescue_streams_[static_cast<std::size_t>(pending.link)];
  for (const CopyCall& copy : pending.copies) {
    CAUSEWAY_TRY(context.call("cuMemcpyAsync", [&] {
      return native_.api.cuMemcpyAsync(copy.target, copy.source, copy.bytes, stream);
    }));
  }
  return device::poll_until(
      [&]() -> Result<bool> {
        int result = device::kCudaSuccess;
        CAUSEWAY_TRY(context.call("cuStreamQuery", [&] {
          result = native_.api.cuStreamQuery(stream);
          return result == device::kCudaNotReady ? device::kCudaSuccess : result;
        }));
        return result == device::kCudaSuccess;
      },
      kRescueMax, [&](Nanos most) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, std::chrono::nanoseconds(most.count));
      });
}

// What waits in a context that has died never starts.
void Session::look_for_dead_contexts() {
  const Nanos now = clock_.now();
  const auto suspicious = [&](const Pending& pending) {
    return !pending.turn.started() && now - pending.since > kSuspicious;
  };
  {
    const std::lock_guard lock(mutex_);
    const bool any = std::any_of(pending_.begin(), pending_.end(),
                                 [&](const auto& entry) { return suspicious(*entry.second); });
    if (!any) return;
  }
  if (gpus_->health().ok()) return;
  const std::lock_guard lock(mutex_);
  for (const auto& [address, pending] : pending_) {
    if (suspicious(*pending)) pending->abandoned.store(true);
  }
}

void Session::close(Nanos grace) {
  if (closing_.exchange(true)) return;
  if (keeper_.joinable()) {
    (void)wait_until_none(grace);
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
}

transfer::TransferStats Session::traffic() const {
  return engine_ == nullptr ? transfer::TransferStats() : engine_->stats();
}

}  // namespace causeway::preload
