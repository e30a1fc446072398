// The twins of a KvCache: places in host memory for copies of blocks, and the index of the full
// blocks in them. It does not know of frames; KvCache is its only user.
//
// Every twin is exactly one of
//
//   free ──take()──▶ held ──last unhold()──▶ backing   its block is in use in HBM
//                     ▲  │                ─▶ cached    no sequence holds its block
//                     │  └────────────────▶ free       it cannot be found: a tail's, or spoilt
//                     └──────hold()── backing, cached
//
// A twin is being filled from take() until filled() or spoil(), and the copy holds it meanwhile.
// take() evicts cached twins, the one whose block was let go first, then backing ones. A tail's
// twin has no hash.
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

  // Adds free twins, with the next ids.
  void add(std::int64_t count);

  // A twin that `copy` will fill, held once, by the copy. One must be available. `let_go`: when the
  // last sequence let go of the block; empty: one holds it in HBM.
  TwinId take(ModelId model, const std::optional<PrefixHash>& hash, CopyId copy,
              std::optional<std::uint64_t> let_go);
  // The copy has succeeded.
  void filled(TwinId twin);
  // The copy failed, or its contents are void: the twin is not found any more.
  void spoil(TwinId twin);

  void hold(TwinId twin);
  // Adds a hold of a copy.
  void unhold(TwinId twin);
  // Adds a hold of a sequence, which lets go of the block in HBM.
  void unhold(TwinId twin, std::uint64_t let_go);
  // A sequence holds the block in HBM, or the last one that did has let go of it. No effect when no
  // twin has this hash.
  void use(const PrefixHash& hash);
  void let_go(const PrefixHash& hash, std::uint64_t when);
  // No sequence of the model may be open; copies may be under way.
  void forget_model(ModelId model);

  // The twin that holds this full block or is being filled with it; invalid when there is none.
  TwinId find(const PrefixHash& hash) const;
  bool valid(TwinId twin) const { return at(twin).valid; }
  bool is_held(TwinId twin) const { return at(twin).holds > 0; }
  // The copy that fills or has filled the twin.
  CopyId filled_by(TwinId twin) const { return at(twin).filled_by; }
  const std::optional<PrefixHash>& hash(TwinId twin) const { return at(twin).hash; }
  ModelId model(TwinId twin) const { return at(twin).model; }
  const TwinCounts& counts() const { return counts_; }
  std::int64_t size() const { return static_cast<std::int64_t>(twins_.size()); }

  // Checks every invariant by recomputation; `holds[t]` is the number of tables and copies that
  // hold twin t, `in_use` tells whether a sequence holds a full block in HBM.
  Status check(std::span<const std::int64_t> holds,
               const std::function<bool(const PrefixHash&)>& in_use) const;

 private:
  enum class Listed : std::uint8_t { kFree, kCached, kBacking, kHeld };
  // The order of cached twins: by when the block was let go, then by which came first.
  using CachedPlace = std::pair<std::uint64_t, std::uint64_t>;
  struct Twin {
    Listed listed = Listed::kFree;
    bool valid = false;   // the block is there
    bool in_use = false;  // a sequence holds the block in HBM
    std::int64_t holds = 0;
    std::uint64_t let_go = 0;  // when the last sequence let go
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
  // Moves the twin to the list that its holds, hash and use require.
  void relist(TwinId twin);
  void unindex(Twin& twin);
  Status check_twin(TwinId id, std::int64_t holds,
                    const std::function<bool(const PrefixHash&)>& in_use) const;
  Status check_list(const List& list, Listed listed, std::int64_t count) const;
  Status check_cached() const;

  std::vector<Twin> twins_;
  List free_, backing_;
  // A set and not a list: a twin whose eager copy ended late goes before others, and a list would
  // have to be searched.
  std::map<CachedPlace, TwinId> cached_;
  std::uint64_t next_cached_ = 0;
  std::unordered_map<PrefixHash, TwinId> index_;
  TwinCounts counts_;
  const bool keep_;
};

}  // namespace causeway::kv
