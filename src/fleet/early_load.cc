#include "fleet/early_load.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "base/dcheck.h"
#include "base/log.h"

namespace causeway::fleet {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(50);  // of what cancels a load

}  // namespace

EarlyLoad::EarlyLoad(slice::ModelHome& home, const Clock& clock, ModelId model, ModelSource source,
                     model::ModelCard card)
    : home_(home),
      model_(model),
      source_(std::move(source)),
      card_(std::move(card)),
      started_(clock.now()) {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    outcome_ = exhausted(std::string("cannot start a thread for loading models: ") + error.what());
    ended_ = true;
  }
}

EarlyLoad::~EarlyLoad() {
  cancel();
  if (thread_.joinable()) thread_.join();
  CAUSEWAY_DCHECK(ended_, "a load has ended when its thread has");
  if (taken_ || !outcome_.ok()) return;
  if (const Status undone = home_.pool.unload(model_, leaves()); !undone.ok()) {
    spdlog::error("cannot let go of a model: {}", undone.error().message);
  }
}

void EarlyLoad::run() {
  const Status outcome =
      home_.pool.load(model_, {source_.directory, card_.plan, card_.layout},
                      {.cancelled = [this] { return is_cancelled(); },
                       .home_taken = [this](device::HostAddress address,
                                            Bytes bytes) { return reach(address, bytes); },
                       .home_leaves = leaves()});
  const std::lock_guard lock(mutex_);
  CAUSEWAY_DCHECK(!ended_ && !taken_, "a load ends once, and is taken after that");
  outcome_ = outcome;
  ended_ = true;
  changed_.notify_all();
}

Status EarlyLoad::reach(device::HostAddress address, Bytes bytes) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return slice_ != nullptr || cancelled_; });
  if (cancelled_) return Error{ErrorCode::kCancelled, "the load was cancelled"};
  slice::Slice& slice = *slice_;
  lock.unlock();
  return slice.reach(address, bytes, [this] { return is_cancelled(); });
}

weights::HomeLeaves EarlyLoad::leaves() const {
  return [this](device::HostAddress address, Bytes bytes) {
    std::unique_lock lock(mutex_);
    slice::Slice* const slice = slice_;
    lock.unlock();
    if (slice != nullptr) slice->unreach(address, bytes);
  };
}

bool EarlyLoad::is_cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

void EarlyLoad::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  changed_.notify_all();
}

void EarlyLoad::slice_opened(slice::Slice& slice) {
  const std::lock_guard lock(mutex_);
  CAUSEWAY_DCHECK(slice_ == nullptr, "a load is for one slice");
  slice_ = &slice;
  changed_.notify_all();
}

Status EarlyLoad::take(const std::function<bool()>& cancelled) {
  std::unique_lock lock(mutex_);
  CAUSEWAY_DCHECK(slice_ != nullptr && !taken_, "take() follows slice_opened(), and comes once");
  while (!changed_.wait_for(lock, kPoll, [this] { return ended_; })) {
    lock.unlock();
    const bool stop = cancelled && cancelled();
    lock.lock();
    if (stop) cancelled_ = true;
  }
  taken_ = outcome_.ok();
  return outcome_;
}

}  // namespace causeway::fleet
