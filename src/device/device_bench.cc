// What the CPU backend costs, beside plain memcpy of the same run.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "base/clock.h"
#include "device/host/host_machine.h"
#include "device/link_model.h"

namespace causeway::device {
namespace {

constexpr Nanos kPatience = seconds(60);

struct Machine {
  RealClock clock;
  HostMemory memory;
  std::unique_ptr<HostMachine> machine = HostMachine::create({}, clock, memory).value();
  std::unique_ptr<Device> device =
      machine->open({.name = "bench", .arena_bytes = mib(256)}).value();
  Extents extents = device->arena().allocate(8, Arena::End::kLow).value();
  RegionId region = memory.allocate({.name = "bench", .bytes = mib(256)}).value();
};

// 256 MiB by calls of `range` KiB; very long ones use stores past the caches.
void memcpy_baseline(benchmark::State& state) {
  Machine m;
  const auto host = m.memory.resolve({m.region, Bytes(0)}, mib(256));
  for (auto _ : state) {
    const auto piece = static_cast<std::size_t>(state.range(0)) << 10;
    for (std::size_t at = 0; at < host.size(); at += piece) {
      std::memcpy(m.extents.data() + at, host.data() + at, piece);
    }
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * (256 << 20));
}
BENCHMARK(memcpy_baseline)
    ->Arg(4'096)
    ->Arg(262'144)
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

// 256 MiB in one batch of pieces of `range` KiB.
void copy_batch(benchmark::State& state) {
  Machine m;
  const auto stream = m.device->make_stream("copies").value();
  std::vector<Copy> copies;
  const Bytes piece = kib(state.range(0));
  for (Bytes at; at < mib(256); at += piece) {
    copies.push_back({MemoryAddress::in_arena(m.device->id(), at),
                      MemoryAddress::in_host({m.region, at}), piece});
  }
  for (auto _ : state) {
    if (!stream->copy(copies, CopyPriority::kStep).ok() || !stream->synchronize(kPatience).ok()) {
      state.SkipWithError("the copy failed");
    }
  }
  state.SetBytesProcessed(state.iterations() * (256 << 20));
}
BENCHMARK(copy_batch)
    ->Arg(64)
    ->Arg(4'096)
    ->Arg(262'144)
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

// From submitting empty work until it is known to be done.
void stream_round_trip(benchmark::State& state) {
  Machine m;
  const auto stream = m.device->make_stream("round trips").value();
  for (auto _ : state) {
    if (!stream->run([]() -> Status { return {}; }).ok() || !stream->synchronize(kPatience).ok()) {
      state.SkipWithError("the work failed");
    }
  }
}
BENCHMARK(stream_round_trip)->UseRealTime();

// Starting and ending a transfer among `range` others on eight devices.
void link_model_event(benchmark::State& state) {
  const LinkProfile profile =
      make_link_tree({.devices = 8, .devices_per_switch = 4, .switch_link = 100e9});
  LinkModel model(profile.resources);
  std::vector<FlowId> flows;
  Nanos now;
  const auto start = [&](std::int64_t i) {
    const LinkPath& path = profile.paths[static_cast<std::size_t>(i) % profile.paths.size()];
    flows.push_back(model.start({gib(1'000), path.route, CopyPriority::kStep, {}}, now));
  };
  for (std::int64_t i = 0; i < state.range(0); ++i) start(i);
  std::int64_t next = 0;
  for (auto _ : state) {
    now += micros(1);
    start(next++);
    model.cancel(flows.back(), now);
    flows.pop_back();
  }
}
BENCHMARK(link_model_event)->Arg(2)->Arg(16)->Arg(128);

// Mapping and first touch of a region of `range` MiB.
void allocate_region(benchmark::State& state) {
  HostMemory memory;
  for (auto _ : state) {
    const auto region = memory.allocate({.name = "bench", .bytes = mib(state.range(0))});
    if (!region.ok() || !memory.release(*region).ok()) state.SkipWithError("no memory");
  }
  state.SetBytesProcessed(state.iterations() * (state.range(0) << 20));
}
BENCHMARK(allocate_region)->Arg(512)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace causeway::device
