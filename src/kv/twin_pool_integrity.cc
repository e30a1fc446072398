// TwinPool::check(): every invariant of the twins, by recomputation.
#include <string>

#include "base/check.h"
#include "kv/twin_pool.h"

namespace causeway::kv {
namespace {

Error broken(TwinId twin, const std::string& what) {
  return corrupt("KV twin " + std::to_string(twin.value) + ": " + what);
}

}  // namespace

Status TwinPool::check_twin(TwinId id, std::int64_t holds,
                            const std::function<bool(const PrefixHash&)>& in_use) const {
  const Twin& twin = at(id);
  if (twin.holds != holds) {
    return broken(id, std::to_string(holds) + " tables and copies hold it, its count is " +
                               std::to_string(twin.holds));
  }
  if ((twin.listed == Listed::kHeld) != (holds > 0))
    return broken(id, "held, or not, in error");
  if (twin.listed == Listed::kFree) {
    return twin.hash || twin.valid ? broken(id, "free, but it holds a block") : Status();
  }
  if (holds == 0 && (!twin.valid || !twin.hash)) {
    return broken(id, "kept, though it has no hash to be found by or is not valid");
  }
  if (holds == 0 && !keep_ && !twin.in_use) return broken(id, "kept without a use");
  if (holds == 0 && twin.in_use != (twin.listed == Listed::kBacking)) {
    return broken(id, "backing, or not, in error");
  }
  if (!twin.hash) return {};
  if (find(*twin.hash) != id) return broken(id, "the index does not hold it");
  if (twin.in_use != in_use(*twin.hash))
    return broken(id, "mistakes whether its block is in use");
  return {};
}

Status TwinPool::check_list(const List& list, Listed listed, std::int64_t count) const {
  TwinId previous;
  for (TwinId id = list.first; id.valid(); id = at(id).next) {
    if (at(id).listed != listed) return broken(id, "on the list of another state");
    if (at(id).previous != previous) return broken(id, "its list is not linked both ways");
    previous = id;
    --count;
  }
  if (list.last != previous) return corrupt("a list of KV twins has the wrong end");
  return count == 0 ? Status() : corrupt("the counts of KV twins do not match their lists");
}

Status TwinPool::check_cached() const {
  for (const auto& [place, id] : cached_) {
    if (at(id).listed != Listed::kCached) return broken(id, "on the list of another state");
    if (at(id).cached_place != place || at(id).let_go != place.first) {
      return broken(id, "not in the order in which blocks were let go");
    }
  }
  return std::ssize(cached_) == counts_.cached
             ? Status()
             : corrupt("the count of cached KV twins does not match their list");
}

Status TwinPool::check(std::span<const std::int64_t> holds,
                       const std::function<bool(const PrefixHash&)>& in_use) const {
  CAUSEWAY_CHECK(holds.size() == twins_.size());
  std::size_t indexed = 0;
  for (TwinId id(0); id.value < size(); ++id.value) {
    CAUSEWAY_TRY(check_twin(id, holds[static_cast<std::size_t>(id.value)], in_use));
    indexed += at(id).hash ? 1 : 0;
  }
  if (indexed != index_.size()) return corrupt("the index of KV twins lists what it must not");
  CAUSEWAY_TRY(check_list(free_, Listed::kFree, counts_.free));
  CAUSEWAY_TRY(check_cached());
  CAUSEWAY_TRY(check_list(backing_, Listed::kBacking, counts_.backing));
  if (counts_.available() + counts_.held != size()) {
    return corrupt("the counts of KV twins do not sum up to the pool");
  }
  return {};
}

}  // namespace causeway::kv
