// Two processes with an engine each, over the same links (MMA figure 10b): only back-pressure makes
// them share.
#include <algorithm>

#include "bench/transfer/parts.h"

namespace causeway::transfer::bench {
namespace {

Status together(Rig& rig, int other, Direction direction, Report& report) {
  CAUSEWAY_ASSIGN(TransferEngine * engine, rig.engine());
  const Nanos length = rig.setup().steady;
  const auto ours = [&](Nanos time) {
    return steady_rate_of(rig, *engine, rig.target(), direction, time);
  };
  CAUSEWAY_ASSIGN(const double alone, ours(length));
  // It moves a little longer than we look, so that we are never alone.
  CAUSEWAY_ASSIGN(const auto process, rig.setup().second_process(other, direction, length * 3 / 2));
  CAUSEWAY_TRY(process->go());
  CAUSEWAY_ASSIGN(const double first, ours(length));
  CAUSEWAY_TRY(ours(length));  // until it has ended, so that it is not alone either
  CAUSEWAY_ASSIGN(const double second, process->rate());
  report.add(
      {"processes",
       std::string(name_of(direction)) + ", the other's target is GPU " + std::to_string(other),
       {{"alone GB/s", in_gb(alone)},
        {"first GB/s", in_gb(first)},
        {"second GB/s", in_gb(second)},
        {"sum GB/s", in_gb(first + second)},
        {"less ÷ more", std::min(first, second) / std::max(first, second)}},
       std::nullopt});
  return {};
}

}  // namespace

Status run_processes(Rig& rig, Report& report) {
  if (!rig.setup().second_process) return {};
  for (const Direction direction : kBothDirections) {
    CAUSEWAY_TRY(together(rig, rig.target(), direction, report));
    const int other = rig.gpus() - 1 - rig.target();
    if (other != rig.target() && other >= 0) {
      CAUSEWAY_TRY(together(rig, other, direction, report));
    }
  }
  return {};
}

}  // namespace causeway::transfer::bench
