// The twins of a KvCache: places in host memory for copies of blocks, and the index of the full
// blocks that they hold. Knows nothing of frames; KvCache is its only user.
//
// Every twin is exactly one of
//
//   free ──take()──▶ held ──last unhold()──▶ backing   its block is in use in HBM
//                     ▲  │                ─▶ cached    no sequence holds its block
//                     │  └────────────────▶ free       it cannot be found: a tail's, or spoilt
//                     └──────hold()── backing, cached
//
// A twin is being filled from take() until filled() or spoil(); the copy, at least, holds it as
// long. take() evicts cached twins, the one whose block was let go first, then backing ones.
// A tail's twin has no hash.
//
// Not thread-safe. Misuse is a bug: CHECKs.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "kv/linked_list.h"
#include "kv/prefix_hash.h"
#include "kv/rotation.h"

namespace causeway::kv {

class TwinPool {
 public:
  // `keep`: full blocks that no sequence holds stay, as the prefix cache's host tier.
  TwinPool(std::int64_t twins, bool keep);

  // Free ones, with the next ids.
  void add(std::int64_t count);

  // A twin to be filled by `copy`, held once, for the copy. One must be available. `let_go`: when
  // the last sequence let go of the block; none: one holds it in HBM.
  TwinId take(ModelId model, const std::optional<PrefixHash>& hash, CopyId copy,
              std::optional<std::uint64_t> let_go);
  // The copy has succeeded.
  void filled(TwinId twin);
  // It has not, or what it copies is void: the twin is not found any more.
  void spoil(TwinId twin);

  void hold(TwinId twin);
  // For a copy.
  void unhold(TwinId twin);
  // For a sequence, which lets go of the block.
  void unhold(TwinId twin, std::uint64_t let_go);
  // A sequence holds the block in HBM, or the last one that did has let go of it. No effect when no
  // twin is known by this hash.
  void use(const PrefixHash& hash);
  void let_go(const PrefixHash& hash, std::uint64_t when);
  // No sequence of the model may be open; copies may be under way.
  void forget_model(ModelId model);

  // That holds this full block, or is being filled with it; invalid: none.
  TwinId find(const PrefixHash& hash) const;
  bool valid(TwinId twin) const { return at(twin).valid; }
  bool is_held(TwinId twin) const { return at(twin).holds > 0; }
  // Which copy fills it, or has filled it.
  CopyId filled_by(TwinId twin) const { return at(twin).filled_by; }
  const std::optional<PrefixHash>& hash(TwinId twin) const { return at(twin).hash; }
  ModelId model(TwinId twin) const { return at(twin).model; }
  const TwinCounts& counts() const { return counts_; }
  std::int64_t size() const { return static_cast<std::int64_t>(twins_.size()); }

  // Every invariant by recomputation; `holds[t]` is how many tables and copies hold twin t,
  // `in_use` says whether a sequence holds a full block in HBM.
  Status check(std::span<const std::int64_t> holds,
               const std::function<bool(const PrefixHash&)>& in_use) const;

 private:
  enum class Listed : std::uint8_t { kFree, kCached, kBacking, kHeld };
  // A place among cached twins: when the block was let go, then which came first.
  using CachedPlace = std::pair<std::uint64_t, std::uint64_t>;
  struct Twin {
    Listed listed = Listed::kFree;
    bool valid = false;   // the block is there
    bool in_use = false;  // a sequence holds the block in HBM
    std::int64_t holds = 0;
    std::uint64_t let_go = 0;  // when the last sequence did
    ModelId model;
    std::optional<PrefixHash> hash;
    CopyId filled_by;
    TwinId previous, next;     // free or backing
    CachedPlace cached_place;  // cached
  };
  using List = LinkedList<TwinId>;

  Twin& at(TwinId twin);
  const Twin& at(TwinId twin) const;
  std::int64_t& count_of(Listed listed);
  List& list_of(Listed listed);
  // Moves the twin to where its holds, hash and use say.
  void relist(TwinId twin);
  void unindex(Twin& twin);
  Status check_twin(TwinId id, std::int64_t holds,
                    const std::function<bool(const PrefixHash&)>& in_use) const;
  Status check_list(const List& list, Listed listed, std::int64_t count) const;
  Status check_cached() const;

  std::vector<Twin> twins_;
  List free_, backing_;
  // A twin whose eager copy ended late comes before others. A list would have to be searched.
  std::map<CachedPlace, TwinId> cached_;
  std::uint64_t next_cached_ = 0;
  std::unordered_map<PrefixHash, TwinId> index_;
  TwinCounts counts_;
  const bool keep_;
};

}  // namespace causeway::kv
