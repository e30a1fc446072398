#include "transfer/device_prober.h"

#include <algorithm>

#include "base/dcheck.h"

namespace causeway::transfer {
namespace {

using device::Copy;
using device::MemoryAddress;

constexpr Nanos kRunMax = seconds(60);

}  // namespace

DeviceProber::DeviceProber(std::vector<device::Device*> devices, device::HostMemory& memory,
                           const Clock& clock, DeviceProberOptions options)
    : devices_(std::move(devices)), memory_(memory), clock_(clock), options_(std::move(options)) {}

Result<std::unique_ptr<DeviceProber>> DeviceProber::create(std::vector<device::Device*> devices,
                                                           device::HostMemory& memory,
                                                           const Clock& clock,
                                                           DeviceProberOptions options) {
  if (devices.empty() || std::ssize(devices) > kLinksMax || options.copy_bytes < Bytes(1) ||
      options.bytes < options.copy_bytes) {
    return invalid_argument("the links of 1 to 64 GPUs are measured with at least one copy each");
  }
  auto prober =
      std::make_unique<DeviceProber>(std::move(devices), memory, clock, std::move(options));
  CAUSEWAY_TRY(prober->set_up());
  return prober;
}

DeviceProber::~DeviceProber() {
  engine_.reset();
  // All copies have ended, so the region is unused. A region that was never made needs no release.
  if (region_.valid()) (void)memory_.release(region_);
}

Status DeviceProber::set_up() {
  CAUSEWAY_ASSIGN(region_,
                  memory_.allocate({.name = "link-map", .bytes = options_.bytes * (links() + 1)}));
  for (device::Device* device : devices_) {
    const Bytes extent = device->capabilities().extent_bytes;
    const std::int64_t count = round_up(options_.bytes * kBuffers, extent) / extent;
    CAUSEWAY_ASSIGN(auto extents, device->arena().allocate(count, device::Arena::End::kLow));
    extents_.push_back(std::move(extents));
  }
  return find_peers();
}

// A device only tells whether it reaches any other device. Of GPUs that are joined in pairs each
// reaches one, and only a trial copy shows which.
Status DeviceProber::find_peers() {
  peers_.resize(devices_.size());
  for (int source = 0; source < links(); ++source) {
    device::Device& mover = *devices_[static_cast<std::size_t>(source)];
    for (int target = 0; target < links(); ++target) {
      const device::Device& other = *devices_[static_cast<std::size_t>(target)];
      if (source == target || !mover.capabilities().peer_copies ||
          !other.capabilities().peer_copies) {
        continue;
      }
      const Status copied = copy_once(between(source, target));
      if (!copied.ok() && copied.error().code == ErrorCode::kUnsupported) continue;
      CAUSEWAY_TRY(copied);
      LinkSet& reached = peers_[static_cast<std::size_t>(source)];
      reached = reached.with(target);
    }
  }
  return {};
}

Status DeviceProber::copy_once(const Lane& lane) {
  CAUSEWAY_DCHECK(lane.mover >= 0 && lane.mover < links(), "no such link");
  device::Device& mover = *devices_[static_cast<std::size_t>(lane.mover)];
  CAUSEWAY_ASSIGN(const auto stream, mover.make_stream("link-map"));
  const Copy copy{lane.target, lane.source, options_.copy_bytes};
  CAUSEWAY_TRY(stream->copy({&copy, 1}, device::CopyPriority::kStep));
  return stream->synchronize(kRunMax);
}

bool DeviceProber::can_copy(int source, int target) const {
  return peers_[static_cast<std::size_t>(source)].has(target);
}

MemoryAddress DeviceProber::host(int link) const {
  return MemoryAddress::in_host({region_, options_.bytes * link});
}

DeviceProber::Lane DeviceProber::crossing(Direction direction, int link) const {
  const auto l = static_cast<std::size_t>(link);
  CAUSEWAY_DCHECK(link >= 0 && l < extents_.size(), "no such link");
  const auto arena = MemoryAddress::in_arena(devices_[l]->id(), extents_[l].offset());
  if (direction == Direction::kIn) return {link, arena, host(link)};
  return {link, host(link), arena};
}

DeviceProber::Lane DeviceProber::between(int source, int target) const {
  const auto s = static_cast<std::size_t>(source);
  const auto t = static_cast<std::size_t>(target);
  CAUSEWAY_DCHECK(source != target && s < extents_.size() && t < extents_.size(),
                  "peers are two links");
  return {source, MemoryAddress::in_arena(devices_[t]->id(), extents_[t].offset()),
          MemoryAddress::in_arena(devices_[s]->id(), extents_[s].offset() + options_.bytes)};
}

// The time from the first begin to the last end, by the devices' events.
Result<double> DeviceProber::run(const std::vector<Lane>& lanes) {
  struct Timed {
    std::unique_ptr<device::Stream> stream;
    std::unique_ptr<device::Event> begin;
    std::unique_ptr<device::Event> end;
  };
  std::vector<Timed> timed;
  for (const Lane& lane : lanes) {
    device::Device& mover = *devices_[static_cast<std::size_t>(lane.mover)];
    Timed& one = timed.emplace_back();
    CAUSEWAY_ASSIGN(one.stream, mover.make_stream("link-map"));
    CAUSEWAY_ASSIGN(one.begin, mover.make_event());
    CAUSEWAY_ASSIGN(one.end, mover.make_event());
  }
  for (const Timed& one : timed) CAUSEWAY_TRY(one.stream->record(*one.begin));
  // Copies are issued to the links in turns, so that no link ends before another one begins.
  for (Bytes at; at < options_.bytes; at += options_.copy_bytes) {
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      Copy copy{lanes[i].target, lanes[i].source,
                std::min(options_.copy_bytes, options_.bytes - at)};
      copy.target.offset += at;
      copy.source.offset += at;
      CAUSEWAY_TRY(timed[i].stream->copy({&copy, 1}, device::CopyPriority::kStep));
    }
  }
  for (const Timed& one : timed) CAUSEWAY_TRY(one.stream->record(*one.end));
  std::optional<Nanos> begin, end;
  for (const Timed& one : timed) {
    CAUSEWAY_TRY(one.end->wait(kRunMax));
    CAUSEWAY_ASSIGN(const Nanos began, one.begin->completed_at());
    CAUSEWAY_ASSIGN(const Nanos ended, one.end->completed_at());
    begin = std::min(begin.value_or(began), began);
    end = std::max(end.value_or(ended), ended);
  }
  CAUSEWAY_DCHECK(begin && end && *end >= *begin, "copies ended before they began");
  const double bytes = static_cast<double>(options_.bytes.count * std::ssize(lanes));
  return bytes / std::max(1e-9, to_seconds(*end - *begin));
}

Result<double> DeviceProber::rate(Direction direction, LinkSet links, std::optional<int> target) {
  CAUSEWAY_CHECK(!links.empty() && (links & LinkSet::first(this->links())) == links);
  if (target && links != LinkSet::of(*target)) return run_relayed(direction, links, *target);
  std::vector<Lane> lanes;
  for (int link = 0; link < this->links(); ++link) {
    if (links.has(link)) lanes.push_back(crossing(direction, link));
  }
  return run(lanes);
}

Status DeviceProber::make_engine() {
  if (engine_ != nullptr) return {};
  TransferEngineOptions options = options_.engine;
  options.dispatch.tune_sets = false;
  std::vector<EngineLink> engine_links;
  for (device::Device* device : devices_) engine_links.push_back({{device}});
  CAUSEWAY_ASSIGN(engine_, TransferEngine::create(std::move(options), engine_links,
                                                  assume_all_links(links()), clock_));
  return {};
}

Result<double> DeviceProber::run_relayed(Direction direction, LinkSet links, int target) {
  CAUSEWAY_TRY(make_engine());
  const auto t = static_cast<std::size_t>(target);
  TransferRequest request;
  request.direction = direction;
  request.target = devices_[t]->id();
  CAUSEWAY_DCHECK(links != LinkSet::of(target), "a relay has another link than the target's");
  request.only = links;
  const Bytes bytes = std::min(options_.bytes * (this->links() + 1), extents_[t].bytes());
  request.segments = {
      {host(0), MemoryAddress::in_arena(request.target, extents_[t].offset()), bytes}};
  const Nanos begin = clock_.now();
  CAUSEWAY_ASSIGN(const Completion completion, engine_->submit(std::move(request)));
  CAUSEWAY_TRY(completion.wait(kRunMax));
  return static_cast<double>(bytes.count) / std::max(1e-9, to_seconds(clock_.now() - begin));
}

Result<double> DeviceProber::duplex_rate(int link) {
  // The two directions use different buffers, so that neither reads what the other writes.
  Lane in = crossing(Direction::kIn, link);
  in.target.offset += options_.bytes;
  Lane out = crossing(Direction::kOut, link);
  out.target = host(links());
  return run({in, out});
}

Result<double> DeviceProber::peer_rate(int source, int target) {
  return run({between(source, target)});
}

}  // namespace causeway::transfer
