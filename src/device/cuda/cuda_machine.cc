#include "device/cuda/cuda_machine.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "device/cuda/cuda_arena_memory.h"
#include "device/cuda/cuda_queues.h"
#include "device/cuda/cuda_slice.h"
#include "device/cuda/cuda_state.h"
#include "device/cuda/cuda_stream.h"

namespace causeway::device {
namespace {

constexpr Bytes kGranularity = mib(2);  // of the driver's physical allocations

// The GPUs other than `owner` that reach its memory.
std::vector<int> peers_of(const CudaMachine::State& state, int owner) {
  std::vector<int> peers;
  for (const auto& gpu : state.gpus) {
    if (gpu->ordinal() != owner && gpu->reaches(owner)) peers.push_back(gpu->ordinal());
  }
  return peers;
}

Status check_slice(const CudaMachine::State& state, const SliceSpec& slice) {
  if (slice.physical_device < 0 || slice.physical_device >= std::ssize(state.gpus)) {
    return not_found("slice '" + slice.name + "': the machine has no GPU " +
                     std::to_string(slice.physical_device) + "; it has " +
                     std::to_string(state.gpus.size()));
  }
  const CudaPhysical& gpu = *state.gpus[static_cast<std::size_t>(slice.physical_device)];
  if (slice.processors < 0 || slice.processors > gpu.sms()) {
    return invalid_argument("slice '" + slice.name + "': " + gpu.label() + " has no " +
                            std::to_string(slice.processors) + " SMs; it has " +
                            std::to_string(gpu.sms()));
  }
  if (slice.unit < 0 || (slice.processors > 0 && slice.unit > slice.processors)) {
    return invalid_argument("slice '" + slice.name + "': units of " + std::to_string(slice.unit) +
                            " SMs are not what " + std::to_string(slice.processors) +
                            " SMs consist of");
  }
  if (slice.arena_bytes < Bytes(0)) {
    return invalid_argument("slice '" + slice.name + "': its arena has a negative size");
  }
  return {};
}

// No stream waits for a semaphore while the driver makes a green context, because the driver may
// wait for all work of the GPU meanwhile.
Result<std::unique_ptr<CudaContext>> make_context(CudaMachine::State& state,
                                                  const SliceSpec& slice) {
  CudaPhysical& physical = *state.gpus[static_cast<std::size_t>(slice.physical_device)];
  std::optional<CudaStreamWaits::Hold> hold;
  if (slice.processors > 0 && slice.processors < physical.sms()) hold.emplace(state.waits);
  return CudaContext::create(physical, slice.processors, slice.unit, state.clock);
}

}  // namespace

CudaMachine::CudaMachine(std::unique_ptr<State> state) : state_(std::move(state)) {}

CudaMachine::~CudaMachine() {
  CAUSEWAY_CHECK(state_->devices.empty(), "devices outlive their machine");
}

Result<std::unique_ptr<CudaMachine>> CudaMachine::create(const CudaApi& api,
                                                         CudaMachineOptions options,
                                                         const Clock& clock, HostMemory& memory) {
  if (options.extent_bytes.count <= 0 || options.extent_bytes % kGranularity != Bytes(0)) {
    return invalid_argument("extents of a GPU's arena are multiples of 2 MiB");
  }
  set_cuda_queues(options.own_links);
  CAUSEWAY_ASSIGN(const CudaFacts facts, ask_cuda(api));
  auto state = std::make_unique<State>(api, options, clock, memory);
  for (int gpu = 0; gpu < facts.devices; ++gpu) {
    CAUSEWAY_ASSIGN(auto physical, CudaPhysical::create(api, gpu, facts.devices));
    state->gpus.push_back(std::move(physical));
  }
  return std::make_unique<CudaMachine>(std::move(state));
}

int CudaMachine::gpus() const { return static_cast<int>(state_->gpus.size()); }

Result<CudaGpu> CudaMachine::describe(int ordinal) const {
  CAUSEWAY_CHECK(ordinal >= 0 && ordinal < gpus(), "no such GPU");
  CudaPhysical& physical = *state_->gpus[static_cast<std::size_t>(ordinal)];
  std::array<char, 32> id{};
  CAUSEWAY_TRY(physical.check(state_->api.cuDeviceGetPCIBusId(
                                  id.data(), static_cast<int>(id.size()) - 1, physical.handle()),
                              "cuDeviceGetPCIBusId"));
  std::size_t memory = 0;
  CAUSEWAY_TRY(physical.check(state_->api.cuDeviceTotalMem_v2(&memory, physical.handle()),
                              "cuDeviceTotalMem"));
  CudaGpu gpu;
  gpu.ordinal = ordinal;
  gpu.name = physical.label();
  gpu.pci_id = id.data();
  gpu.sms = physical.sms();
  gpu.memory = Bytes(static_cast<std::int64_t>(memory));
  gpu.memory_peak = physical.memory_peak();
  return gpu;
}

Result<std::vector<CudaSmUnits>> CudaMachine::sm_splits(int ordinal) {
  CAUSEWAY_CHECK(ordinal >= 0 && ordinal < gpus(), "no such GPU");
  return state_->gpus[static_cast<std::size_t>(ordinal)]->sm_splits();
}

bool CudaMachine::reaches(int source, int target) const {
  CAUSEWAY_CHECK(std::min(source, target) >= 0 && std::max(source, target) < gpus(), "no such GPU");
  return state_->gpus[static_cast<std::size_t>(source)]->reaches(target);
}

HostAccess CudaMachine::registered_access() const {
  const auto reads = [](const auto& gpu) { return gpu->registers_read_only(); };
  const bool all = std::all_of(state_->gpus.begin(), state_->gpus.end(), reads);
  return all ? HostAccess::kRead : HostAccess::kWrite;
}

Result<Bytes> CudaMachine::free_memory(int ordinal) {
  CAUSEWAY_CHECK(ordinal >= 0 && ordinal < gpus(), "no such GPU");
  CudaPhysical& physical = *state_->gpus[static_cast<std::size_t>(ordinal)];
  CAUSEWAY_ASSIGN(CUctx_st * context, physical.primary());
  const CudaScope scope(state_->api, context);
  CAUSEWAY_TRY(physical.check(scope.result(), "cuCtxPushCurrent"));
  std::size_t free = 0;
  std::size_t total = 0;
  CAUSEWAY_TRY(physical.check(state_->api.cuMemGetInfo_v2(&free, &total), "cuMemGetInfo"));
  return Bytes(static_cast<std::int64_t>(free));
}

Result<std::unique_ptr<Device>> CudaMachine::open(const SliceSpec& slice) {
  CAUSEWAY_TRY(check_slice(*state_, slice));
  CudaPhysical& physical = *state_->gpus[static_cast<std::size_t>(slice.physical_device)];
  const std::string what = "slice '" + slice.name + "'";
  CAUSEWAY_ASSIGN(auto context, make_context(*state_, slice).with_context(what));
  const Bytes extent = state_->options.extent_bytes;
  Capabilities capabilities;
  capabilities.name = slice.name;
  capabilities.processors = context->sms();
  capabilities.extent_bytes = extent;
  capabilities.arena_bytes = extent * (slice.arena_bytes / extent);
  capabilities.copies_max = CudaStream::kCopiesMax;
  capabilities.host_readable = physical.maps_host_memory();
  capabilities.peer_copies = physical.reaches_any_peer();
  capabilities.semaphores = physical.waits_for_memory();
  CAUSEWAY_ASSIGN(auto memory,
                  reserve_cuda_arena(*context, {.name = slice.name,
                                                .bytes = capabilities.arena_bytes,
                                                .extent = extent,
                                                .peers = peers_of(*state_, slice.physical_device),
                                                .spares_max = state_->options.spares_max}));
  const std::lock_guard lock(state_->mutex);
  const DeviceId id(state_->next_device++);
  auto device = std::make_unique<CudaSlice>(*state_, id, std::move(capabilities),
                                            std::move(context), std::move(memory));
  state_->devices[id] = {slice.physical_device, &device->arena()};
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace causeway::device
