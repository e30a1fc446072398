// Beside native copies that keep one link busy (MMA figure 10a): the native traffic is to keep its
// half of that link, the others are to carry ours undisturbed.
#include "bench/transfer/background_traffic.h"
#include "bench/transfer/parts.h"

namespace causeway::transfer::bench {
namespace {

constexpr double kNativeKeepsMin = 0.45;

// On the lane that the transfers do not use.
Result<std::unique_ptr<BackgroundTraffic>> traffic_on(Rig& rig, int link, Direction direction) {
  CAUSEWAY_ASSIGN(auto native, rig.setup().native(link));
  const Bytes each = rig.large() / 16;
  return BackgroundTraffic::start(
      std::move(native), {rig.copy(link, direction, each, 1), rig.copy(link, direction, each, 1)},
      *rig.setup().clock);
}

Status beside(Rig& rig, TransferEngine& engine, Direction direction, int link, bool yields,
              Report& report) {
  const Nanos length = rig.setup().steady;
  CAUSEWAY_ASSIGN(const double ours_alone,
                  steady_rate_of(rig, engine, rig.target(), direction, length));
  CAUSEWAY_ASSIGN(const auto traffic, traffic_on(rig, link, direction));
  CAUSEWAY_ASSIGN(const double native_alone, traffic->rate_alone(length / 2));
  double ours = 0;
  CAUSEWAY_ASSIGN(const double native, traffic->rate_during([&]() -> Status {
    CAUSEWAY_ASSIGN(ours, steady_rate_of(rig, engine, rig.target(), direction, length));
    return {};
  }));
  const double kept = native / native_alone;
  report.add({"background",
              std::string(name_of(direction)) + ", native on " +
                  (link == rig.target() ? "the target's link" : "link " + std::to_string(link)) +
                  (yields ? ", yielding" : ""),
              {{"native alone GB/s", in_gb(native_alone)},
               {"native GB/s", in_gb(native)},
               {"kept", kept},
               {"ours alone GB/s", in_gb(ours_alone)},
               {"ours GB/s", in_gb(ours)},
               {"sum GB/s", in_gb(native + ours)}},
              Bar{"≥ 0.45 of the link kept", kept >= kNativeKeepsMin}});
  return {};
}

}  // namespace

Status run_background(Rig& rig, Report& report) {
  CAUSEWAY_ASSIGN(TransferEngine * engine, rig.engine());
  TransferEngineOptions yielding = rig.setup().engine;
  yielding.dispatch.yield_for = millis(2);
  CAUSEWAY_ASSIGN(const auto polite, rig.make_engine(yielding));
  for (const Direction direction : kBothDirections) {
    // The links that the engine uses, or it would be no test.
    const LinkSet used = best_set(rig.setup().map, rig.target(), direction).links;
    int relay = -1;
    for (int link = 0; link < rig.gpus(); ++link) {
      if (link != rig.target() && used.has(link)) relay = link;
    }
    CAUSEWAY_TRY(beside(rig, *engine, direction, rig.target(), false, report));
    if (relay < 0) continue;
    CAUSEWAY_TRY(beside(rig, *engine, direction, relay, false, report));
    CAUSEWAY_TRY(beside(rig, *polite, direction, relay, true, report));
  }
  return {};
}

}  // namespace causeway::transfer::bench
