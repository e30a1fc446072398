// Keeps answers of /v1/responses in memory, for clients that ask for them by id: at most so many
// bytes, for at most so long; the oldest are removed first. Nothing is written to disk.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/units.h"
#include "server/api/stored_response.h"

namespace causeway::server {

struct ResponseStoreOptions {
  std::size_t bytes_max = 0;       // 0: none are kept
  Nanos lifetime = seconds(3600);  // of each, from its end
  // Bits that no client can foresee, as an id is all that is needed to read an answer. Called by
  // one thread at a time; needed with bytes_max.
  std::function<std::uint64_t()> random = {};
};

// Thread-safe.
class ResponseStore {
 public:
  // The most that an answer takes beside its texts.
  static constexpr std::size_t kOverheadBytes = 512;

  explicit ResponseStore(const ResponseStoreOptions& options);

  bool keeps() const { return options_.bytes_max > 0; }
  // An id of 128 random bits, without a prefix.
  std::string make_id();
  // An answer that exceeds the whole budget is not kept.
  void put(const std::string& id, StoredResponse response, Nanos now);
  std::optional<StoredResponse> find(std::string_view id, Nanos now);
  // Returns whether it was there.
  bool erase(std::string_view id, Nanos now);
  std::size_t bytes() const;

 private:
  struct Kept {
    std::string id;
    StoredResponse response;
    Nanos until;
    std::size_t bytes = 0;
  };
  using Order = std::list<Kept>;

  // With the mutex held.
  void drop(Order::iterator kept);
  void drop_old(Nanos now);

  const ResponseStoreOptions options_;
  mutable std::mutex mutex_;  // guards what follows, and options_.random
  Order order_;               // the oldest first
  std::unordered_map<std::string_view, Order::iterator> by_id_;  // of Kept::id
  std::size_t bytes_ = 0;
};

}  // namespace causeway::server
