#include "slice/twin_home.h"

#include <system_error>
#include <utility>

#include "base/log.h"

namespace causeway::slice {
Result<std::unique_ptr<TwinHome>> TwinHome::open(device::Device& device, Machine& machine,
                                                 Bytes frame, const KvHostOptions& options) {
  auto home = std::make_unique<TwinHome>(device);
  CAUSEWAY_ASSIGN(
      home->twins_,
      kv::TwinMemory::create(machine.home().memory,
                             {.frame = frame, .bytes = options.bytes, .piece = options.ahead}));
  const auto cancelled = [&stop = home->cancelled_] { return stop.load(); };
  CAUSEWAY_TRY(home->twins_->reach(
      device, pace_among(machine.slices(), options.registered_at_once, cancelled)));
  return home;
}

Status TwinHome::grow(std::function<void(std::int64_t)> there) {
  if (twins_->twins_there() == twins_->twins()) return {};
  try {
    growth_ = std::thread([this, there = std::move(there)] { run_growth(there); });
  } catch (const std::system_error& error) {
    return exhausted(std::string("cannot start a thread: ") + error.what());
  }
  return {};
}

void TwinHome::run_growth(const std::function<void(std::int64_t)>& there) {
  while (!cancelled_) {
    const auto more = twins_->grow();
    if (!more.ok()) {
      if (more.error().code == ErrorCode::kCancelled) return;
      spdlog::warn("{} of {} blocks of KV may be in host memory: {}", twins_->twins_there(),
                   twins_->twins(), more.error().message);
      return;
    }
    if (*more == 0) return;
    there(*more);
  }
}

// What is there is taken back as gently as ever.
void TwinHome::stop_growing() {
  cancelled_ = true;
  if (growth_.joinable()) growth_.join();
  cancelled_ = false;
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
