// KvCache's rotation: sequences leave HBM and come back, blocks get twins. docs/design/rotation.md.
#include <utility>

#include "kv/kv_cache.h"
#include "kv/kv_cache_state.h"

namespace causeway::kv {

Sequence* KvCache::State::find(const CopyWaiter& waiter) {
  const auto found = sequences.find(waiter.sequence);
  if (found == sequences.end() || found->second.serial != waiter.serial) return nullptr;
  return &found->second;
}

TwinId KvCache::State::ready_twin(const PrefixHash& hash) const {
  const TwinId twin = twins.find(hash);
  return twin.valid() && twins.valid(twin) ? twin : TwinId();
}

bool KvCache::State::in_use(const PrefixHash& hash) const { return !let_go_of(hash); }

std::optional<std::uint64_t> KvCache::State::let_go_of(const PrefixHash& hash) const {
  const FrameId frame = pool.holder(hash);
  if (!frame.valid()) return 0;
  return pool.references(frame) > 0 ? std::nullopt : std::optional(pool.let_go(frame));
}

std::int64_t KvCache::twins() const { return state_->twins.size(); }

void KvCache::add_twins(std::int64_t count) {
  CAUSEWAY_CHECK(twins() > 0, "a KV cache that was made without twins gets some");
  state_->twins.add(count);
}

TwinCounts KvCache::twin_counts() const { return state_->twins.counts(); }
SequencePlace KvCache::place(RequestId sequence) const {
  return state_->place(state_->sequence(sequence));
}

SequencePlace KvCache::State::place(const Sequence& entry) const {
  const bool waits = entry.copies_awaited > 0;
  if (entry.lost) return SequencePlace::kLost;
  if (!entry.out) return waits ? SequencePlace::kArriving : SequencePlace::kHbm;
  // A sequence with nothing to copy also stays away until its last step has ended without failing.
  const bool computed = pool.is_done(entry.last_writer);
  return waits || !computed ? SequencePlace::kLeaving : SequencePlace::kHost;
}

RotateOutCost KvCache::rotate_out_cost(RequestId sequence) const {
  const Sequence& entry = state_->sequence(sequence);
  const FramePool& pool = state_->pool;
  CAUSEWAY_CHECK(!entry.out, "the sequence is rotated out already");
  RotateOutCost cost;
  for (std::size_t i = 0; i < entry.table.size(); ++i) {
    const bool computed = static_cast<std::int64_t>(i) < entry.blocks();
    const TwinId twin = i < entry.hashes.size() ? state_->twins.find(entry.hashes[i]) : TwinId();
    const bool copies = computed && !twin.valid();
    cost.copies += copies ? 1 : 0;
    cost.twins += copies || (twin.valid() && !state_->twins.is_held(twin)) ? 1 : 0;
    if (pool.references(entry.table[i]) > 1) continue;
    ++cost.frames;
    cost.frames_after_step += copies || pool.copied(entry.table[i]) ? 0 : 1;
  }
  return cost;
}

RotateInCost KvCache::rotate_in_cost(RequestId sequence) const {
  const Sequence& entry = state_->sequence(sequence);
  CAUSEWAY_CHECK(entry.out, "the sequence is not rotated out");
  RotateInCost cost;
  for (std::size_t i = 0; i < entry.twins.size(); ++i) {
    const FrameId frame = i < entry.hashes.size() ? state_->pool.find(entry.hashes[i]) : FrameId();
    cost.copies += frame.valid() ? 0 : 1;
    cost.frames += !frame.valid() || state_->pool.evictable(frame) ? 1 : 0;
  }
  return cost;
}

PrefixTiers KvCache::prefix_tiers(ModelId model, std::span<const TokenId> tokens) const {
  PrefixTiers tiers;
  std::int64_t blocks_in_hbm = 0;
  tiers.in_all = Tokens(state_->walk_prefix(model, tokens, [&](const PrefixHash& hash) {
    const FrameId frame = state_->pool.find(hash);
    if (!frame.valid() && !state_->ready_twin(hash).valid()) return false;
    if (frame.valid() && tiers.copies == 0) ++blocks_in_hbm;
    tiers.copies += frame.valid() ? 0 : 1;
    tiers.frames += !frame.valid() || state_->pool.evictable(frame) ? 1 : 0;
    return true;
  }));
  tiers.in_hbm = tokens_per_block(model) * blocks_in_hbm;
  return tiers;
}

Tokens KvCache::open_with_twins(RequestId sequence, ModelId model,
                                std::span<const TokenId> tokens) {
  return state_->open(sequence, model, tokens, true);
}

CopyId KvCache::arriving_until(RequestId sequence) const {
  const Sequence& entry = state_->sequence(sequence);
  return !entry.out && entry.copies_awaited > 0 ? entry.newest_copy_in : CopyId();
}

// Existing twins are held before others are taken, because taking may evict any twin that is not
// held.
bool KvCache::rotate_out(RequestId sequence, StepId last_user) {
  State& state = *state_;
  Sequence& entry = state.sequence(sequence);
  CAUSEWAY_CHECK(!entry.out, "the sequence is rotated out already");
  if (state.twins.size() == 0 || state.place(entry) != SequencePlace::kHbm) return false;
  if (rotate_out_cost(sequence).twins > state.twins.counts().available()) return false;
  entry.twins.assign(static_cast<std::size_t>(entry.blocks()), TwinId());
  for (std::size_t i = 0; i < entry.hashes.size(); ++i) {
    const TwinId twin = state.twins.find(entry.hashes[i]);
    if (!twin.valid()) continue;
    state.twins.hold(twin);
    entry.twins[i] = twin;
    if (!state.twins.valid(twin)) {
      state.await(sequence, entry, state.copies.at(state.twins.filled_by(twin)));
    }
  }
  for (std::size_t i = 0; i < entry.twins.size(); ++i) {
    if (!entry.twins[i].valid()) state.copy_out(sequence, entry, i, last_user);
  }
  state.drop_table(entry, last_user);
  entry.last_writer = std::max(entry.last_writer, last_user);
  entry.out = true;
  return true;
}

void KvCache::State::await(RequestId id, Sequence& entry, PendingCopy& copy) {
  copy.waiters.push_back({id, entry.serial});
  ++entry.copies_awaited;
}

// A copy from the frame in the sequence's table to a new twin that the table holds.
void KvCache::State::copy_out(RequestId id, Sequence& entry, std::size_t block, StepId last_user) {
  const FrameId frame = entry.table[block];
  PendingCopy copy{.copy = {.direction = KvCopy::Direction::kOut,
                            .reason = KvCopy::Reason::kRotation,
                            .frame = frame},
                   .model = entry.model,
                   .takes = pool.takes(frame)};
  std::optional<std::uint64_t> let_go = 0;
  if (block < entry.hashes.size()) {
    copy.hash = entry.hashes[block];
    copy.after = pool.filling(frame);
    let_go = let_go_of(*copy.hash);
  } else {
    copy.after = std::max(last_user, entry.last_writer);
  }
  copy.copy.twin = twins.take(entry.model, copy.hash, copies.next_id(), let_go);
  twins.hold(copy.copy.twin);
  pool.begin_copy(frame);
  entry.twins[block] = copy.copy.twin;
  await(id, entry, copies.add(std::move(copy)));
}

// A copy from a valid twin into a new frame of the sequence's table.
void KvCache::State::copy_in(RequestId id, Sequence& entry, std::size_t block, TwinId twin,
                             KvCopy::Reason reason) {
  const FrameId frame = pool.take(entry.model);
  PendingCopy copy{
      .copy = {.direction = KvCopy::Direction::kIn, .reason = reason, .frame = frame, .twin = twin},
      .model = entry.model,
      .takes = pool.takes(frame)};
  if (block < entry.hashes.size()) copy.hash = entry.hashes[block];
  twins.hold(twin);
  pool.begin_copy(frame);
  entry.table[block] = frame;
  entry.newest_copy_in = copies.next_id();
  await(id, entry, copies.add(std::move(copy)));
}

// All references to blocks in HBM are taken before the frames for the others: taking a frame may
// evict any cached one. A tail's twin is free when its copy has ended, because the block will
// change.
bool KvCache::rotate_in(RequestId sequence) {
  State& state = *state_;
  Sequence& entry = state.sequence(sequence);
  CAUSEWAY_CHECK(state.place(entry) == SequencePlace::kHost,
                 "the sequence is not in host memory as a whole");
  if (rotate_in_cost(sequence).frames > state.pool.counts().available()) return false;
  entry.table.assign(entry.twins.size(), FrameId());
  for (std::size_t i = 0; i < entry.hashes.size(); ++i) {
    const FrameId frame = state.pool.find(entry.hashes[i]);
    if (!frame.valid()) continue;
    state.use_frame(frame, entry.hashes[i]);
    entry.table[i] = frame;
  }
  entry.out = false;
  for (std::size_t i = 0; i < entry.twins.size(); ++i) {
    if (entry.table[i].valid()) continue;
    state.copy_in(sequence, entry, i, entry.twins[i], KvCopy::Reason::kRotation);
  }
  for (auto twin = entry.twins.rbegin(); twin != entry.twins.rend(); ++twin) {
    state.twins.unhold(*twin);
  }
  entry.twins.clear();
  return true;
}

void KvCache::take_copies(std::int64_t out_max, std::vector<KvCopy>& out) {
  State& state = *state_;
  const auto take = [&](PendingCopy& copy) {
    state.copies.take(copy);
    out.push_back(copy.copy);
  };
  const auto& in = state.copies.pending(KvCopy::Direction::kIn);
  while (!in.empty()) take(state.copies.at(*in.begin()));
  std::vector<CopyId> due;
  for (const CopyId id : state.copies.pending(KvCopy::Direction::kOut)) {
    const PendingCopy& copy = state.copies.at(id);
    if (state.pool.is_done(copy.after)) due.push_back(id);
  }
  for (const CopyId id : due) take(state.copies.at(id));
  for (auto begun = std::ssize(due); begun < out_max; ++begun) {
    PendingCopy* const eager = state.next_eager();
    if (eager == nullptr) break;
    take(*eager);
  }
}

bool KvCache::State::wants_twin(const EagerCandidate& candidate) const {
  return pool.indexed(candidate.frame) && pool.ordinal(candidate.frame) == candidate.ordinal &&
         !twins.find(pool.hash(candidate.frame)).valid();
}

PendingCopy* KvCache::State::next_eager() {
  while (!eager.empty() && !wants_twin(eager.front())) eager.pop_front();
  // An eager copy, which no sequence needs yet, is not worth the twin of a block that a sequence
  // holds.
  if (eager.empty() || twins.counts().free + twins.counts().cached == 0) return nullptr;
  const FrameId frame = eager.front().frame;
  eager.pop_front();
  PendingCopy copy{.copy = {.direction = KvCopy::Direction::kOut,
                            .reason = KvCopy::Reason::kEager,
                            .frame = frame},
                   .model = pool.model(frame),
                   .hash = pool.hash(frame),
                   .takes = pool.takes(frame)};
  copy.copy.twin = twins.take(copy.model, copy.hash, copies.next_id(), let_go_of(*copy.hash));
  pool.begin_copy(frame);
  return &copies.add(std::move(copy));
}

void KvCache::State::note_indexed(FrameId frame, const PrefixHash& hash) {
  if (twins.size() == 0) return;
  if (twins.find(hash).valid()) {
    if (pool.references(frame) > 0) {
      twins.use(hash);
    } else {
      twins.let_go(hash, pool.let_go(frame));
    }
    return;
  }
  eager.push_back({frame, pool.ordinal(frame)});
  purge_eager();
}

// A caller that takes no copies lets candidates pile up, so void ones are removed here.
void KvCache::State::purge_eager() {
  constexpr std::int64_t kSome = 64;
  if (std::ssize(eager) <= 2 * pool.size() + kSome) return;
  std::erase_if(eager, [&](const EagerCandidate& candidate) { return !wants_twin(candidate); });
}

void KvCache::copy_ended(CopyId id, bool ok, std::vector<RequestId>& lost) {
  State& state = *state_;
  PendingCopy& book = state.copies.at(id);
  CAUSEWAY_CHECK(book.taken, "a KV copy ends that was not taken");
  if (!ok && !book.given_up) state.lose_waiters(book);
  const PendingCopy ended = state.copies.remove(id);
  for (const CopyWaiter& waiter : ended.waiters) {
    if (Sequence* const entry = state.find(waiter)) --entry->copies_awaited;
  }
  const auto& [frame, twin] = std::pair(ended.copy.frame, ended.copy.twin);
  if (ended.copy.direction == KvCopy::Direction::kOut) {
    ok ? state.twins.filled(twin) : state.twins.spoil(twin);
  } else if (ok && ended.hash && !ended.given_up && state.pool.index(frame, *ended.hash)) {
    state.note_indexed(frame, *ended.hash);
  }
  state.pool.end_copy(frame, ended.given_up);
  state.twins.unhold(twin);
  take_lost(lost);
}

void KvCache::give_up_copy(CopyId id, std::vector<RequestId>& lost) {
  PendingCopy& copy = state_->copies.at(id);
  CAUSEWAY_CHECK(copy.taken, "a KV copy is given up that was not taken");
  if (copy.given_up) return;
  state_->lose_waiters(copy);
  copy.given_up = true;
  state_->pool.give_up_copy(copy.copy.frame);
  // No other sequence is to wait for it.
  if (copy.copy.direction == KvCopy::Direction::kOut) state_->twins.spoil(copy.copy.twin);
  take_lost(lost);
}

void KvCache::take_lost(std::vector<RequestId>& lost) {
  lost.insert(lost.end(), state_->lost.begin(), state_->lost.end());
  state_->lost.clear();
}

// What steps in flight fill from a frame with wrong contents is not valid, even if the sequence has
// ended meanwhile.
void KvCache::State::lose_waiters(const PendingCopy& copy) {
  std::unordered_set<std::uint64_t> serials;
  for (const CopyWaiter& waiter : copy.waiters) {
    serials.insert(waiter.serial);
    Sequence* const entry = find(waiter);
    if (entry != nullptr) lose(waiter.sequence, *entry);
  }
  if (copy.copy.direction == KvCopy::Direction::kIn && !in_flight.empty()) {
    abandon_fills(serials, in_flight.begin()->first);
  }
}

void KvCache::State::drop_twins(RequestId id, Sequence& entry) {
  for (auto twin = entry.twins.rbegin(); twin != entry.twins.rend(); ++twin) {
    PendingCopy* const copy = copies.find(twins.filled_by(*twin));
    if (copy != nullptr && !copy->taken && copy->copy.twin == *twin) {
      std::erase_if(copy->waiters, [&](const CopyWaiter& w) {
        return w.sequence == id && w.serial == entry.serial;
      });
      if (copy->waiters.empty()) drop_copy_out(copy->copy.id);
    }
    twins.unhold(*twin, pool.next_let_go());
  }
  entry.twins.clear();
}

void KvCache::State::drop_pending_in(RequestId id) {
  const std::set<CopyId> pending = copies.pending(KvCopy::Direction::kIn);
  for (const CopyId copy : pending) {
    if (copies.at(copy).waiters.front().sequence != id) continue;
    const PendingCopy dropped = copies.remove(copy);
    pool.end_copy(dropped.copy.frame);
    twins.unhold(dropped.copy.twin);
  }
}

void KvCache::State::lose_blocks(Sequence& entry, std::int64_t first) {
  for (auto i = static_cast<std::size_t>(first); i < entry.twins.size(); ++i) {
    const CopyId filled_by = twins.filled_by(entry.twins[i]);
    const PendingCopy* const copy = copies.find(filled_by);
    if (copy != nullptr && !copy->taken) drop_copy_out(filled_by);
  }
}

void KvCache::State::drop_copy_of(const Fill& fill) {
  const TwinId twin = twins.find(fill.hash);
  const PendingCopy* const copy = twin.valid() ? copies.find(twins.filled_by(twin)) : nullptr;
  if (copy != nullptr && !copy->taken && copy->copy.frame == fill.frame) {
    drop_copy_out(copy->copy.id);
  }
}

void KvCache::State::lose(RequestId id, Sequence& entry) {
  if (!entry.lost) lost.push_back(id);
  entry.lost = true;
}

// Sequences that still wait for the copy are lost.
void KvCache::State::drop_copy_out(CopyId id) {
  const PendingCopy dropped = copies.remove(id);
  for (const CopyWaiter& waiter : dropped.waiters) {
    Sequence* const entry = find(waiter);
    if (entry == nullptr) continue;
    lose(waiter.sequence, *entry);
    --entry->copies_awaited;
  }
  twins.spoil(dropped.copy.twin);
  pool.end_copy(dropped.copy.frame);
  twins.unhold(dropped.copy.twin);
}

}  // namespace causeway::kv
