#include "bench/kv_stage.h"

#include <string>
#include <utility>

#include "device/memory_headroom.h"

namespace causeway::bench {
namespace {

using transfer::Direction;

// As long as a run may take: what is late is seen by the rate.
constexpr Nanos kLateMax = seconds(30);

device::Copy copy_of(Direction direction, device::MemoryAddress host, device::MemoryAddress device,
                     Bytes bytes) {
  const bool in = direction == Direction::kIn;
  return {in ? device : host, in ? host : device, bytes};
}

}  // namespace

Result<std::unique_ptr<KvStage>> KvStage::open(const KvStageSettings& settings,
                                               const Clock& clock) {
  auto stage = std::make_unique<KvStage>(clock);
  CAUSEWAY_TRY(stage->open_machine(settings));
  CAUSEWAY_TRY(stage->choose_size(settings));
  CAUSEWAY_TRY(stage->open_memory(settings));
  return stage;
}

// The GPU's own link alone: the raw limit is this link's.
Status KvStage::open_machine(const KvStageSettings& settings) {
  const slice::LinkOptions own{.choice = slice::LinkChoice::kOwn};
  if (settings.on_gpu) {
    CAUSEWAY_ASSIGN(machine_, slice::Machine::open_gpus(own, home_, clock_));
  } else {
    const double link = settings.modelled_link;
    CAUSEWAY_ASSIGN(
        machine_, slice::Machine::open_host(
                      {.links = device::make_link_tree({.link = link, .link_duplex = 1.8 * link})},
                      own, home_, clock_));
  }
  if (settings.gpu < machine_->gpus()) return {};
  return invalid_argument("--gpu " + std::to_string(settings.gpu) + ": there are " +
                          std::to_string(machine_->gpus()) + ", counted from 0");
}

Status KvStage::choose_size(const KvStageSettings& settings) {
  CAUSEWAY_ASSIGN(const device::MemoryHeadroom host, device::read_memory_headroom());
  KvRoom room{.host = host.bytes, .device = {}};
  if (machine_->cuda() != nullptr) {
    CAUSEWAY_ASSIGN(room.device, machine_->cuda()->free_memory(settings.gpu));
  }
  CAUSEWAY_ASSIGN(blocks_, blocks_each_way(settings.bytes, settings.block, room));
  return {};
}

Status KvStage::open_memory(const KvStageSettings& settings) {
  const Bytes half = settings.block * blocks_;
  CAUSEWAY_ASSIGN(device_,
                  machine_->open({.name = "kv",
                                  .physical_device = settings.gpu,
                                  .arena_bytes = round_up(half * 2, device::kExtentBytes)}));
  CAUSEWAY_ASSIGN(auto frames, kv::FrameArena::create(
                                   *device_, {.frame = settings.block, .frames = blocks_ * 2}));
  frames_.emplace(std::move(frames));
  device::HostMemory& memory = home_.memory;
  CAUSEWAY_ASSIGN(plain_, kv::TwinMemory::create(memory, {.frame = half, .bytes = half * 2}));
  // In one piece: a copy that crosses pieces is several.
  CAUSEWAY_TRY(plain_->reach(*device_, {.piece = half * 2,
                                        .busy = [] { return false; },
                                        .cancelled = [] { return false; },
                                        .pause = [](Nanos) {}}));
  CAUSEWAY_ASSIGN(twins_,
                  slice::TwinHome::open(*device_, *machine_, settings.block, {.bytes = half * 2}));
  CAUSEWAY_ASSIGN(links_, machine_->connect_kv(*device_, settings.gpu, {}));
  mover_ =
      slice::make_kv_mover(*device_, links_, *frames_, *twins_, {.late_max = kLateMax}, clock_);
  return {};
}

device::Copy KvStage::block_copy(Direction direction, FrameId frame, TwinId twin) const {
  return copy_of(direction, twins().address_of(twin), frames_->address_of(frame), block());
}

LayeredBases KvStage::plain(Direction direction) const {
  const bool in = direction == Direction::kIn;
  return {.host = plain_->address_of(TwinId(in ? 1 : 0)),
          .device = frames_->address_of(FrameId(in ? blocks_ : 0))};
}

}  // namespace causeway::bench
