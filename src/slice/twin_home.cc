#include "slice/twin_home.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace causeway::slice {
namespace {

device::Pace pace_among(const SliceBook& slices) {
  return {.busy = [&slices] { return slices.serving(); },
          .cancelled = [] { return false; },
          .pause =
              [](Nanos length) {
                std::mutex mutex;
                std::condition_variable never;
                std::unique_lock lock(mutex);
                (void)never.wait_for(lock, std::chrono::nanoseconds(length.count));
              }};
}

}  // namespace

Result<std::unique_ptr<TwinHome>> TwinHome::open(device::Device& device, Machine& machine,
                                                 Bytes frame, const KvHostOptions& options) {
  CAUSEWAY_ASSIGN(auto twins, kv::TwinMemory::create(machine.home().memory,
                                                     {.frame = frame, .bytes = options.bytes}));
  CAUSEWAY_TRY(twins->reach(device, pace_among(machine.slices())));
  return std::make_unique<TwinHome>(device, std::move(twins));
}

std::unique_ptr<kv::TransferKvMover> make_kv_mover(device::Device& device, const KvLinks& links,
                                                   const kv::FrameArena& frames, TwinHome& home,
                                                   const kv::KvMoverOptions& options,
                                                   const Clock& clock) {
  return std::make_unique<kv::TransferKvMover>(
      options, kv::TransferKvMover::Parts{.device = device,
                                          .engine = *links.engine,
                                          .claim_in = *links.claim_in,
                                          .claim_out = *links.claim_out,
                                          .frames = frames,
                                          .twins = home.twins(),
                                          .gates = home.gates(),
                                          .clock = clock});
}

}  // namespace causeway::slice
