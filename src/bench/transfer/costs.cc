// What the engine costs: processor time of the process (MMA figure 12) and memory of the relays.
#include <sys/resource.h>

#include <condition_variable>
#include <mutex>

#include "bench/transfer/parts.h"

namespace causeway::transfer::bench {
namespace {

constexpr double kCopyingMaxPercent = 200;
constexpr double kIdleMaxPercent = 2;
constexpr double kMemoryMaxMib = 64;

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

void rest(Nanos length) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, std::chrono::nanoseconds(length.count));
}

// Processor time in per cent of one processor while `work` runs.
Result<double> percent_during(const Rig& rig, const std::function<Status()>& work) {
  const double before = processor_seconds();
  const Nanos begin = rig.now();
  CAUSEWAY_TRY(work());
  return 100 * (processor_seconds() - before) / to_seconds(rig.now() - begin);
}

Status copying(Rig& rig, TransferEngine& engine, Direction direction, LinkSet links,
               Report& report) {
  double bytes = 0;
  const Nanos begin = rig.now();
  CAUSEWAY_ASSIGN(const double percent, percent_during(rig, [&]() -> Status {
                    while (rig.now() - begin < rig.setup().steady) {
                      CAUSEWAY_TRY(rig.time(
                          engine, rig.request(rig.target(), direction, rig.large(), 0, links)));
                      bytes += static_cast<double>(rig.large().count);
                    }
                    return {};
                  }));
  const std::string how = links.empty() ? "as the engine chooses" : "links " + text_of(links);
  report.add({"cpu",
              std::string(name_of(direction)) + ", " + how,
              {{"processor %", percent}, {"GB/s", in_gb(bytes / to_seconds(rig.now() - begin))}},
              Bar{"≤ 200 %", percent <= kCopyingMaxPercent}});
  return {};
}

}  // namespace

Status run_cpu(Rig& rig, Report& report) {
  CAUSEWAY_ASSIGN(TransferEngine * engine, rig.engine());
  for (const Direction direction : kBothDirections) {
    CAUSEWAY_TRY(copying(rig, *engine, direction, {}, report));
    for (int links = 1; links <= rig.gpus(); links *= 2) {
      CAUSEWAY_TRY(copying(rig, *engine, direction, LinkSet::first(links), report));
    }
  }
  const auto wait = [&]() -> Status {
    rest(rig.setup().steady);
    return {};
  };
  CAUSEWAY_ASSIGN(const double percent, percent_during(rig, wait));
  report.add({"cpu idle",
              "nothing pending",
              {{"processor %", percent}},
              Bar{"≤ 2 %", percent <= kIdleMaxPercent}});
  return {};
}

Status run_memory(Rig& rig, Report& report) {
  std::vector<std::int64_t> extents;
  std::vector<Bytes> free;
  for (int gpu = 0; gpu < rig.gpus(); ++gpu) {
    extents.push_back(rig.setup().devices[static_cast<std::size_t>(gpu)]->arena().free_extents());
    CAUSEWAY_ASSIGN(const Bytes bytes, rig.setup().free_memory(gpu));
    free.push_back(bytes);
  }
  CAUSEWAY_ASSIGN(const auto engine, rig.make_engine(rig.setup().engine));
  CAUSEWAY_TRY(rig.rate(*engine, rig.target(), Direction::kIn, rig.large()));
  for (int gpu = 0; gpu < rig.gpus(); ++gpu) {
    const auto g = static_cast<std::size_t>(gpu);
    device::Arena& arena = rig.setup().devices[g]->arena();
    const Bytes staging = arena.extent_bytes() * (extents[g] - arena.free_extents());
    CAUSEWAY_ASSIGN(const Bytes left, rig.setup().free_memory(gpu));
    const double all = static_cast<double>((free[g] - left).count) / (1 << 20);
    report.add({"memory",
                "GPU " + std::to_string(gpu),
                {{"staging MiB", static_cast<double>(staging.count) / (1 << 20)},
                 {"all of the engine MiB", all}},
                Bar{"≤ 64 MiB", std::max(all, 0.0) <= kMemoryMaxMib && staging <= mib(64)}});
  }
  return {};
}

}  // namespace causeway::transfer::bench
