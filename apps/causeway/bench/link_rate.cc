#include "bench/link_rate.h"

#include <algorithm>
#include <vector>

#include "device/arena.h"

namespace causeway::bench {
namespace {

constexpr Bytes kTimedBytes = gib(1);

}  // namespace

Result<double> measure_link_rate(LocalSlice& local, const weights::PinnedModel& home,
                                 std::int64_t rounds) {
  // The way from a peer was measured when it was opened.
  const slice::SliceLinks* const links = local.slice().links();
  if (links != nullptr && links->from_peer) return links->claim->rate();
  device::Device& device = local.slice().device();
  device::Arena& arena = device.arena();
  const Bytes whole = std::min(kTimedBytes, home.bytes());
  CAUSEWAY_ASSIGN(auto range, arena.reserve(arena.extents_for(whole)));
  CAUSEWAY_TRY(range.commit(0, range.extents()));
  CAUSEWAY_ASSIGN(const auto stream, device.make_stream("link"));
  std::vector<device::Copy> copies;
  for (Bytes at; at < whole; at += mib(32)) {
    copies.push_back({.target = device::MemoryAddress::in_arena(device.id(), range.offset() + at),
                      .source = device::MemoryAddress::in_host(home.address(at)),
                      .bytes = std::min(mib(32), whole - at)});
  }
  Samples rates;
  constexpr int kTimes = 4;  // a run: what it begins and ends with does not count
  for (std::int64_t i = 0; i <= rounds; ++i) {
    const Nanos begin = local.clock().now();
    for (int time = 0; time < kTimes; ++time) {
      CAUSEWAY_TRY(stream->copy(copies, device::CopyPriority::kStep));
    }
    CAUSEWAY_TRY(stream->synchronize(kPatience));
    if (i > 0) {
      rates.add(kTimes * static_cast<double>(whole.count) /
                to_seconds(local.clock().now() - begin));
    }
  }
  return rates.median();
}

}  // namespace causeway::bench
