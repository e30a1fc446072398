#include "preload/gpus.h"

#include <algorithm>

#include "base/dcheck.h"
#include "device/cuda/cuda_arena_memory.h"
#include "preload/raw_device.h"

namespace causeway::preload {
namespace {

constexpr Bytes kExtent = mib(2);

bool contains(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

Result<std::unique_ptr<Gpus>> Gpus::open(const Native& native, const GpusOptions& options,
                                         const Clock& clock) {
  CAUSEWAY_ASSIGN(const device::CudaFacts facts, device::ask_cuda(native.api));
  auto gpus = std::make_unique<Gpus>(native);
  gpus->primaries_.assign(index(facts.devices), nullptr);
  for (const int ordinal : options.gpus) {
    if (ordinal < 0 || ordinal >= facts.devices) continue;
    CAUSEWAY_TRY(gpus->add(ordinal, facts.devices, options, clock));
  }
  return gpus;
}

Status Gpus::add(int ordinal, int count, const GpusOptions& options, const Clock& clock) {
  Gpu gpu;
  CAUSEWAY_ASSIGN(gpu.physical, device::CudaPhysical::create(native_.api, ordinal, count));
  CAUSEWAY_ASSIGN(gpu.context, device::CudaContext::create(*gpu.physical, 0, 0, clock));
  primaries_[index(ordinal)] = gpu.context->handle();
  if (native_.cuCtxGetId != nullptr) (void)native_.cuCtxGetId(gpu.context->handle(), &gpu.id);
  gpu.relays = contains(options.relays, ordinal) && options.staging >= kExtent;
  std::vector<int> peers;
  for (const int peer : options.gpus) {
    if (peer != ordinal && peer >= 0 && peer < count && gpu.physical->reaches(peer)) {
      peers.push_back(peer);
    }
  }
  CAUSEWAY_DCHECK(ordinal >= 0 && ordinal < count, "no such GPU");
  gpu.relays = gpu.relays && !peers.empty();
  const Bytes staging = gpu.relays ? kExtent * (options.staging / kExtent) : Bytes(0);
  CAUSEWAY_DCHECK(!gpu.relays || staging >= kExtent, "a relay without staging memory");
  CAUSEWAY_ASSIGN(
      auto memory,
      device::reserve_cuda_arena(
          *gpu.context,
          {.name = "staging", .bytes = staging, .extent = kExtent, .peers = std::move(peers)}));
  gpu.device = std::make_unique<RawDevice>(*this, this->count(), std::move(memory), staging,
                                           kExtent, gpu.relays);
  gpus_.push_back(std::move(gpu));
  return {};
}

Gpus::~Gpus() {
  if (stopped()) {
    // Contexts that may be gone: nothing of theirs can be destroyed.
    for (Gpu& gpu : gpus_) {
      (void)gpu.device.release();
      (void)gpu.context.release();
      (void)gpu.physical.release();
    }
    return;
  }
  for (const auto& [key, stream] : peer_streams_) context(key.target).destroy_stream(stream);
  // Devices go before the contexts that they use.
  for (Gpu& gpu : gpus_) gpu.device.reset();
}

int Gpus::link_of(int ordinal) const {
  for (int link = 0; link < count(); ++link) {
    if (this->ordinal(link) == ordinal) return link;
  }
  return -1;
}

bool Gpus::can_relay(int relay, int target) const {
  CAUSEWAY_DCHECK(relay >= 0 && relay < count() && target >= 0 && target < count(), "no such link");
  const Gpu& helper = gpus_[index(relay)];
  const Gpu& helped = gpus_[index(target)];
  return relay != target && helper.relays && helper.physical->reaches(helped.physical->ordinal()) &&
         helped.physical->reaches(helper.physical->ordinal());
}

bool Gpus::same_contexts() const {
  if (native_.cuCtxGetId == nullptr) return true;
  return std::all_of(gpus_.begin(), gpus_.end(), [&](const Gpu& gpu) {
    unsigned long long id = 0;
    return native_.cuCtxGetId(gpu.context->handle(), &id) == device::kCudaSuccess && id == gpu.id;
  });
}

Status Gpus::health() const {
  for (int link = 0; link < count(); ++link) {
    // A stream of a dead context returns the error that tells.
    int result = device::kCudaSuccess;
    CAUSEWAY_TRY(call(link, "cuStreamQuery", [&] {
      result = native_.api.cuStreamQuery(kThreadStream);
      return result == device::kCudaNotReady ? device::kCudaSuccess : result;
    }));
  }
  return {};
}

Result<CUstream_st*> Gpus::peer_stream(int target, int relay, bool in) {
  const std::lock_guard lock(mutex_);
  CAUSEWAY_DCHECK(can_relay(relay, target), "a stream for a pair that cannot relay");
  CUstream_st*& stream = peer_streams_[{target, relay, in}];
  if (stream == nullptr) {
    CAUSEWAY_ASSIGN(stream, context(target).make_stream(0, kUrgencies));
  }
  return stream;
}

Status Gpus::prepare(int target) {
  for (int relay = 0; relay < count(); ++relay) {
    if (!can_relay(relay, target)) continue;
    for (const bool in : {true, false}) {
      const auto made = peer_stream(target, relay, in);
      if (!made.ok()) return made.error();
    }
  }
  return {};
}

transfer::PathFacts assumed_paths(const Gpus& gpus) {
  transfer::PathFacts facts = transfer::assume_all_links(gpus.count());
  for (transfer::WayFacts& way : facts.ways) {
    for (int target = 0; target < gpus.count(); ++target) {
      transfer::LinkSet reach = transfer::LinkSet::of(target);
      for (int relay = 0; relay < gpus.count(); ++relay) {
        if (gpus.can_relay(relay, target)) reach = reach.with(relay);
      }
      CAUSEWAY_DCHECK(reach.has(target), "a target is reached over its own link");
      way.reach[static_cast<std::size_t>(target)] = reach;
      way.best[static_cast<std::size_t>(target)] = reach;
    }
  }
  return facts;
}

}  // namespace causeway::preload
