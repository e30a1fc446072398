#include "preload/raw_device.h"

#include "base/dcheck.h"

namespace causeway::preload {
namespace {

using device::Copy;
using device::kCudaNotReady;
using device::kCudaSuccess;

constexpr std::int64_t kCopiesMax = 4'096;
constexpr Nanos kDrainMax = seconds(10);

// Translates the driver's answer to a query.
Result<bool> done_or_not(const Gpus& gpus, int link, const char* call,
                         const std::function<int()>& ask) {
  int result = kCudaSuccess;
  CAUSEWAY_TRY(gpus.call(link, call, [&] {
    result = ask();
    return result == kCudaNotReady ? kCudaSuccess : result;
  }));
  return result == kCudaSuccess;
}

Error no_semaphores() { return unsupported("the preload library has no semaphores"); }

}  // namespace

void relax_capture(const Native& native) {
  thread_local bool relaxed = false;
  if (relaxed) return;
  relaxed = true;
  int mode = kCudaCaptureRelaxed;
  native.cuThreadExchangeStreamCaptureMode(&mode);
}

RawEvent::~RawEvent() {
  for (const auto& [link, native] : natives_) {
    if (!gpus_.stopped()) gpus_.context(link).destroy_event(native);
  }
}

Result<bool> RawEvent::done() const {
  if (last_.native != nullptr) {
    relax_capture(gpus_.native());
    CAUSEWAY_DCHECK(last_.link >= 0, "what was recorded is of a link's context");
    CAUSEWAY_ASSIGN(const bool done, done_or_not(gpus_, last_.link, "cuEventQuery", [&] {
                      return gpus_.native().api.cuEventQuery(last_.native);
                    }));
    if (!done) {
      CAUSEWAY_TRY(gpus_.context(last_.link).physical().health());
      return false;
    }
  }
  if (failure_) return *failure_;
  return true;
}

Status RawEvent::wait(Nanos timeout) const {
  return device::poll_until([this] { return done(); }, timeout, device::pause_alone);
}

Result<Nanos> RawEvent::completed_at() const {
  return unsupported("events of the preload library keep no time");
}

Result<std::unique_ptr<device::Stream>> RawStream::create(Gpus& gpus, int link, std::string name) {
  CAUSEWAY_DCHECK(link >= 0 && link < gpus.count(), "no such link");
  auto stream = std::make_unique<RawStream>(gpus, link, std::move(name));
  CAUSEWAY_TRY(gpus.running());
  relax_capture(gpus.native());
  CAUSEWAY_ASSIGN(stream->home_.native, gpus.context(link).make_stream(0, kUrgencies));
  stream->home_.link = link;
  stream->at_ = stream->home_;
  return std::unique_ptr<device::Stream>(std::move(stream));
}

RawStream::RawStream(Gpus& gpus, int link, std::string name)
    : gpus_(gpus), link_(link), failure_(std::move(name)), moved_(gpus) {}

RawStream::~RawStream() {
  if (home_.native == nullptr) return;
  // Work that has begun must end before its memory is used for something else.
  const Status drained = synchronize(kDrainMax);
  if (!drained.ok() && drained.error().code == ErrorCode::kDeadlineExceeded) {
    gpus_.context(at_.link).physical().declare_hung("work of " + failure_.label() + " did not end");
    return;
  }
  if (!gpus_.stopped()) gpus_.context(home_.link).destroy_stream(home_.native);
}

// Only the first failure is kept.
Status RawStream::keep(Status status) {
  if (!status.ok()) failure_.set(status.error());
  return status;
}

RawStream::End RawStream::resolve(const device::MemoryAddress& address) const {
  End end;
  end.address = static_cast<CudaDevicePointer>(address.offset.count);
  if (!address.device.valid()) return end;
  end.link = static_cast<int>(address.device.value);
  CAUSEWAY_DCHECK(end.link < gpus_.count(), "no such link");
  device::Arena& arena = gpus_.device(end.link).arena();
  if (address.offset < arena.extent_bytes() * arena.extents()) {
    end.staging = true;
    end.address += reinterpret_cast<CudaDevicePointer>(arena.base());
  }
  return end;
}

Result<RawStream::Spot> RawStream::spot_for(const End& target, const End& source) {
  const bool peers = target.link >= 0 && source.link >= 0 && target.link != source.link;
  if (!peers) return home_;
  const bool in = source.staging;
  const int relay = in ? source.link : target.link;
  const int helped = in ? target.link : source.link;
  CAUSEWAY_DCHECK(in || target.staging, "GPU to GPU only through staging");
  if (!gpus_.can_relay(relay, helped)) {
    return unsupported("GPU " + std::to_string(gpus_.ordinal(relay)) + " cannot relay for GPU " +
                       std::to_string(gpus_.ordinal(helped)));
  }
  CAUSEWAY_ASSIGN(CUstream_st* const native, gpus_.peer_stream(helped, relay, in));
  return Spot{helped, native};
}

// Work continues in another native stream once the earlier work of this stream is done.
Status RawStream::go_to(const Spot& spot) {
  CAUSEWAY_DCHECK(spot.native != nullptr && spot.link >= 0, "work goes on in a stream");
  if (spot.native == at_.native) return {};
  CAUSEWAY_TRY(gpus_.running());
  const auto found = moved_.natives_.find(at_.link);
  CUevent_st* event = found == moved_.natives_.end() ? nullptr : found->second;
  if (event == nullptr) {
    CAUSEWAY_ASSIGN(event, gpus_.context(at_.link).make_event());
    moved_.natives_[at_.link] = event;
  }
  CAUSEWAY_TRY(gpus_.call(at_.link, "cuEventRecord",
                          [&] { return gpus_.native().api.cuEventRecord(event, at_.native); }));
  CAUSEWAY_TRY(gpus_.call(spot.link, "cuStreamWaitEvent", [&] {
    return gpus_.native().api.cuStreamWaitEvent(spot.native, event, 0);
  }));
  at_ = spot;
  return {};
}

Status RawStream::copy(std::span<const Copy> copies, device::CopyPriority /*priority*/) {
  relax_capture(gpus_.native());
  // Work after a failure is skipped, and the next event returns the failure: its poller then makes
  // a new stream.
  if (failure_.first()) return {};
  if (std::ssize(copies) > kCopiesMax) return invalid_argument("too many copies in one batch");
  // Copies of adjacent memory go in one call.
  for (std::size_t i = 0; i < copies.size();) {
    const auto spot_of = [&](std::size_t k) {
      return spot_for(resolve(copies[k].target), resolve(copies[k].source));
    };
    CAUSEWAY_ASSIGN(const Spot spot, spot_of(i));
    std::size_t end = i + 1;
    for (; end < copies.size(); ++end) {
      const auto next = spot_of(end);
      if (!next.ok() || next->native != spot.native) break;
    }
    CAUSEWAY_TRY(keep(go_to(spot)));
    CAUSEWAY_TRY(keep(issue(spot, copies.subspan(i, end - i))));
    i = end;
  }
  return {};
}

Status RawStream::issue(const Spot& spot, std::span<const Copy> copies) {
  CAUSEWAY_DCHECK(!copies.empty() && spot.native == at_.native,
                  "copies are issued where the work is");
  const device::CudaApi& api = gpus_.native().api;
  if (copies.size() == 1) {
    const Copy& copy = copies.front();
    return gpus_.call(spot.link, "cuMemcpyAsync", [&] {
      return api.cuMemcpyAsync(resolve(copy.target).address, resolve(copy.source).address,
                               to_size(copy.bytes), spot.native);
    });
  }
  std::vector<CudaDevicePointer> targets;
  std::vector<CudaDevicePointer> sources;
  std::vector<std::size_t> bytes;
  for (const Copy& copy : copies) {
    targets.push_back(resolve(copy.target).address);
    sources.push_back(resolve(copy.source).address);
    bytes.push_back(to_size(copy.bytes));
  }
  CudaCopyAttributes attributes;
  attributes.source_order = device::kCudaSourceOrderStream;
  std::size_t first = 0;
  return gpus_.call(spot.link, "cuMemcpyBatchAsync", [&] {
    return api.cuMemcpyBatchAsync_v2(targets.data(), sources.data(), bytes.data(), bytes.size(),
                                     &attributes, &first, 1, spot.native);
  });
}

Status RawStream::run(std::function<Status()> /*work*/) {
  return unsupported("streams of the preload library run no host work");
}

Status RawStream::record(device::Event& event) {
  CAUSEWAY_TRY(gpus_.running());
  relax_capture(gpus_.native());
  auto& own = static_cast<RawEvent&>(event);
  CUevent_st* native = own.natives_.contains(at_.link) ? own.natives_[at_.link] : nullptr;
  if (native == nullptr) {
    CAUSEWAY_ASSIGN(native, gpus_.context(at_.link).make_event());
    own.natives_[at_.link] = native;
  }
  CAUSEWAY_TRY(keep(gpus_.call(at_.link, "cuEventRecord", [&] {
    return gpus_.native().api.cuEventRecord(native, at_.native);
  })));
  CAUSEWAY_DCHECK(native != nullptr, "an event that was not made");
  own.last_ = {at_.link, native};
  own.failure_ = failure_.first();
  return {};
}

Status RawStream::wait(const device::Event& event) {
  const auto& own = static_cast<const RawEvent&>(event);
  CAUSEWAY_DCHECK(&own.gpus_ == &gpus_, "streams wait for events of the same session");
  if (own.failure_) return keep(*own.failure_);
  if (own.last_.native == nullptr) return {};
  return keep(gpus_.call(at_.link, "cuStreamWaitEvent", [&] {
    return gpus_.native().api.cuStreamWaitEvent(at_.native, own.last_.native, 0);
  }));
}

Status RawStream::signal(device::Semaphore& /*semaphore*/, std::uint32_t /*value*/) {
  return no_semaphores();
}

Status RawStream::wait(const device::Semaphore& /*semaphore*/, std::uint32_t /*value*/) {
  return no_semaphores();
}

Status RawStream::synchronize(Nanos timeout) {
  CAUSEWAY_DCHECK(at_.native != nullptr && at_.link >= 0, "only create() makes streams");
  relax_capture(gpus_.native());
  device::CudaContext& context = gpus_.context(at_.link);
  return device::poll_until(
      [&]() -> Result<bool> {
        CAUSEWAY_TRY(context.physical().health());
        return done_or_not(gpus_, at_.link, "cuStreamQuery",
                           [&] { return gpus_.native().api.cuStreamQuery(at_.native); });
      },
      timeout, device::pause_alone);
}

RawDevice::RawDevice(Gpus& gpus, int link, std::unique_ptr<device::ArenaMemory> memory,
                     Bytes staging, Bytes extent, bool relays)
    : gpus_(gpus), link_(link), arena_(std::move(memory), staging / extent, extent) {
  CAUSEWAY_DCHECK(extent * (staging / extent) == staging, "staging memory is whole extents");
  CAUSEWAY_DCHECK(!relays || staging > Bytes(0), "a relay without staging memory");
  capabilities_.name = "link " + std::to_string(link);
  capabilities_.arena_bytes = staging;
  capabilities_.extent_bytes = extent;
  capabilities_.copies_max = kCopiesMax;
  capabilities_.peer_copies = relays;
}

Result<std::unique_ptr<device::Stream>> RawDevice::make_stream(const std::string& name) {
  return RawStream::create(gpus_, link_, name);
}

Result<std::unique_ptr<device::Event>> RawDevice::make_event() {
  return std::unique_ptr<device::Event>(std::make_unique<RawEvent>(gpus_));
}

Result<std::unique_ptr<device::Semaphore>> RawDevice::make_semaphore() { return no_semaphores(); }

Status RawDevice::health() const { return gpus_.context(link_).physical().health(); }

}  // namespace causeway::preload
