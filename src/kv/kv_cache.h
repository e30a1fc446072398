// The KV cache of one slice: uniform frames, block tables, reference counts, quarantine and the
// prefix index, for all models of the slice at once. It is bookkeeping only: it moves no bytes and
// uses no device; frame f lies at arena base + f × frame bytes.
//
//   every frame is exactly one of
//     free ──grow()──▶ referenced ──release()──▶ quarantined ──step_done()──▶ free
//                          ▲   │                      │
//                          │   └─(full, hashed)───────┴──▶ cached ──evicted by grow()──▶ (free)
//                          └───────────open() finds its prefix───┘
//
// A full block is immutable and is indexed by the hash chain of its model's tokens up to and
// including it; sequences with the same prefix share it. A frame freed while a step may still read
// or write it stays quarantined until that step is done. Cached frames (full, no reference) are
// evicted least recently used first, and count as available.
//
// Frames come and go in runs, as memory is put behind them and taken away (docs/design/kv.md):
//
//   gone ──add_frames()──▶ free        free, cached ──retire_frames()──▶ gone
//                                      referenced, quarantined ──▶ retiring ──once free──▶ gone
//
// With twins (places in host memory) sequences also rotate between HBM and host memory: blocks are
// copied out and back, and a frame is quarantined until the steps and the copies that use it have
// ended. kv/rotation.h has the words, docs/design/rotation.md the whole way. KvCache only says what
// is to be copied (take_copies) and is told how it ended.
//
// Not thread-safe: one engine loop's. Deterministic. (docs/decisions/0011-one-frame-size.md)
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "kv/rotation.h"

namespace causeway::kv {

struct KvCacheOptions {
  std::int64_t frames = 0;      // those there from the start: ids 0 … frames-1
  std::int64_t frames_max = 0;  // the most there may be: ids are below; 0: as frames
  bool prefix_caching = true;
  // The key of the prefix index's hash (prefix_hash.h). A server draws it at random, so that a
  // request cannot be crafted to collide with another's prefix; nothing else depends on it.
  std::uint64_t hash_seed = 0;
  std::int64_t twins = 0;  // places in host memory at the start, ids 0 … twins-1; 0: none ever
};

struct FrameCounts {
  std::int64_t free = 0;
  std::int64_t quarantined = 0;
  std::int64_t cached = 0;
  std::int64_t referenced = 0;
  std::int64_t retiring = 0;  // those of the quarantined and referenced ones
  std::int64_t gone = 0;
  std::int64_t copying = 0;  // those of the cached ones that a copy reads
  // Those of the quarantined ones that a copy uses which was given up and may never end.
  std::int64_t stranded = 0;
  // The frames that become available, or gone, when steps and copies have ended.
  std::int64_t coming() const { return quarantined - stranded; }
  // The frames that grow() can hand out now.
  std::int64_t available() const { return free + cached - copying; }
  std::int64_t in_use() const { return quarantined + referenced; }
  // The frames that are neither gone nor retiring.
  std::int64_t usable() const { return free + cached + in_use() - retiring; }
  bool operator==(const FrameCounts&) const = default;
};

// A run of neighbouring frames.
struct FrameRun {
  FrameId first;
  std::int64_t count = 0;
};

// Counters since construction, in tokens.
struct PrefixStats {
  std::int64_t queried_tokens = 0;
  std::int64_t hit_tokens = 0;   // in both tiers
  std::int64_t host_tokens = 0;  // those of them in host memory only
};

class KvCache {
 public:
  explicit KvCache(const KvCacheOptions& options);
  ~KvCache();
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  // A model's blocks hold `tokens_per_block` tokens. Call it before any other call with the model.
  void add_model(ModelId model, Tokens tokens_per_block);
  // Drops the model's cached frames. No sequence of it may be open.
  void remove_model(ModelId model);
  Tokens tokens_per_block(ModelId model) const;

  // The number of leading tokens of `tokens` that are in the cache now: whole blocks, and always
  // fewer than tokens.size(), because at least one token must be computed to have logits.
  Tokens match_prefix(ModelId model, std::span<const TokenId> tokens) const;
  // How many of the frames that match_prefix counts are available now and would not be once open()
  // references them.
  std::int64_t cached_frames_of_prefix(ModelId model, std::span<const TokenId> tokens) const;

  // Opens a block table for a sequence, referencing the cached prefix of `tokens`; returns its
  // length. The sequence must not be open.
  Tokens open(RequestId sequence, ModelId model, std::span<const TokenId> tokens);
  // Makes the table cover `total` tokens, evicting cached frames as needed. All or nothing: false,
  // and nothing changes, when frames are lacking.
  [[nodiscard]] bool grow(RequestId sequence, Tokens total);
  // The number of frames that grow(sequence, total) would take.
  std::int64_t frames_to_grow(RequestId sequence, Tokens total) const;
  // The KV of the first tokens.size() tokens of the sequence is, or will be at the end of the step
  // in flight, valid; blocks that became full enter the prefix index once that step is done.
  void commit(RequestId sequence, std::span<const TokenId> tokens, StepId step);
  // Closes the table in any state of the sequence. Frames that no other sequence references become
  // cached (if full and indexed) or free, after quarantine until `last_user` is done; an invalid id
  // means that no step uses them. Copies of the sequence that were not taken yet are dropped; full
  // blocks in host memory stay there as cached prefixes.
  void release(RequestId sequence, StepId last_user);
  // The step has completed, and so have all before `oldest`; others before it, of other models, may
  // still run. The steps of a model complete in order.
  void step_done(StepId step, StepId oldest);
  // Steps up to and including `step` have completed.
  void step_done(StepId step) { step_done(step, StepId(step.value + 1)); }
  // The step failed: what it was to fill is not valid and is not indexed. Otherwise as step_done().
  void step_failed(StepId step, StepId oldest);
  void step_failed(StepId step) { step_failed(step, StepId(step.value + 1)); }

  // The frames of the sequence's blocks, in order; empty while it is rotated out. Valid until the
  // next call that changes the table.
  std::span<const FrameId> table(RequestId sequence) const;
  bool is_open(RequestId sequence) const;

  // Frames that are gone become free; those that are retiring return to their former state.
  void add_frames(FrameRun run);
  // Takes the frames, none of which is gone or retiring, out of use: free and cached ones at once,
  // the others when they are free. No block in them is found as a prefix any more.
  void retire_frames(FrameRun run);
  // Whether all frames of the run are gone, so that nothing reads or writes them.
  bool retired(FrameRun run) const;
  // Whether a copy that was given up uses one of them, so that they may never be gone.
  bool stranded(FrameRun run) const;
  bool retiring(FrameId frame) const;
  // The `count` best runs of `length` usable frames to retire (or as many as there are): those with
  // the fewest frames in use, then the fewest cached, then the highest. Looks at every frame.
  std::vector<FrameRun> runs_to_retire(std::int64_t length, std::int64_t count) const;

  // Rotation. The costs are those of a call that is made now; O(blocks of the sequence).
  std::int64_t twins() const;  // 0: nothing rotates
  // Adds so many twins, with the next ids, as host memory is registered. Not when there were none
  // at the start.
  void add_twins(std::int64_t count);
  TwinCounts twin_counts() const;
  SequencePlace place(RequestId sequence) const;
  RotateOutCost rotate_out_cost(RequestId sequence) const;  // the sequence has a table
  RotateInCost rotate_in_cost(RequestId sequence) const;    // the sequence has no table
  PrefixTiers prefix_tiers(ModelId model, std::span<const TokenId> tokens) const;

  // Gives up the sequence's frames; committed blocks without a twin are copied to one. `last_user`
  // as for release(). False, and nothing changes, when twins are lacking or the sequence is
  // arriving or lost. The sequence must not be rotated out already.
  [[nodiscard]] bool rotate_out(RequestId sequence, StepId last_user);
  // Gives a sequence in kHost its table back, evicting cached frames as needed. False, and nothing
  // changes, when frames are lacking. A step may read the table when the copies up to
  // arriving_until() have ended.
  [[nodiscard]] bool rotate_in(RequestId sequence);
  // The newest copy into the sequence's frames until all of them have ended; invalid after that.
  CopyId arriving_until(RequestId sequence) const;
  // As open(), and also brings leading blocks that are in host memory only. The frames that
  // prefix_tiers() counts must be available.
  Tokens open_with_twins(RequestId sequence, ModelId model, std::span<const TokenId> tokens);

  // Appends the copies that may begin now: all copies in, all copies out of sequences that must
  // leave and whose blocks no step writes any more, then eager ones while there are fewer than
  // `out_max` copies out. Their sources are complete and nothing else uses their targets, so they
  // wait for nothing. No two copies of one call have the same target.
  void take_copies(std::int64_t out_max, std::vector<KvCopy>& copies);
  // A copy that was taken has ended. Appends the sequences that its failure has lost: release them
  // and compute them again. Must be called before the end of a step that waited for the copy.
  void copy_ended(CopyId copy, bool ok, std::vector<RequestId>& lost);
  // Appends the sequences that failed steps have lost since the last call, as copy_ended() does:
  // such a step was to fill a block in the tables of sequences that are leaving. Call it after
  // every step_failed().
  void take_lost(std::vector<RequestId>& lost);
  // Counts the copy as failed, although it may still read and write. Its frame and twin stay in use
  // until copy_ended(), or for good when the copy never ends (FrameCounts::stranded).
  void give_up_copy(CopyId copy, std::vector<RequestId>& lost);

  FrameCounts counts() const;
  PrefixStats prefix_stats() const;
  std::int64_t frames() const;  // neither gone nor retiring
  std::int64_t frames_max() const;

  // Checks every invariant by recomputation: each frame has one state, reference counts equal the
  // tables that list the frame, index and frames agree, counts() is correct; the same for twins,
  // and no copy uses what a step writes or another block has. The error says which is broken.
  Status check_integrity() const;

  class State;  // internal to this room

 private:
  std::unique_ptr<State> state_;
};

}  // namespace causeway::kv
