// The state of a KvCache. Internal to this room: kv_cache.cc (tables, steps), kv_rotation.cc (twins
// and copies) and kv_cache_integrity.cc (invariants) work on it.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/check.h"
#include "base/id_map.h"
#include "base/random.h"
#include "kv/copy_book.h"
#include "kv/frame_pool.h"
#include "kv/kv_cache.h"
#include "kv/prefix_hash.h"
#include "kv/twin_pool.h"

namespace causeway::kv {

struct Model {
  std::int64_t block_tokens = 0;
  std::int64_t open_sequences = 0;
};

struct Sequence {
  ModelId model;
  std::int64_t block_tokens = 0;
  std::uint64_t serial = 0;  // tells this opening from others of the same request
  std::vector<FrameId> table;
  std::vector<TwinId> twins;          // of the blocks, while rotated out; table is empty then
  std::vector<PrefixHash> hashes;     // of the leading full blocks (when blocks are tracked)
  std::int64_t committed_tokens = 0;  // whose KV is valid once the steps in flight are done
  StepId last_writer;  // the last step that committed tokens; of all that use it once it is out
  std::int64_t copies_awaited = 0;  // copies that name it as a waiter
  CopyId newest_copy_in;
  bool out = false;   // rotated out
  bool lost = false;  // part of it is not valid any more: it can only be released

  std::int64_t blocks() const { return (committed_tokens + block_tokens - 1) / block_tokens; }
};

// What a step in flight will have done to a sequence, and the state to return to if it fails.
struct Commit {
  RequestId sequence;
  std::uint64_t serial = 0;
  std::int64_t committed_before = 0;
};

struct Fill {
  FrameId frame;
  PrefixHash hash;
  std::uint64_t serial = 0;
};

struct Step {
  std::vector<Commit> commits;
  std::vector<Fill> fills;
};

// A full block that had no twin when it was indexed. Void when the frame holds another one by now.
struct EagerCandidate {
  FrameId frame;
  std::uint64_t ordinal = 0;  // of the frame's block
};

class KvCache::State {
 public:
  explicit State(const KvCacheOptions& options)
      : pool(options.frames, std::max(options.frames, options.frames_max), options.prefix_caching),
        twins(options.twins, options.prefix_caching),
        prefix_caching(options.prefix_caching),
        key{options.hash_seed, mix64(options.hash_seed)} {}

  Model& model(ModelId id);
  Sequence& sequence(RequestId id);
  // The opening; nullptr when it has ended.
  Sequence* find(const CopyWaiter& waiter);

  // Whether full blocks are hashed and indexed.
  bool tracks_blocks() const { return prefix_caching || twins.size() > 0; }
  // The parent of a sequence's first block. Without prefix caching no two sequences share a block.
  PrefixHash root(std::uint64_t serial) const {
    return prefix_caching ? PrefixHash() : PrefixHash{serial + 1, ~std::uint64_t{0}};
  }

  // Calls visit(hash) for the leading blocks of `tokens`, in order, while it returns true. Returns
  // the number of tokens that these cover. At least one token is left to compute.
  template <typename Visit>
  std::int64_t walk_prefix(ModelId id, std::span<const TokenId> tokens, Visit visit) {
    const auto block = static_cast<std::size_t>(model(id).block_tokens);
    if (!prefix_caching || tokens.empty()) return 0;
    const std::size_t blocks_max = (tokens.size() - 1) / block;
    PrefixHash hash;
    for (std::size_t i = 0; i < blocks_max; ++i) {
      hash = hash_block(key, id, hash, tokens.subspan(i * block, block));
      if (!visit(hash)) return static_cast<std::int64_t>(i * block);
    }
    return static_cast<std::int64_t>(blocks_max * block);
  }

  // kv_cache.cc
  // What a step in flight, or one that comes to be, will have done.
  Step& in_step(StepId id);
  Tokens open(RequestId id, ModelId model, std::span<const TokenId> tokens, bool bring);
  void hash_full_blocks(RequestId id, std::span<const TokenId> tokens, StepId step);
  void complete(StepId step, StepId oldest);
  void roll_back(const std::vector<Commit>& failed, StepId step);
  // What steps in flight fill of these sequences, from `step` on, will not be valid.
  void abandon_fills(const std::unordered_set<std::uint64_t>& serials, StepId step);
  // Releases the table's references, from its end.
  void drop_table(Sequence& entry, StepId last_user);
  void use_frame(FrameId frame, const PrefixHash& hash);
  // The frame's block has been indexed.
  void note_indexed(FrameId frame, const PrefixHash& hash);

  // kv_rotation.cc
  SequencePlace place(const Sequence& entry) const;
  // A twin that holds the block by now; invalid when there is none.
  TwinId ready_twin(const PrefixHash& hash) const;
  // Whether a sequence holds the block in HBM.
  bool in_use(const PrefixHash& hash) const;
  // Empty while a sequence holds the block in HBM. Otherwise when the last one let go of it, among
  // those that held it in the frame that has it.
  std::optional<std::uint64_t> let_go_of(const PrefixHash& hash) const;
  void copy_out(RequestId id, Sequence& entry, std::size_t block, StepId last_user);
  void copy_in(RequestId id, Sequence& entry, std::size_t block, TwinId twin,
               KvCopy::Reason reason);
  void await(RequestId id, Sequence& entry, PendingCopy& copy);
  // A pending eager copy out; nullptr when no block wants one, or no twin is available.
  PendingCopy* next_eager();
  bool wants_twin(const EagerCandidate& candidate) const;
  void purge_eager();
  // Releases the twins of a sequence that ends.
  void drop_twins(RequestId id, Sequence& entry);
  void drop_pending_in(RequestId id);
  // Drops pending copies out whose source will not be valid: those of the blocks from `first` on.
  void lose_blocks(Sequence& entry, std::int64_t first);
  // Drops the pending copy out of a block that will not be filled, whatever sequences wait for it.
  void drop_copy_of(const Fill& fill);
  void drop_copy_out(CopyId copy);
  void lose_waiters(const PendingCopy& copy);
  void lose(RequestId id, Sequence& entry);

  // kv_cache_integrity.cc
  Status check_sequence(RequestId id, const Sequence& sequence) const;
  Status check_out(const Sequence& sequence) const;
  Status check_copies() const;
  Status check_copy(const PendingCopy& copy) const;

  FramePool pool;
  TwinPool twins;
  CopyBook copies;
  std::deque<EagerCandidate> eager;  // in the order in which they were filled
  const bool prefix_caching;
  const HashKey key;
  IdMap<ModelId, Model> models;
  std::unordered_map<RequestId, Sequence> sequences;
  std::map<StepId, Step> in_flight;
  std::vector<std::map<StepId, Step>::node_type> spares;  // of those that have ended: their memory
  std::vector<RequestId> lost;  // the caller has not been told yet
  std::uint64_t next_serial = 0;
  PrefixStats stats;
};

}  // namespace causeway::kv
