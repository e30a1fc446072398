#include "device/cuda/link_rates.h"

#include <algorithm>
#include <cstring>

#include "base/random.h"
#include "device/arena.h"

namespace causeway::device {
namespace {

constexpr Nanos kRunMax = seconds(120);

// One direction of a run: the same copy repeatedly on a stream of its own.
struct Way {
  Device* device = nullptr;  // the one whose stream copies
  Copy copy;
};

class Meter {
 public:
  Meter(std::span<Device* const> devices, HostMemory& memory, const LinkRateOptions& options)
      : devices_(devices), memory_(memory), options_(options) {}
  ~Meter() {
    extents_.clear();
    if (region_.valid()) (void)memory_.release(region_).ok();
  }
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  // Host buffer 0 is sent to all devices; for each device there is another one to send back to.
  Status set_up() {
    const Bytes all = options_.bytes * (1 + std::ssize(devices_));
    CAUSEWAY_ASSIGN(region_, memory_.allocate({.name = "link-rates", .bytes = all}));
    const auto bytes = memory_.resolve({region_, Bytes(0)}, options_.bytes);
    for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
      const std::uint64_t word = mix64(i);
      std::memcpy(bytes.data() + i, &word, 8);
    }
    for (Device* device : devices_) {
      const Bytes extent = device->capabilities().extent_bytes;
      const std::int64_t count = round_up(options_.bytes, extent) / extent;
      for (auto* list : {&first_, &second_}) {
        CAUSEWAY_ASSIGN(Extents extents, device->arena().allocate(count, Arena::End::kLow));
        list->push_back(MemoryAddress::in_arena(device->id(), extents.offset()));
        extents_.push_back(std::move(extents));
      }
    }
    return {};
  }

  Way in(std::size_t device) const { return {devices_[device], {first_[device], host(0), size()}}; }
  // Sends another buffer than the one that in() fills, so that both can run at once.
  Way out(std::size_t device) const {
    return {devices_[device], {host(1 + device), second_[device], size()}};
  }
  Way across(std::size_t source, std::size_t target) const {
    return {devices_[source], {second_[target], first_[source], size()}};
  }

  Result<LinkRate> rate(const std::vector<Way>& ways) {
    std::vector<double> rates;
    for (int run = -1; run < options_.runs; ++run) {
      CAUSEWAY_ASSIGN(const double rate, run_once(ways));
      if (run >= 0) rates.push_back(rate);
    }
    std::sort(rates.begin(), rates.end());
    return LinkRate{rates[rates.size() / 2], rates.front(), rates.back()};
  }

  // Sends a buffer through a device and back, and compares.
  Status verify(std::size_t device) {
    CAUSEWAY_ASSIGN(const auto stream, devices_[device]->make_stream("verify"));
    const std::vector<Copy> steps = {{first_[device], host(0), size()},
                                     {second_[device], first_[device], size()},
                                     {host(1 + device), second_[device], size()}};
    const auto sent = memory_.resolve({region_, Bytes(0)}, options_.bytes);
    const auto received = memory_.resolve({region_, host(1 + device).offset}, options_.bytes);
    std::fill(received.begin(), received.end(), std::byte{0});
    for (const Copy& step : steps) CAUSEWAY_TRY(stream->copy({&step, 1}, CopyPriority::kStep));
    CAUSEWAY_TRY(stream->synchronize(kRunMax));
    if (std::memcmp(sent.data(), received.data(), sent.size()) == 0) return {};
    return corrupt("bytes sent to device '" + devices_[device]->capabilities().name +
                   "' and back differ");
  }

 private:
  MemoryAddress host(std::size_t buffer) const {
    return MemoryAddress::in_host({region_, options_.bytes * static_cast<std::int64_t>(buffer)});
  }
  Bytes size() const { return options_.bytes; }

  struct Timed {
    std::unique_ptr<Stream> stream;
    std::unique_ptr<Event> begin;
    std::unique_ptr<Event> end;
  };

  // Bytes per second of all directions together, from the first begin to the last end, by the
  // devices' own events.
  Result<double> run_once(const std::vector<Way>& ways) {
    std::vector<Timed> timed(ways.size());
    for (std::size_t w = 0; w < ways.size(); ++w) {
      CAUSEWAY_ASSIGN(timed[w].stream, ways[w].device->make_stream("link-rates"));
      CAUSEWAY_ASSIGN(timed[w].begin, ways[w].device->make_event());
      CAUSEWAY_ASSIGN(timed[w].end, ways[w].device->make_event());
    }
    for (std::size_t w = 0; w < ways.size(); ++w) {
      CAUSEWAY_TRY(timed[w].stream->record(*timed[w].begin));
      for (int i = 0; i < options_.copies; ++i) {
        CAUSEWAY_TRY(timed[w].stream->copy({&ways[w].copy, 1}, CopyPriority::kStep));
      }
      CAUSEWAY_TRY(timed[w].stream->record(*timed[w].end));
    }
    Nanos begin;
    Nanos end;
    for (std::size_t w = 0; w < ways.size(); ++w) {
      CAUSEWAY_TRY(timed[w].end->wait(kRunMax));
      CAUSEWAY_ASSIGN(const Nanos began, timed[w].begin->completed_at());
      CAUSEWAY_ASSIGN(const Nanos ended, timed[w].end->completed_at());
      begin = w == 0 ? began : std::min(begin, began);
      end = w == 0 ? ended : std::max(end, ended);
    }
    const double bytes = static_cast<double>(options_.bytes.count) * options_.copies *
                         static_cast<double>(ways.size());
    return bytes / std::max(1e-9, to_seconds(end - begin));
  }

  const std::span<Device* const> devices_;
  HostMemory& memory_;
  const LinkRateOptions options_;
  RegionId region_;
  std::vector<Extents> extents_;
  std::vector<MemoryAddress> first_, second_;  // two buffers of each device
};

// Pairs that cannot copy directly are left out.
Status measure_peers(Meter& meter, std::size_t devices, MachineLinkRates& rates) {
  for (std::size_t a = 0; a < devices; ++a) {
    for (std::size_t b = 0; b < devices; ++b) {
      if (a == b) continue;
      auto one_way = meter.rate({meter.across(a, b)});
      if (!one_way.ok() && one_way.error().code == ErrorCode::kUnsupported) continue;
      CAUSEWAY_TRY(one_way);
      CAUSEWAY_ASSIGN(const LinkRate both, meter.rate({meter.across(a, b), meter.across(b, a)}));
      rates.peers.push_back({static_cast<int>(a), static_cast<int>(b), *one_way, both});
    }
  }
  return {};
}

}  // namespace

Result<MachineLinkRates> measure_links(std::span<Device* const> devices, HostMemory& memory,
                                       const LinkRateOptions& options) {
  CAUSEWAY_CHECK(options.runs >= 1 && options.copies >= 1 && options.bytes.count >= 8);
  Meter meter(devices, memory, options);
  CAUSEWAY_TRY(meter.set_up());
  MachineLinkRates rates;
  std::vector<Way> all_in, all_out;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    CAUSEWAY_TRY(meter.verify(d));
    DeviceLinkRates& device = rates.devices.emplace_back();
    CAUSEWAY_ASSIGN(device.in, meter.rate({meter.in(d)}));
    CAUSEWAY_ASSIGN(device.out, meter.rate({meter.out(d)}));
    CAUSEWAY_ASSIGN(device.both, meter.rate({meter.in(d), meter.out(d)}));
    all_in.push_back(meter.in(d));
    all_out.push_back(meter.out(d));
  }
  if (devices.size() > 1) {
    CAUSEWAY_ASSIGN(rates.all_in, meter.rate(all_in));
    CAUSEWAY_ASSIGN(rates.all_out, meter.rate(all_out));
    CAUSEWAY_TRY(measure_peers(meter, devices.size(), rates));
  }
  return rates;
}

}  // namespace causeway::device
