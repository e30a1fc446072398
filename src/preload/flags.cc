#include "preload/flags.h"

#include <algorithm>
#include <memory>

#include "base/dcheck.h"

namespace causeway::preload {

Result<std::unique_ptr<Flags>> Flags::create(const Native& native) {
  void* memory = nullptr;
  const int result = native.cuMemHostAlloc(&memory, sizeof(FlagPair) * kPairs,
                                           kCudaHostPortable | kCudaHostDeviceMap);
  if (result != device::kCudaSuccess) {
    return device::cuda_error(native.api, result, "cuMemHostAlloc").with_context("flags");
  }
  CAUSEWAY_DCHECK(memory != nullptr, "the driver gave memory that is none");
  auto* pairs = static_cast<FlagPair*>(memory);
  for (int i = 0; i < kPairs; ++i) std::construct_at(pairs + i);
  return std::make_unique<Flags>(pairs);
}

// Streams and the session poll pairs, so each pair has cache lines of its own. A GPU writes with
// plain stores.
static_assert(sizeof(FlagPair) == alignof(FlagPair), "pairs lie in lines of their own");
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "a flag is a plain word");

Flags::Flags(FlagPair* pairs) {
  CAUSEWAY_DCHECK(pairs != nullptr, "flags lie in memory that create() has made");
  for (int i = kPairs; i-- > 0;) free_.push_back({pairs + i, 0});
}

std::optional<FlagUse> Flags::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    const auto met = std::partition(unmet_.begin(), unmet_.end(),
                                    [](const FlagUse& use) { return !use.started(); });
    free_.insert(free_.end(), met, unmet_.end());
    unmet_.erase(met, unmet_.end());
  }
  if (free_.empty()) return std::nullopt;
  CAUSEWAY_DCHECK(free_.back().started(), "a pair is used again before its last use has started");
  FlagUse use = free_.back();
  free_.pop_back();
  ++use.number;
  return use;
}

void Flags::give_back(const FlagUse& use) {
  const std::lock_guard lock(mutex_);
  CAUSEWAY_DCHECK(use.pair != nullptr && std::ssize(free_) + std::ssize(unmet_) < kPairs,
                  "a pair is given back twice");
  (use.started() ? free_ : unmet_).push_back(use);
}

}  // namespace causeway::preload
