// All GPUs at once, each with a transfer of its own, with and without direct work first, beside a
// copy between two GPUs (MMA table 2): direct-first is to keep NVLink free.
#include <algorithm>

#include "bench/transfer/background_traffic.h"
#include "bench/transfer/parts.h"

namespace causeway::transfer::bench {
namespace {

// All GPUs' transfers, until the last has ended; the sum.
Result<double> all_at_once(Rig& rig, TransferEngine& engine, Direction direction) {
  const Nanos begin = rig.now();
  std::vector<Completion> completions;
  for (int gpu = 0; gpu < rig.gpus(); ++gpu) {
    CAUSEWAY_ASSIGN(Completion one, engine.submit(rig.request(gpu, direction, rig.large())));
    completions.push_back(std::move(one));
  }
  for (const Completion& one : completions) CAUSEWAY_TRY(one.wait(seconds(60)));
  return static_cast<double>(rig.large().count * rig.gpus()) / to_seconds(rig.now() - begin);
}

// From the target's GPU to the next.
Result<std::unique_ptr<BackgroundTraffic>> peer_traffic(Rig& rig) {
  const int source = rig.target(), target = (rig.target() + 1) % rig.gpus();
  CAUSEWAY_ASSIGN(auto native, rig.setup().native(source));
  device::Copy copy = rig.copy(source, Direction::kOut, rig.large(), 1);
  copy.target = rig.copy(target, Direction::kIn, rig.large(), 1).target;
  return BackgroundTraffic::start(std::move(native), {copy}, *rig.setup().clock);
}

Status one(Rig& rig, const char* name, bool direct_first, Direction direction, double peer_alone,
           BackgroundTraffic& peers, Report& report) {
  TransferEngineOptions options = rig.setup().engine;
  options.dispatch.direct_first = direct_first;
  CAUSEWAY_ASSIGN(const auto engine, rig.make_engine(options));
  const Nanos until = rig.now() + rig.setup().steady;
  std::vector<double> rates;
  CAUSEWAY_TRY(all_at_once(rig, *engine, direction));
  const Bytes before = relayed_bytes(*engine, direction);
  CAUSEWAY_ASSIGN(const double peer, peers.rate_during([&]() -> Status {
    while (rates.size() < 3 || rig.now() < until) {
      CAUSEWAY_ASSIGN(const double rate, all_at_once(rig, *engine, direction));
      rates.push_back(rate);
    }
    return {};
  }));
  const double relayed = static_cast<double>((relayed_bytes(*engine, direction) - before).count);
  const double moved =
      static_cast<double>(rig.large().count * rig.gpus()) * static_cast<double>(rates.size());
  report.add({"direct-first",
              std::string(name_of(direction)) + ", " + name,
              {{"sum GB/s", in_gb(spread_of(rates).median)},
               {"share over NVLink", relayed / moved},
               {"peer copy GB/s", in_gb(peer)},
               {"peer alone GB/s", in_gb(peer_alone)}},
              std::nullopt});
  return {};
}

}  // namespace

Status run_direct_first(Rig& rig, Report& report) {
  const auto can_relay = [](const device::Device* d) { return d->capabilities().peer_copies; };
  if (rig.gpus() < 2 ||
      !std::all_of(rig.setup().devices.begin(), rig.setup().devices.end(), can_relay)) {
    return {};
  }
  CAUSEWAY_ASSIGN(const auto peers, peer_traffic(rig));
  for (const Direction direction : kBothDirections) {
    CAUSEWAY_ASSIGN(const double alone, peers->rate_alone(rig.setup().steady / 2));
    CAUSEWAY_TRY(one(rig, "on", true, direction, alone, *peers, report));
    CAUSEWAY_TRY(one(rig, "off", false, direction, alone, *peers, report));
  }
  return {};
}

}  // namespace causeway::transfer::bench
