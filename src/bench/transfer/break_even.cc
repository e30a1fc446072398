// The size from which transfers over many links beat the native copy (MMA figure 14): measured with
// an engine that never takes the short way.
#include <array>

#include "bench/transfer/parts.h"

namespace causeway::transfer::bench {
namespace {

constexpr double kBreakEvenMaxMb = 12;
constexpr std::array<int, 11> kMebibytes = {1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24};

}  // namespace

Status run_break_even(Rig& rig, Report& report) {
  TransferEngineOptions options = rig.setup().engine;
  options.dispatch.multipath_bytes_min = Bytes(0);
  CAUSEWAY_ASSIGN(const auto engine, rig.make_engine(options));
  for (const Direction direction : kBothDirections) {
    for (int run = 0; run < 3; ++run) {
      CAUSEWAY_TRY(rig.rate(*engine, rig.target(), direction, rig.large()));
    }
    double break_even = 0;  // 0: at none of them
    for (const int size : kMebibytes) {
      const Bytes bytes = mib(size);
      if (bytes > rig.large()) continue;
      const auto ours = [&] { return rig.rate(*engine, rig.target(), direction, bytes); };
      const auto native = [&] { return rig.native_rate(rig.target(), direction, bytes); };
      CAUSEWAY_ASSIGN(const Rig::Pair pair, rig.repeat_both(native, ours));
      const double times = pair.b.median / pair.a.median;
      if (times < 1) break_even = 0;
      if (times >= 1 && break_even == 0) break_even = static_cast<double>(bytes.count) * 1e-6;
      report.add({"break-even",
                  std::string(name_of(direction)) + " " + size_text(bytes),
                  {{"native GB/s", in_gb(pair.a.median)},
                   {"ours GB/s", in_gb(pair.b.median)},
                   {"× native", times}},
                  std::nullopt});
    }
    const bool met = rig.gpus() == 1 || (break_even > 0 && break_even <= kBreakEvenMaxMb);
    report.add({"break-even at",
                std::string(name_of(direction)),
                {{"MB", break_even}},
                Bar{"≤ 12 MB", met}});
  }
  return {};
}

}  // namespace causeway::transfer::bench
