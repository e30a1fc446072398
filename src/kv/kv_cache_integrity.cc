// KvCache::check_integrity(): every invariant, by recomputation.
#include <string>

#include "kv/kv_cache.h"
#include "kv/kv_cache_state.h"

namespace causeway::kv {

Status KvCache::State::check_sequence(RequestId id, const Sequence& entry) const {
  const auto broken = [&](const std::string& what) {
    return corrupt("KV of sequence " + std::to_string(id.value) + ": " + what);
  };
  const auto model = models.find(entry.model);
  if (model == models.end()) return broken("its model is unknown");
  if (model->second.block_tokens != entry.block_tokens) return broken("wrong block size");
  const auto blocks = static_cast<std::int64_t>(entry.table.size());
  if (!entry.out && entry.committed_tokens > blocks * entry.block_tokens) {
    return broken("more tokens are committed than its table covers");
  }
  const std::int64_t full = tracks_blocks() ? entry.committed_tokens / entry.block_tokens : 0;
  if (static_cast<std::int64_t>(entry.hashes.size()) != full) return broken("hashes are missing");
  std::unordered_set<FrameId> seen;
  for (std::size_t i = 0; i < entry.table.size(); ++i) {
    const FrameId frame = entry.table[i];
    if (!seen.insert(frame).second) return broken("its table lists a frame twice");
    if (pool.model(frame) != entry.model) return broken("it uses a frame of another model");
    if (!pool.indexed(frame)) continue;
    if (i >= entry.hashes.size()) return broken("a block that is not full is indexed");
    if (pool.hash(frame) != entry.hashes[i]) return broken("a block is indexed as another");
  }
  if (!entry.out) return entry.twins.empty() ? Status() : broken("it holds twins in HBM");
  if (blocks > 0) return broken("it is rotated out, and has a table");
  const Status out = entry.lost ? Status() : check_out(entry);
  return out.ok() ? out : broken(out.error().message);
}

Status KvCache::State::check_out(const Sequence& entry) const {
  if (std::ssize(entry.twins) != entry.blocks()) return corrupt("not every block has a twin");
  for (std::size_t i = 0; i < entry.twins.size(); ++i) {
    const TwinId twin = entry.twins[i];
    const auto& hash = twins.hash(twin);
    if (twins.model(twin) != entry.model) return corrupt("it holds a twin of another model");
    if (i < entry.hashes.size() ? hash != entry.hashes[i] : hash.has_value()) {
      return corrupt("a twin is of another block");
    }
    if (entry.copies_awaited == 0 && !twins.valid(twin)) {
      return corrupt("it awaits nothing, but is not in host memory as a whole");
    }
  }
  return {};
}

Status KvCache::State::check_copy(const PendingCopy& copy) const {
  const auto broken = [&](const std::string& what) {
    return corrupt("KV copy " + std::to_string(copy.copy.id.value) + ": " + what);
  };
  const FrameId frame = copy.copy.frame;
  const TwinId twin = copy.copy.twin;
  if (pool.takes(frame) != copy.takes) return broken("its frame was handed out again");
  if (copy.copy.direction == KvCopy::Direction::kIn) {
    if (!twins.valid(twin)) return broken("it copies in what is not in host memory");
    if (pool.indexed(frame)) return broken("its frame is found before it has ended");
    return pool.references(frame) <= 1 ? Status() : broken("its frame is shared");
  }
  if (twins.valid(twin)) return broken("it overwrites a twin that holds a block");
  if (copy.taken && !pool.is_done(copy.after)) return broken("a step writes what it reads");
  if (copy.taken && pool.filling(frame).valid()) return broken("it reads a block being filled");
  if (!copy.hash) {
    if (pool.references(frame) > 0) return broken("it reads a tail that a table lists");
    if (pool.indexed(frame)) return broken("it reads a full block as a tail");
  } else if (pool.indexed(frame) && pool.hash(frame) != copy.hash) {
    return broken("it reads another block");
  }
  return {};
}

// Checks each copy, and the number of copies that each sequence waits for.
Status KvCache::State::check_copies() const {
  std::unordered_map<std::uint64_t, std::int64_t> awaited;
  std::size_t pending = 0;
  for (const auto& [id, copy] : copies.all()) {
    CAUSEWAY_TRY(check_copy(copy));
    for (const CopyWaiter& waiter : copy.waiters) ++awaited[waiter.serial];
    pending += copy.taken ? 0 : 1;
  }
  if (pending != copies.pending(KvCopy::Direction::kIn).size() +
                     copies.pending(KvCopy::Direction::kOut).size()) {
    return corrupt("KV copies are pending that are under way");
  }
  for (const auto& [id, entry] : sequences) {
    if (entry.copies_awaited != awaited[entry.serial]) {
      return corrupt("KV of sequence " + std::to_string(id.value) + ": miscounts its copies");
    }
  }
  return {};
}

Status KvCache::check_integrity() const {
  std::vector<std::int64_t> references(static_cast<std::size_t>(frames_max()), 0);
  std::vector<FramePool::Copies> copies(references.size());
  std::vector<std::int64_t> holds(static_cast<std::size_t>(twins()), 0);
  std::unordered_map<ModelId, std::int64_t> open_sequences;
  for (const auto& [id, sequence] : state_->sequences) {
    CAUSEWAY_TRY(state_->check_sequence(id, sequence));
    for (const FrameId frame : sequence.table) ++references[static_cast<std::size_t>(frame.value)];
    for (const TwinId twin : sequence.twins) ++holds[static_cast<std::size_t>(twin.value)];
    ++open_sequences[sequence.model];
  }
  for (const auto& [id, copy] : state_->copies.all()) {
    FramePool::Copies& of_frame = copies[static_cast<std::size_t>(copy.copy.frame.value)];
    of_frame.all += 1;
    of_frame.given_up += copy.given_up ? 1 : 0;
    ++holds[static_cast<std::size_t>(copy.copy.twin.value)];
  }
  CAUSEWAY_TRY(state_->check_copies());
  for (const auto& [id, model] : state_->models) {
    if (model.open_sequences != open_sequences[id]) {
      return corrupt("model " + std::to_string(id.value) + " miscounts its open KV sequences");
    }
  }
  if (!state_->in_flight.empty() && state_->pool.is_done(state_->in_flight.begin()->first)) {
    return corrupt("the KV cache waits for a step that is done");
  }
  CAUSEWAY_TRY(
      state_->twins.check(holds, [&](const PrefixHash& hash) { return state_->in_use(hash); }));
  return state_->pool.check(references, copies);
}

}  // namespace causeway::kv
