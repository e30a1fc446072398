#include "kv/twin_pool.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace causeway::kv {

TwinPool::TwinPool(std::int64_t twins, bool keep) : keep_(keep) { add(twins); }

void TwinPool::add(std::int64_t count) {
  CAUSEWAY_CHECK(count >= 0, "a pool of a negative number of twins");
  TwinId next(size());
  twins_.resize(static_cast<std::size_t>(next.value + count));
  for (; next.value < size(); ++next.value) {
    free_.push_back([this](TwinId id) -> Twin& { return at(id); }, next);
  }
  counts_.free += count;
}

TwinPool::Twin& TwinPool::at(TwinId twin) {
  return const_cast<Twin&>(std::as_const(*this).at(twin));
}

const TwinPool::Twin& TwinPool::at(TwinId twin) const {
  CAUSEWAY_CHECK(twin.value >= 0 && twin.value < size(), "no such twin");
  return twins_[static_cast<std::size_t>(twin.value)];
}

std::int64_t& TwinPool::count_of(Listed listed) {
  switch (listed) {
    case Listed::kFree: return counts_.free;
    case Listed::kCached: return counts_.cached;
    case Listed::kBacking: return counts_.backing;
    case Listed::kHeld: break;
  }
  return counts_.held;
}

TwinPool::List& TwinPool::list_of(Listed listed) {
  CAUSEWAY_CHECK(listed == Listed::kFree || listed == Listed::kBacking,
                 "other twins are on no list");
  return listed == Listed::kFree ? free_ : backing_;
}

void TwinPool::relist(TwinId id) {
  const auto item = [this](TwinId twin) -> Twin& { return at(twin); };
  Twin& twin = at(id);
  --count_of(twin.listed);
  if (twin.listed == Listed::kCached) {
    cached_.erase(twin.cached_place);
  } else if (twin.listed != Listed::kHeld) {
    list_of(twin.listed).unlink(item, id);
  }
  if (twin.holds > 0) {
    twin.listed = Listed::kHeld;
  } else if (!twin.valid || !twin.hash || (!twin.in_use && !keep_)) {
    unindex(twin);
    twin = Twin();
  } else {
    twin.listed = twin.in_use ? Listed::kBacking : Listed::kCached;
  }
  ++count_of(twin.listed);
  switch (twin.listed) {
    // The twin that was used last comes first, because its pages are in memory already.
    case Listed::kFree: return free_.push_front(item, id);
    case Listed::kBacking: return backing_.push_back(item, id);
    case Listed::kCached:
      twin.cached_place = {twin.let_go, next_cached_++};
      // The place is nearly always at the end.
      cached_.emplace_hint(cached_.end(), twin.cached_place, id);
      return;
    case Listed::kHeld: return;
  }
}

void TwinPool::unindex(Twin& twin) {
  if (!twin.hash) return;
  index_.erase(*twin.hash);
  twin.hash.reset();
}

TwinId TwinPool::take(ModelId model, const std::optional<PrefixHash>& hash, CopyId copy,
                      std::optional<std::uint64_t> let_go) {
  CAUSEWAY_CHECK(counts_.available() > 0, "no twin is available");
  TwinId id = free_.first;
  if (!id.valid() && !cached_.empty()) id = cached_.begin()->second;
  if (!id.valid()) id = backing_.first;
  Twin& twin = at(id);
  unindex(twin);
  twin.valid = false;
  twin.in_use = !let_go;
  twin.let_go = let_go.value_or(0);
  twin.holds = 1;
  twin.model = model;
  twin.filled_by = copy;
  relist(id);
  twin.hash = hash;
  if (!hash) return id;
  const bool alone = index_.emplace(*hash, id).second;
  CAUSEWAY_CHECK(alone, "a block has two twins");
  return id;
}

void TwinPool::filled(TwinId id) {
  Twin& twin = at(id);
  CAUSEWAY_CHECK(twin.holds > 0 && !twin.valid, "the twin was not being filled");
  twin.valid = true;
}

void TwinPool::spoil(TwinId id) {
  Twin& twin = at(id);
  CAUSEWAY_CHECK(twin.holds > 0 && !twin.valid, "the twin was not being filled");
  unindex(twin);
  twin.in_use = false;
}

void TwinPool::hold(TwinId id) {
  if (++at(id).holds == 1) relist(id);
}

void TwinPool::unhold(TwinId id) {
  Twin& twin = at(id);
  CAUSEWAY_CHECK(twin.holds > 0, "a twin is let go of that no sequence holds");
  if (--twin.holds == 0) relist(id);
}

void TwinPool::unhold(TwinId id, std::uint64_t let_go) {
  at(id).let_go = std::max(at(id).let_go, let_go);
  unhold(id);
}

void TwinPool::use(const PrefixHash& hash) {
  const TwinId id = find(hash);
  if (!id.valid() || at(id).in_use) return;
  at(id).in_use = true;
  if (at(id).holds == 0) relist(id);
}

void TwinPool::let_go(const PrefixHash& hash, std::uint64_t when) {
  const TwinId id = find(hash);
  if (!id.valid()) return;
  at(id).in_use = false;
  at(id).let_go = std::max(at(id).let_go, when);
  if (at(id).holds == 0) relist(id);
}

void TwinPool::forget_model(ModelId model) {
  for (TwinId id(0); id.value < size(); ++id.value) {
    Twin& twin = at(id);
    if (twin.listed == Listed::kFree || twin.model != model) continue;
    CAUSEWAY_CHECK(!twin.in_use, "a sequence of the model is open");
    unindex(twin);
    if (twin.holds == 0) relist(id);
  }
}

TwinId TwinPool::find(const PrefixHash& hash) const {
  const auto found = index_.find(hash);
  return found == index_.end() ? TwinId() : found->second;
}

}  // namespace causeway::kv
