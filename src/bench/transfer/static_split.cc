// Dynamic against static splits over two links, undisturbed and beside native traffic (MMA figure
// 11).
#include "bench/transfer/background_traffic.h"
#include "bench/transfer/parts.h"

namespace causeway::transfer::bench {
namespace {

struct Way {
  std::string name;
  std::unique_ptr<TransferEngine> engine;
};

// `shares` of the target's link and of the relay; none: dynamic.
Result<Way> make_way(Rig& rig, int relay, std::string name, std::vector<double> shares) {
  TransferEngineOptions options = rig.setup().engine;
  options.dispatch.tune_sets = false;
  if (!shares.empty()) {
    options.dispatch.relay = RelayPolicy::kStatic;
    options.dispatch.static_shares.assign(static_cast<std::size_t>(rig.gpus()), 0);
    options.dispatch.static_shares[static_cast<std::size_t>(rig.target())] = shares[0];
    options.dispatch.static_shares[static_cast<std::size_t>(relay)] = shares[1];
  }
  CAUSEWAY_ASSIGN(auto engine, rig.make_engine(options));
  return Way{std::move(name), std::move(engine)};
}

Status compare(Rig& rig, const std::vector<Way>& ways, Direction direction, int relay,
               const std::string& beside, BackgroundTraffic* traffic, Report& report) {
  BenchRow row{"static", std::string(name_of(direction)) + ", " + beside, {}, {}};
  const LinkSet links = LinkSet::of(rig.target()).with(relay);
  for (const Way& way : ways) {
    const auto measure = [&] {
      return rig.rate(*way.engine, rig.target(), direction, rig.large(), links);
    };
    Spread rate;
    const auto all = [&]() -> Status {
      CAUSEWAY_ASSIGN(rate, rig.repeat(measure));
      return {};
    };
    double native = 0;
    if (traffic == nullptr) {
      CAUSEWAY_TRY(all());
    } else {
      CAUSEWAY_ASSIGN(native, traffic->rate_during(all));
    }
    row.figures.push_back({way.name + " GB/s", in_gb(rate.median)});
    if (traffic != nullptr) row.figures.push_back({way.name + " native GB/s", in_gb(native)});
  }
  report.add(std::move(row));
  return {};
}

int relay_for(const Rig& rig) {
  const LinkSet used = best_set(rig.setup().map, rig.target(), Direction::kIn).links;
  for (int link = 0; link < rig.gpus(); ++link) {
    if (link != rig.target() && used.has(link)) return link;
  }
  return rig.target() == 0 ? 1 : 0;
}

}  // namespace

Status run_static(Rig& rig, Report& report) {
  if (rig.gpus() < 2) return {};
  const int relay = relay_for(rig);
  std::vector<Way> ways;
  for (const auto& [name, shares] : {std::pair<std::string, std::vector<double>>{"dynamic", {}},
                                     {"1:1", {1, 1}},
                                     {"1:2", {1, 2}},
                                     {"2:1", {2, 1}}}) {
    CAUSEWAY_ASSIGN(Way way, make_way(rig, relay, name, shares));
    ways.push_back(std::move(way));
  }
  for (const Direction direction : kBothDirections) {
    CAUSEWAY_TRY(compare(rig, ways, direction, relay, "undisturbed", nullptr, report));
    for (const int busy : {rig.target(), relay}) {
      CAUSEWAY_ASSIGN(auto native, rig.setup().native(busy));
      CAUSEWAY_ASSIGN(const auto traffic,
                      BackgroundTraffic::start(std::move(native),
                                               {rig.copy(busy, direction, rig.large() / 8, 1)},
                                               *rig.setup().clock));
      const std::string beside =
          busy == relay ? "native on the relay's link" : "native on the target's link";
      CAUSEWAY_TRY(compare(rig, ways, direction, relay, beside, traffic.get(), report));
    }
  }
  return {};
}

}  // namespace causeway::transfer::bench
