// What a small transfer costs beside the driver's own calls: the engine on a driver whose calls on
// the way do nothing and answer at once, beside those three calls by themselves.
//
//   valgrind --tool=callgrind --toggle-collect='*small_transfer*' … counts instructions, which a
//   busy machine does not disturb; --dump-before='*::copy(*' --dump-after='*::query(*' and the like
//   those of each part of the way.
#include "transfer/engine.h"

#include <benchmark/benchmark.h>

#include <array>

#include "device/arena.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_machine.h"
#include "device/testing/fake_cuda.h"

namespace causeway::transfer {
namespace {

using device::CudaApi;
using device::CudaDevicePointer;

// The fake driver while things are made, then nothing at all. Its own functions carry no state.
CudaApi fake;
bool idle = false;
thread_local std::array<CUctx_st*, 8> contexts{};
thread_local std::size_t depth = 0;

int current(CUctx_st** context) {
  *context = contexts[depth];
  return 0;
}
int push(CUctx_st* context) {
  contexts[++depth] = context;
  return idle ? 0 : fake.cuCtxPushCurrent_v2(context);
}
int pop(CUctx_st** context) {
  *context = contexts[depth--];
  return idle ? 0 : fake.cuCtxPopCurrent_v2(context);
}
int copy(CudaDevicePointer target, CudaDevicePointer source, std::size_t bytes,
         CUstream_st* stream) {
  return idle ? 0 : fake.cuMemcpyAsync(target, source, bytes, stream);
}
int record(CUevent_st* event, CUstream_st* stream) {
  return idle ? 0 : fake.cuEventRecord(event, stream);
}
int query(CUevent_st* event) { return idle ? 0 : fake.cuEventQuery(event); }

CudaApi idle_api(const device::testing::FakeCuda& driver) {
  fake = driver.api();
  CudaApi api = fake;
  api.cuCtxGetCurrent = current;
  api.cuCtxPushCurrent_v2 = push;
  api.cuCtxPopCurrent_v2 = pop;
  api.cuMemcpyAsync = copy;
  api.cuEventRecord = record;
  api.cuEventQuery = query;
  return api;
}

struct Machine {
  Machine() {
    segment.host = device::MemoryAddress::in_host({region, Bytes(0)});
    segment.device = device::MemoryAddress::in_arena(slice->id(), extents.offset());
    segment.bytes = kib(4);
    moved = move().ok() && move().ok();  // registers the region, makes the marks that take turns
    idle = true;
  }
  ~Machine() { idle = false; }

  // From submit() until the caller knows.
  Status move() {
    TransferRequest request;
    request.target = slice->id();
    request.segments = {segment};
    CAUSEWAY_ASSIGN(const Completion completion, engine->submit(std::move(request)));
    return completion.wait(seconds(1));
  }

  device::testing::FakeCuda driver{{.gpus = 1}};
  const CudaApi api = idle_api(driver);
  RealClock clock;
  device::HostMemory memory;
  RegionId region = memory.allocate({.name = "bench", .bytes = mib(2)}).value();
  std::unique_ptr<device::CudaMachine> machine =
      device::CudaMachine::create(api, {.extent_bytes = mib(2)}, clock, memory).value();
  std::unique_ptr<device::Device> slice =
      machine->open({.name = "bench", .arena_bytes = mib(4)}).value();
  device::Extents extents = slice->arena().allocate(1, device::Arena::End::kLow).value();
  std::unique_ptr<TransferEngine> engine =
      TransferEngine::create({}, {{{slice.get()}}}, assume_all_links(1), clock).value();
  Segment segment;
  bool moved = false;
};

void driver_calls(benchmark::State& state) {
  Machine m;
  for (auto _ : state) {
    int result = m.api.cuMemcpyAsync(1, 2, 4096, nullptr);
    result |= m.api.cuEventRecord(nullptr, nullptr);
    result |= m.api.cuEventQuery(nullptr);
    benchmark::DoNotOptimize(result);
  }
}
BENCHMARK(driver_calls);

// With `range` 1 the GPU's context is current, as in a program that uses CUDA.
void small_transfer(benchmark::State& state) {
  Machine m;
  if (state.range(0) == 1) push(device::cuda_context_of(*m.slice));
  for (auto _ : state) {
    if (!m.moved || !m.move().ok()) {
      state.SkipWithError("the transfer failed");
      break;
    }
  }
  if (state.range(0) == 1) --depth;
}
BENCHMARK(small_transfer)->Arg(0)->Arg(1);

}  // namespace
}  // namespace causeway::transfer
