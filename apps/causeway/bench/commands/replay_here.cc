#include "bench/commands/replay_here.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "commands/gpu_option.h"
#include "commands/served_catalogue.h"
#include "device/memory_headroom.h"
#include "fleet/local_fleet.h"
#include "slice/machine.h"

namespace causeway::app {
namespace {

Result<Bytes> pool_of(const ReplayHereOptions& options) {
  if (options.pool > Bytes(0)) return options.pool;
  CAUSEWAY_ASSIGN(const device::MemoryHeadroom headroom, device::read_memory_headroom());
  const Bytes kv = options.slices.kv_host + (options.cuda ? Bytes(0) : options.slices.kv);
  return std::max(headroom.bytes - headroom.bytes / 8 - kv, Bytes(0));
}

Result<std::unique_ptr<slice::Machine>> machine_of(const ReplayHereOptions& options,
                                                   slice::ModelHome& home, const Clock& clock) {
  if (!options.cuda) return slice::Machine::open_host({}, {}, home, clock);
  return slice::Machine::open_gpus({.choice = slice::LinkChoice::kOwn}, home, clock);
}

// The fleet, and what it borrows; in the order in which they end, the last first.
struct FleetHere {
  slice::ModelHome home;
  bench::ReplaySink answers;
  fleet::SerialSink sink{answers};
  std::unique_ptr<slice::Machine> machine = {};
  std::unique_ptr<ServedSlices> slices = {};
  std::unique_ptr<fleet::PoolHome> pool_home = {};
  std::unique_ptr<fleet::LocalFleet> fleet = {};
};

Status open_fleet(ReplayHereOptions& options, const RotationOptions& targets, const Clock& clock,
                  FleetHere& here) {
  CatalogueOptions from;
  from.models_dir = options.models_dir;
  ServedCatalogue catalogue(from, targets);
  CAUSEWAY_ASSIGN(auto models, catalogue.read_all());
  CAUSEWAY_ASSIGN(here.machine, machine_of(options, here.home, clock));
  CAUSEWAY_ASSIGN(const GpuChoice gpus, gpu_choice("0", options.slices.slices, *here.machine));
  options.slices.slices = gpus.slices;
  options.slices.instances = gpus.instances;
  options.slices.isolate = options.slices.isolate || !gpus.instances.empty();
  CAUSEWAY_ASSIGN(here.slices,
                  ServedSlices::open(options.slices, models, *here.machine, here.sink));
  catalogue.set_slices(*here.slices);
  for (fleet::CatalogueModel& model : models) catalogue.fit(model);
  here.pool_home = here.slices->pool_home(here.home, clock, nullptr);
  CAUSEWAY_ASSIGN(here.fleet, fleet::LocalFleet::start(
                                  std::move(models),
                                  {.waiting_for_load_max = options.slices.engine.requests_max,
                                   .placement = options.placement},
                                  *here.pool_home, here.slices->fleet(), here.sink));
  if (options.ready_max == Nanos(0) || here.fleet->wait_until_loaded(options.ready_max)) return {};
  return Error{ErrorCode::kDeadlineExceeded,
               fmt::format("the models are not loaded after {:.0f} s: give --wait-ready longer",
                           to_seconds(options.ready_max))};
}

}  // namespace

Result<bench::ReplayReport> replay_here(ReplayHereOptions options, const RotationOptions& targets,
                                        const bench::ReplayOptions& list, const Clock& clock) {
  CAUSEWAY_ASSIGN(const Bytes pool, pool_of(options));
  FleetHere here{.home{clock, pool}, .answers = bench::ReplaySink(clock)};
  CAUSEWAY_TRY(open_fleet(options, targets, clock, here));
  const std::size_t slices = here.slices->count();
  options.replay.source =
      fmt::format("{} slice{} of this {}{}, {}", slices, slices == 1 ? "" : "s",
                  options.cuda ? "machine's GPUs" : "CPU",
                  options.slices.isolate ? ", in workers" : "", fleet::name_of(options.placement));
  auto report = bench::replay_on_fleet(*here.fleet, here.answers, options.replay, list, clock);
  (void)here.fleet->stop();
  here.slices->stop();
  return report;
}

}  // namespace causeway::app
