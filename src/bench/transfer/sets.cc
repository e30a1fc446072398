// The limit: the best set of links, found by trying all of them with relays on the same memory in
// the same run; and what the engine, which chooses by itself, makes of it. Then by number of links
// (MMA figure 9).
#include "bench/transfer/parts.h"

namespace causeway::transfer::bench {
namespace {

constexpr double kOfBestMin = 0.95;
constexpr double kOfNativeMin = 0.98;  // on one GPU
constexpr std::size_t kFinalists = 3;  // measured again beside the engine

Status show_sets(Rig& rig, Direction direction, const std::vector<SetRate>& sets, Report& report) {
  const std::size_t most = rig.setup().quick ? 5 : sets.size();
  for (std::size_t i = 0; i < std::min(most, sets.size()); ++i) {
    report.add({"sets",
                std::string(name_of(direction)) + " links " + text_of(sets[i].links),
                {{"GB/s", in_gb(sets[i].rate)}},
                std::nullopt});
  }
  return {};
}

// The finalists and the engine's own choice in turns.
Status beside_best(Rig& rig, Direction direction, const std::vector<SetRate>& sets, Bytes bytes,
                   Report& report) {
  CAUSEWAY_ASSIGN(TransferEngine * engine, rig.engine());
  const auto choice = [&] { return rig.rate(*engine, rig.target(), direction, bytes); };
  const auto native = [&] { return rig.native_rate(rig.target(), direction, bytes); };
  SetRate best;
  double ours_beside_best = 0;
  for (std::size_t i = 0; i < std::min(kFinalists, sets.size()); ++i) {
    const auto forced = [&] {
      return rig.rate(*engine, rig.target(), direction, bytes, sets[i].links);
    };
    CAUSEWAY_ASSIGN(const Rig::Pair pair, rig.repeat_both(forced, choice));
    if (pair.a.median <= best.rate) continue;
    best = {sets[i].links, pair.a.median};
    ours_beside_best = pair.b.median;
  }
  CAUSEWAY_ASSIGN(const Rig::Pair beside, rig.repeat_both(native, choice));
  const bool alone = rig.gpus() == 1;
  const double share = ours_beside_best / best.rate;
  const double times = beside.b.median / beside.a.median;
  report.add(
      {"of best set",
       std::string(name_of(direction)) + " " + size_text(bytes) + ", best " + text_of(best.links),
       {{"best GB/s", in_gb(best.rate)},
        {"ours GB/s", in_gb(ours_beside_best)},
        {"of best", share},
        {"native GB/s", in_gb(beside.a.median)},
        {"× native", times}},
       alone ? Bar{"≥ 0.98 of native", times >= kOfNativeMin}
             : Bar{"≥ 0.95 of the best set", share >= kOfBestMin}});
  return {};
}

}  // namespace

Status run_sets(Rig& rig, Report& report) {
  for (const Direction direction : kBothDirections) {
    CAUSEWAY_ASSIGN(const auto* sets, rig.all_sets(direction));
    CAUSEWAY_TRY(show_sets(rig, direction, *sets, report));
    CAUSEWAY_TRY(beside_best(rig, direction, *sets, rig.large(), report));
    for (const Bytes bytes : rig.setup().sizes) {
      if (bytes <= rig.large()) continue;
      CAUSEWAY_TRY(beside_best(rig, direction, *sets, bytes, report));
    }
  }
  return {};
}

Status run_gpus(Rig& rig, Report& report) {
  CAUSEWAY_ASSIGN(TransferEngine * engine, rig.engine());
  for (const Direction direction : kBothDirections) {
    CAUSEWAY_TRY(rig.all_sets(direction));
    for (int count = 1; count <= rig.gpus(); ++count) {
      const auto best = rig.best_of(direction, count);
      if (!best) continue;
      const auto forced = [&](LinkSet links) {
        return rig.repeat(
            [&, links] { return rig.rate(*engine, rig.target(), direction, rig.large(), links); });
      };
      CAUSEWAY_ASSIGN(const Spread rate, forced(best->links));
      // Blind: the first so many GPUs, the target among them.
      LinkSet blind = LinkSet::first(count);
      if (!blind.has(rig.target())) blind = blind.without(count - 1).with(rig.target());
      CAUSEWAY_ASSIGN(const Spread first, forced(blind));
      report.add({"gpus",
                  std::string(name_of(direction)) + " " + std::to_string(count) + ", best " +
                      text_of(best->links),
                  {{"best GB/s", in_gb(rate.median)},
                   {"lowest", in_gb(rate.low)},
                   {"highest", in_gb(rate.high)},
                   {"first ones GB/s", in_gb(first.median)}},
                  std::nullopt});
    }
  }
  return {};
}

}  // namespace causeway::transfer::bench
