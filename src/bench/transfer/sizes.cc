// Bandwidth and latency by size (MMA §5.1.1, figure 8), both directions and duplex.
#include <algorithm>
#include <array>

#include "bench/transfer/parts.h"

namespace causeway::transfer::bench {
namespace {

constexpr double kSlowerMax = 0.02;    // from 1 MiB
constexpr double kLatencyMaxUs = 0.3;  // below 64 KiB
constexpr Bytes kSwitchSeen = mib(8);  // 0.5 µs are 0.3 % of it

// How often each way is timed at most, and for how long: the median of a handful is a toss of a
// coin on a busy host. Up to 1 MiB a run takes microseconds, and tenths of them count.
// A thousand runs of those take less than 0.1 s, so `quick` does not leave any out.
struct Effort {
  int runs;
  Nanos time;
};
constexpr Effort kSmall{1000, millis(200)};
constexpr Effort kLarge{200, millis(60)};
constexpr Effort kSmallQuick{1000, millis(10)};
constexpr Effort kLargeQuick{50, millis(20)};

struct Times {
  Spread native, marked, ours;  // microseconds; marked: native with an event behind it
  Spread behind_other;          // ours behind a copy of another stream
};

int runs_of(const Rig& rig, Bytes bytes, Nanos one) {
  const int least = rig.setup().runs;
  const Effort large = rig.setup().quick ? kLargeQuick : kLarge;
  const Effort effort = bytes > mib(1) ? large : rig.setup().quick ? kSmallQuick : kSmall;
  const std::int64_t fitting = effort.time / std::max(one, Nanos(1));
  return static_cast<int>(std::clamp<std::int64_t>(fitting, least, std::max(least, effort.runs)));
}

// In turns, and those in all orders, so that none gains by what it follows. A copy behind one of
// another stream takes 0.5 µs more on an H200; so where that is much, each way goes twice, and the
// second time counts: behind a copy of its own kind, as in a program that copies in one way only.
// The thread has the GPU's context, as any program's that uses it. Medians of enough runs to see
// tenths of microseconds.
Result<Times> times_of(Rig& rig, NativeCopies& native, TransferEngine& engine, Direction direction,
                       Bytes bytes) {
  using How = NativeCopies::How;
  const Clock& clock = *rig.setup().clock;
  CAUSEWAY_TRY(native.prepare({rig.copy(rig.target(), direction, bytes)}));
  CAUSEWAY_ASSIGN(const auto current, native.enter());
  CAUSEWAY_TRY(native.time(How::kLoop, clock));
  CAUSEWAY_ASSIGN(const Nanos one, native.time(How::kLoop, clock));
  const int runs = runs_of(rig, bytes, one);
  const auto time = [&](int which) -> Result<Nanos> {
    if (which == 0) return native.time(How::kLoop, clock);
    if (which == 1) return native.time(How::kLoop, clock, NativeCopies::End::kEvent);
    return rig.time(engine, rig.request(rig.target(), direction, bytes));
  };
  const bool twice = bytes <= kSwitchSeen;
  std::array<int, 3> order = {0, 1, 2};
  std::array<std::vector<double>, 3> firsts, microseconds;
  for (int run = -(bytes <= mib(1) ? 10 : 1); run < runs; ++run) {
    for (const int which : order) {
      CAUSEWAY_ASSIGN(const Nanos first_time, time(which));
      CAUSEWAY_ASSIGN(const Nanos took, twice ? time(which) : Result<Nanos>(first_time));
      if (run < 0) continue;
      firsts[static_cast<std::size_t>(which)].push_back(1e6 * to_seconds(first_time));
      microseconds[static_cast<std::size_t>(which)].push_back(1e6 * to_seconds(took));
    }
    std::next_permutation(order.begin(), order.end());
  }
  return Times{spread_of(std::move(microseconds[0])), spread_of(std::move(microseconds[1])),
               spread_of(std::move(microseconds[2])), spread_of(std::move(firsts[2]))};
}

std::optional<Bar> bar_of(Bytes bytes, const Times& times) {
  const double more = times.ours.median - times.native.median;
  if (bytes < kib(64)) return Bar{"≤ 0.3 µs over native", more <= kLatencyMaxUs};
  if (bytes < mib(1)) return std::nullopt;
  return Bar{"≤ 2 % over native", more <= kSlowerMax * times.native.median};
}

Status one_way(Rig& rig, NativeCopies& native, TransferEngine& engine, Direction direction,
               Bytes bytes, Report& report) {
  CAUSEWAY_TRY(rig.verify(engine, bytes));
  const Bytes before = relayed_bytes(engine, direction);
  CAUSEWAY_ASSIGN(const Times times, times_of(rig, native, engine, direction, bytes));
  const Bytes relayed = relayed_bytes(engine, direction) - before;
  const double gb = in_gb(static_cast<double>(bytes.count)) * 1e6;
  const auto best = best_set(rig.setup().map, rig.target(), direction);
  BenchRow row{"sizes", std::string(name_of(direction)) + " " + size_text(bytes), {}, {}};
  row.figures = {{"native µs", times.native.median},
                 {"with event µs", times.marked.median},
                 {"ours µs", times.ours.median},
                 {"native GB/s", gb / times.native.median},
                 {"ours GB/s", gb / times.ours.median},
                 {"lowest", gb / times.ours.high},
                 {"highest", gb / times.ours.low},
                 {"× native", times.native.median / times.ours.median},
                 {"behind another stream µs", times.behind_other.median},
                 {"map's best GB/s", in_gb(best.rate)},
                 {"any relayed", relayed > Bytes(0) ? 1.0 : 0.0}};
  row.bar = bar_of(bytes, times);
  report.add(std::move(row));
  return {};
}

// Until both have ended, the sum.
Result<double> both_ways(Rig& rig, TransferEngine& engine, Bytes bytes) {
  const Nanos begin = rig.now();
  CAUSEWAY_ASSIGN(const Completion in,
                  engine.submit(rig.request(rig.target(), Direction::kIn, bytes, 0)));
  CAUSEWAY_ASSIGN(const Completion out,
                  engine.submit(rig.request(rig.target(), Direction::kOut, bytes, 1)));
  CAUSEWAY_TRY(in.wait(seconds(60)));
  CAUSEWAY_TRY(out.wait(seconds(60)));
  return 2 * static_cast<double>(bytes.count) / to_seconds(rig.now() - begin);
}

Result<double> both_ways_native(Rig& rig, NativeCopies& in, NativeCopies& out, Bytes bytes) {
  const Nanos begin = rig.now();
  CAUSEWAY_TRY(in.issue(NativeCopies::How::kLoop));
  CAUSEWAY_TRY(out.issue(NativeCopies::How::kLoop));
  for (NativeCopies* one : {&in, &out}) {
    for (bool done = false; !done && rig.now() - begin < seconds(60);) {
      CAUSEWAY_ASSIGN(done, one->done());
    }
  }
  return 2 * static_cast<double>(bytes.count) / to_seconds(rig.now() - begin);
}

Status duplex(Rig& rig, TransferEngine& engine, Bytes bytes, Report& report) {
  CAUSEWAY_ASSIGN(const auto in, rig.setup().native(rig.target()));
  CAUSEWAY_ASSIGN(const auto out, rig.setup().native(rig.target()));
  CAUSEWAY_TRY(in->prepare({rig.copy(rig.target(), Direction::kIn, bytes, 0)}));
  CAUSEWAY_TRY(out->prepare({rig.copy(rig.target(), Direction::kOut, bytes, 1)}));
  CAUSEWAY_ASSIGN(const Rig::Pair pair,
                  rig.repeat_both([&] { return both_ways_native(rig, *in, *out, bytes); },
                                  [&] { return both_ways(rig, engine, bytes); }));
  report.add({"duplex",
              "in and out, " + size_text(bytes) + " each",
              {{"native GB/s", in_gb(pair.a.median)},
               {"ours GB/s", in_gb(pair.b.median)},
               {"lowest", in_gb(pair.b.low)},
               {"highest", in_gb(pair.b.high)},
               {"× native", pair.b.median / pair.a.median}},
              std::nullopt});
  return {};
}

}  // namespace

Status run_sizes(Rig& rig, Report& report) {
  CAUSEWAY_ASSIGN(TransferEngine * engine, rig.engine());
  CAUSEWAY_ASSIGN(const auto native, rig.setup().native(rig.target()));
  for (const Direction direction : kBothDirections) {
    for (const Bytes bytes : rig.setup().sizes) {
      CAUSEWAY_TRY(one_way(rig, *native, *engine, direction, bytes, report));
    }
  }
  for (const Bytes bytes : rig.setup().sizes) {
    if (bytes < mib(1) || bytes > rig.large()) continue;
    CAUSEWAY_TRY(duplex(rig, *engine, bytes, report));
  }
  return {};
}

}  // namespace causeway::transfer::bench
