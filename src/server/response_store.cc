#include "server/response_store.h"

#include <iterator>
#include <utility>

#include "base/check.h"
#include "server/tracing/trace_context.h"

namespace causeway::server {

ResponseStore::ResponseStore(const ResponseStoreOptions& options) : options_(options) {
  CAUSEWAY_CHECK(options.bytes_max == 0 || options.random, "ids without random bits");
}

std::string ResponseStore::make_id() {
  const std::lock_guard lock(mutex_);
  const std::uint64_t high = options_.random(), low = options_.random();
  return hex_of(high) + hex_of(low);
}

void ResponseStore::put(const std::string& id, StoredResponse response, Nanos now) {
  const std::size_t bytes =
      id.size() + response.conversation.size() + response.response.size() + kOverheadBytes;
  // Capacities beyond the sizes would not be counted.
  response.conversation.shrink_to_fit();
  response.response.shrink_to_fit();
  const std::lock_guard lock(mutex_);
  drop_old(now);
  if (const auto same = by_id_.find(id); same != by_id_.end()) drop(same->second);
  if (bytes > options_.bytes_max) return;
  while (bytes_ + bytes > options_.bytes_max) drop(order_.begin());
  order_.push_back({id, std::move(response), now + options_.lifetime, bytes});
  by_id_.emplace(order_.back().id, std::prev(order_.end()));
  bytes_ += bytes;
}

std::optional<StoredResponse> ResponseStore::find(std::string_view id, Nanos now) {
  const std::lock_guard lock(mutex_);
  drop_old(now);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return {};
  return found->second->response;
}

bool ResponseStore::erase(std::string_view id, Nanos now) {
  const std::lock_guard lock(mutex_);
  drop_old(now);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return false;
  drop(found->second);
  return true;
}

std::size_t ResponseStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void ResponseStore::drop(Order::iterator kept) {
  bytes_ -= kept->bytes;
  by_id_.erase(kept->id);
  order_.erase(kept);
}

void ResponseStore::drop_old(Nanos now) {
  while (!order_.empty() && order_.front().until <= now) drop(order_.begin());
}

}  // namespace causeway::server
