// The frames of a KvCache: the state of each, its reference count, and the index of full blocks. Of
// sequences and steps it knows only "used until"; KvCache is its only user.
//
// Every frame is on exactly one list (or none, when referenced), linked through the frames
// themselves, so that every move is O(1):
//
//   free: last in, first out │ cached: least recently used first │ quarantined: one list a step,
//                                                                │ one for those whose steps are
//                                                                │ done and copies are not
//
// Copies between a frame and host memory use it as steps do: until the last has ended the frame is
// neither free nor evicted. A cached frame that is copied out stays in its place among the cached,
// but is not available.
//
// Frames that are gone are on no list. A retiring frame becomes gone instead of free or cached.
// Until then find() does not return it, but its block stays in the index, so that nothing is lost
// when the frame is added again.
//
// Not thread-safe. Misuse is a bug: CHECKs.
#pragma once

#include <map>
#include <set>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "kv/kv_cache.h"
#include "kv/linked_list.h"
#include "kv/prefix_hash.h"
#include "kv/prefix_index.h"

namespace causeway::kv {

enum class FrameState : std::uint8_t { kFree, kQuarantined, kCached, kReferenced, kGone };

class FramePool {
 public:
  // Frames 0 … frames-1 are free, those from there to frames_max are gone. `keep`: full blocks stay
  // cached after the last reference.
  FramePool(std::int64_t frames, std::int64_t frames_max, bool keep);

  // A free frame, or else the least recently used cached one, now referenced once. One must be
  // available. Its contents are not indexed.
  FrameId take(ModelId model);
  // Adds a reference to an indexed frame in any state but free.
  void reference(FrameId frame);
  // Removes a reference. After the last one the frame is quarantined until `last_user` and all its
  // earlier users are done, and is then cached if it is indexed, or else free.
  void unreference(FrameId frame, StepId last_user);

  // The block in the frame will be `hash` once `step` is done, if it succeeds.
  void begin_fill(FrameId frame, const PrefixHash& hash, StepId step);
  // The step succeeded: as index(). No effect when the frame no longer waits for this step and
  // hash.
  bool end_fill(FrameId frame, const PrefixHash& hash, StepId step);
  // The step failed: the block is not indexed.
  void abandon_fill(FrameId frame, const PrefixHash& hash, StepId step);
  // Indexes a block that is valid now; false when another frame holds an equal one.
  bool index(FrameId frame, const PrefixHash& hash);
  // The frame that holds this block and is not retiring; invalid when there is none.
  FrameId find(const PrefixHash& hash) const;
  // As find(), but the frame may be retiring.
  FrameId holder(const PrefixHash& hash) const;

  // A copy is about to read or write the frame, which is not free; the copy was given up, and may
  // never end; the copy has ended (`given_up`: after it was given up), or never began.
  void begin_copy(FrameId frame);
  void give_up_copy(FrameId frame);
  void end_copy(FrameId frame, bool given_up = false);

  // The step is done, and so are all before `oldest`. Ends the quarantine of their frames.
  void step_done(StepId step, StepId oldest);
  bool is_done(StepId step) const { return step <= done_ || done_ahead_.contains(step); }
  // Frees the model's cached frames; its quarantined frames will be free.
  void forget_model(ModelId model);

  // Adds a frame that is gone or retiring.
  void add(FrameId frame);
  // Retires a frame that is neither gone nor retiring.
  void retire(FrameId frame);

  FrameState state(FrameId frame) const { return at(frame).state; }
  bool retiring(FrameId frame) const { return at(frame).retiring; }
  // Whether a copy that was given up uses the frame, which it may do for ever.
  bool stranded(FrameId frame) const { return at(frame).copies.given_up > 0; }
  bool indexed(FrameId frame) const { return at(frame).indexed; }
  ModelId model(FrameId frame) const { return at(frame).model; }
  // The hash of an indexed frame.
  const PrefixHash& hash(FrameId frame) const { return at(frame).hash; }
  // A counter of indexed blocks. It distinguishes the frame's block from earlier ones.
  std::uint64_t ordinal(FrameId frame) const { return at(frame).ordinal; }
  // The number of times that the frame was handed out, which distinguishes its owner from earlier
  // ones.
  std::uint64_t takes(FrameId frame) const { return at(frame).takes; }
  // The step in flight that will complete the block.
  StepId filling(FrameId frame) const { return at(frame).filling; }
  // When the frame's last reference was removed, in the order in which blocks are let go.
  std::uint64_t let_go(FrameId frame) const { return at(frame).let_go; }
  // A block is let go in host memory: returns the next place in that order.
  std::uint64_t next_let_go() { return ++let_go_; }
  std::int64_t references(FrameId frame) const { return at(frame).references; }
  bool copied(FrameId frame) const { return at(frame).copies.all > 0; }
  // Whether the frame is cached and no copy uses it.
  bool evictable(FrameId frame) const {
    return at(frame).state == FrameState::kCached && !copied(frame);
  }
  const FrameCounts& counts() const { return counts_; }
  std::int64_t size() const { return static_cast<std::int64_t>(frames_.size()); }

  struct Copies {  // that use a frame
    std::int64_t all = 0;
    std::int64_t given_up = 0;  // of those
    bool operator==(const Copies&) const = default;
  };
  // Checks every invariant of the pool by recomputation; `references[f]` is the number of tables
  // that list frame f, `copies[f]` tells which copies use it.
  Status check(std::span<const std::int64_t> references, std::span<const Copies> copies) const;

 private:
  struct Frame {
    FrameState state = FrameState::kFree;
    bool indexed = false;
    bool retiring = false;
    std::int64_t references = 0;
    Copies copies;
    std::uint64_t ordinal = 0;
    std::uint64_t takes = 0;
    std::uint64_t let_go = 0;
    ModelId model;
    StepId last_user;  // the frame is not read or written after this step
    StepId filling;    // the step in flight that completes the block
    PrefixHash hash;   // when indexed or filling
    FrameId previous, next;
  };
  using List = LinkedList<FrameId>;

  // Whether a copy keeps the frame in quarantine.
  static bool in_copy(const Frame& frame);
  Frame& at(FrameId frame);
  const Frame& at(FrameId frame) const;
  void push_back(List& list, FrameId frame);
  void push_front(List& list, FrameId frame);
  void unlink(List& list, FrameId frame);
  void quarantine(FrameId frame);
  void unlink_quarantined(FrameId frame);
  // The frame has become quarantined, or has left quarantine.
  void count_quarantined(const Frame& frame, std::int64_t change);
  // Nothing uses the frame any more: it becomes cached, free or gone.
  void settle(FrameId frame);
  void leave(FrameId frame);
  void unindex(FrameId frame);
  Status check_frame(FrameId id, std::int64_t references, const Copies& copies) const;
  Status check_quarantine(std::vector<bool>& listed) const;
  Status check_list(const List& list, FrameState state, StepId until,
                    std::vector<bool>& listed) const;
  Status check_counts() const;

  std::vector<Frame> frames_;
  List free_, cached_;
  std::map<StepId, List> quarantined_;  // by the step that ends it
  List copied_;                         // their steps are done, but a copy is not
  PrefixIndex index_;                   // of frames that are indexed
  FrameCounts counts_;
  StepId done_;                  // all steps up to here are done
  std::set<StepId> done_ahead_;  // steps done before an older one
  std::uint64_t next_ordinal_ = 0;
  std::uint64_t let_go_ = 0;  // of the block that was let go last
  const bool keep_;
};

}  // namespace causeway::kv
