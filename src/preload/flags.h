// Words of pinned memory through which streams and the session tell each other how far they are: a
// stream writes `started`, the session writes `released`. Each use of a pair has the next number,
// and waits are for "at least", so a pair can be used again at once without being reset.
//
// Thread-safe. The memory is never freed: a stream may look at it until the process ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/result.h"
#include "preload/native.h"

namespace causeway::preload {

// Each of the two words has a cache line of its own.
struct alignas(128) FlagPair {
  std::atomic<std::uint32_t> started;
  std::atomic<std::uint32_t> released;
};

// One use of a pair.
struct FlagUse {
  FlagPair* pair = nullptr;
  std::uint32_t number = 0;

  bool started() const { return reached(pair->started.load(std::memory_order_acquire)); }
  void start() const { pair->started.store(number, std::memory_order_release); }
  void release() const { pair->released.store(number, std::memory_order_seq_cst); }

 private:
  bool reached(std::uint32_t now) const { return static_cast<std::int32_t>(now - number) >= 0; }
};

class Flags {
 public:
  static constexpr int kPairs = 1024;

  // A context must be current; all GPUs see the memory at the same addresses.
  static Result<std::unique_ptr<Flags>> create(const Native& native);
  explicit Flags(FlagPair* pairs);  // by create()

  // nullopt when all pairs are in use.
  std::optional<FlagUse> take();
  // The session has released the pair, or no stream waits for it. A stream that has not yet written
  // `started` may still do so, and the pair is used again only after that.
  void give_back(const FlagUse& use);

 private:
  std::mutex mutex_;
  std::vector<FlagUse> free_;   // with the number of their last use
  std::vector<FlagUse> unmet_;  // not started yet
};

}  // namespace causeway::preload
