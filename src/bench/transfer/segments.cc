// Scattered segments: one native call each, native batches, and ours.
#include <array>

#include "base/random.h"
#include "bench/transfer/parts.h"

namespace causeway::transfer::bench {
namespace {

constexpr std::array<Bytes, 4> kSegmentBytes = {kib(64), kib(256), mib(1), mib(4)};

// Every second place in host memory, in random order in the device's.
TransferRequest scattered(const Rig& rig, Direction direction, Bytes each, Bytes total) {
  TransferRequest request = rig.request(rig.target(), direction, total);
  const Segment whole = request.segments.front();
  const std::int64_t count = std::max<std::int64_t>(1, total / each);
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < count; ++i) places.push_back(i);
  Random random(7);
  for (std::int64_t i = count - 1; i > 0; --i) {
    std::swap(places[static_cast<std::size_t>(i)],
              places[static_cast<std::size_t>(random.below(i + 1))]);
  }
  request.segments.clear();
  for (std::int64_t i = 0; i < count; ++i) {
    Segment segment = whole;
    segment.host.offset += each * (2 * i);
    segment.device.offset += each * places[static_cast<std::size_t>(i)];
    segment.bytes = each;
    request.segments.push_back(segment);
  }
  return request;
}

std::vector<device::Copy> copies_of(const TransferRequest& request) {
  std::vector<device::Copy> copies;
  for (const Segment& segment : request.segments) {
    const bool in = request.direction == Direction::kIn;
    copies.push_back(
        {in ? segment.device : segment.host, in ? segment.host : segment.device, segment.bytes});
  }
  return copies;
}

}  // namespace

Status run_segments(Rig& rig, Report& report) {
  CAUSEWAY_ASSIGN(TransferEngine * engine, rig.engine());
  CAUSEWAY_ASSIGN(const auto native, rig.setup().native(rig.target()));
  const Bytes total = std::min(mib(256), rig.large() / 2);
  for (const Direction direction : kBothDirections) {
    for (const Bytes each : kSegmentBytes) {
      if (each > total) continue;
      const TransferRequest request = scattered(rig, direction, each, total);
      const double bytes =
          static_cast<double>(each.count) * static_cast<double>(request.segments.size());
      CAUSEWAY_TRY(native->prepare(copies_of(request)));
      const auto native_rate = [&](NativeCopies::How how) -> Result<double> {
        CAUSEWAY_ASSIGN(const Nanos took, native->time(how, *rig.setup().clock));
        return bytes / to_seconds(took);
      };
      const auto ours = [&]() -> Result<double> {
        CAUSEWAY_ASSIGN(const Nanos took, rig.time(*engine, request));
        return bytes / to_seconds(took);
      };
      using How = NativeCopies::How;
      CAUSEWAY_ASSIGN(const Spread loop, rig.repeat([&] { return native_rate(How::kLoop); }));
      CAUSEWAY_ASSIGN(const Rig::Pair pair,
                      rig.repeat_both([&] { return native_rate(How::kBatch); }, ours));
      report.add({"segments",
                  std::string(name_of(direction)) + " " + std::to_string(request.segments.size()) +
                      " × " + size_text(each),
                  {{"loop GB/s", in_gb(loop.median)},
                   {"batch GB/s", in_gb(pair.a.median)},
                   {"ours GB/s", in_gb(pair.b.median)},
                   {"× batch", pair.b.median / pair.a.median}},
                  std::nullopt});
    }
  }
  return {};
}

}  // namespace causeway::transfer::bench
