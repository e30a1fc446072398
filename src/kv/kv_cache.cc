#include "kv/kv_cache.h"

#include <tuple>

#include "kv/kv_cache_state.h"

namespace causeway::kv {

Model& KvCache::State::model(ModelId id) {
  const auto found = models.find(id);
  CAUSEWAY_CHECK(found != models.end(), "the KV cache does not know this model");
  return found->second;
}

Sequence& KvCache::State::sequence(RequestId id) {
  const auto found = sequences.find(id);
  CAUSEWAY_CHECK(found != sequences.end(), "the sequence has no open block table");
  return found->second;
}

KvCache::KvCache(const KvCacheOptions& options) : state_(std::make_unique<State>(options)) {}
KvCache::~KvCache() = default;

void KvCache::add_model(ModelId model, Tokens tokens_per_block) {
  CAUSEWAY_CHECK(tokens_per_block.count >= 1, "a block of less than one token");
  const bool added = state_->models.emplace(model, Model{tokens_per_block.count, 0}).second;
  CAUSEWAY_CHECK(added, "the KV cache knows this model already");
}

void KvCache::remove_model(ModelId model) {
  CAUSEWAY_CHECK(state_->model(model).open_sequences == 0, "the model has open sequences");
  state_->pool.forget_model(model);
  state_->twins.forget_model(model);
  state_->copies.forget_model(model);
  state_->models.erase(model);
}

Tokens KvCache::tokens_per_block(ModelId model) const {
  return Tokens(state_->model(model).block_tokens);
}

Tokens KvCache::match_prefix(ModelId model, std::span<const TokenId> tokens) const {
  return Tokens(state_->walk_prefix(
      model, tokens, [&](const PrefixHash& hash) { return state_->pool.find(hash).valid(); }));
}

std::int64_t KvCache::cached_frames_of_prefix(ModelId model,
                                              std::span<const TokenId> tokens) const {
  std::int64_t cached = 0;
  state_->walk_prefix(model, tokens, [&](const PrefixHash& hash) {
    const FrameId frame = state_->pool.find(hash);
    cached += frame.valid() && state_->pool.evictable(frame) ? 1 : 0;
    return frame.valid();
  });
  return cached;
}

Tokens KvCache::open(RequestId sequence, ModelId model, std::span<const TokenId> tokens) {
  return state_->open(sequence, model, tokens, false);
}

// All references are taken before the frames for copies: taking a frame may evict any cached one.
Tokens KvCache::State::open(RequestId id, ModelId model_id, std::span<const TokenId> tokens,
                            bool bring) {
  CAUSEWAY_CHECK(!sequences.contains(id), "the sequence has an open block table already");
  Sequence opened;
  opened.model = model_id;
  opened.block_tokens = model(model_id).block_tokens;
  opened.serial = next_serial++;
  const std::size_t blocks = tokens.size() / static_cast<std::size_t>(opened.block_tokens) + 1;
  opened.table.reserve(blocks);
  if (tracks_blocks()) opened.hashes.reserve(blocks);
  opened.committed_tokens = walk_prefix(model_id, tokens, [&](const PrefixHash& hash) {
    const FrameId frame = pool.find(hash);
    if (!frame.valid() && !(bring && ready_twin(hash).valid())) return false;
    if (frame.valid()) use_frame(frame, hash);
    opened.table.push_back(frame);
    opened.hashes.push_back(hash);
    return true;
  });
  for (std::size_t i = 0; i < opened.table.size(); ++i) {
    if (opened.table[i].valid()) continue;
    copy_in(id, opened, i, ready_twin(opened.hashes[i]), KvCopy::Reason::kPrefix);
    stats.host_tokens += opened.block_tokens;
  }
  if (prefix_caching) {
    stats.queried_tokens += static_cast<std::int64_t>(tokens.size());
    stats.hit_tokens += opened.committed_tokens;
  }
  ++model(model_id).open_sequences;
  const Tokens hit(opened.committed_tokens);
  sequences.emplace(id, std::move(opened));
  return hit;
}

void KvCache::State::use_frame(FrameId frame, const PrefixHash& hash) {
  pool.reference(frame);
  twins.use(hash);
}

std::int64_t KvCache::frames_to_grow(RequestId sequence, Tokens total) const {
  CAUSEWAY_CHECK(total.count >= 0, "a table is to cover a negative number of tokens");
  const Sequence& entry = state_->sequence(sequence);
  if (total.count == 0) return 0;
  const std::int64_t blocks = (total.count - 1) / entry.block_tokens + 1;
  return std::max<std::int64_t>(0, blocks - static_cast<std::int64_t>(entry.table.size()));
}

bool KvCache::grow(RequestId sequence, Tokens total) {
  const std::int64_t wanted = frames_to_grow(sequence, total);
  if (wanted > state_->pool.counts().available()) return false;
  Sequence& entry = state_->sequence(sequence);
  CAUSEWAY_CHECK(!entry.out, "a sequence grows while it is rotated out");
  for (std::int64_t i = 0; i < wanted; ++i) entry.table.push_back(state_->pool.take(entry.model));
  return true;
}

void KvCache::commit(RequestId sequence, std::span<const TokenId> tokens, StepId step) {
  Sequence& entry = state_->sequence(sequence);
  const auto total = static_cast<std::int64_t>(tokens.size());
  CAUSEWAY_CHECK(!entry.out && !entry.lost, "tokens of a sequence that is rotated out, or lost");
  CAUSEWAY_CHECK(total >= entry.committed_tokens, "tokens once committed stay committed");
  CAUSEWAY_CHECK((total + entry.block_tokens - 1) / entry.block_tokens <=
                     static_cast<std::int64_t>(entry.table.size()),
                 "the table does not cover these tokens");
  if (total == entry.committed_tokens) return;
  if (!state_->pool.is_done(step)) {
    state_->in_step(step).commits.push_back({sequence, entry.serial, entry.committed_tokens});
  }
  if (state_->tracks_blocks()) state_->hash_full_blocks(sequence, tokens, step);
  entry.committed_tokens = total;
  entry.last_writer = std::max(entry.last_writer, step);
}

Step& KvCache::State::in_step(StepId id) {
  const auto at = in_flight.lower_bound(id);
  if (at != in_flight.end() && at->first == id) return at->second;
  if (spares.empty()) return in_flight.emplace_hint(at, id, Step())->second;
  auto node = std::move(spares.back());
  spares.pop_back();
  node.key() = id;
  return in_flight.insert(at, std::move(node))->second;
}

void KvCache::State::hash_full_blocks(RequestId id, std::span<const TokenId> tokens, StepId step) {
  Sequence& entry = sequence(id);
  const auto block = static_cast<std::size_t>(entry.block_tokens);
  for (std::size_t i = entry.hashes.size(); (i + 1) * block <= tokens.size(); ++i) {
    const PrefixHash parent = entry.hashes.empty() ? root(entry.serial) : entry.hashes.back();
    const PrefixHash hash = hash_block(key, entry.model, parent, tokens.subspan(i * block, block));
    entry.hashes.push_back(hash);
    if (!pool.is_done(step)) {
      pool.begin_fill(entry.table[i], hash, step);
      in_step(step).fills.push_back({entry.table[i], hash, entry.serial});
    } else if (pool.index(entry.table[i], hash)) {
      note_indexed(entry.table[i], hash);
    }
  }
}

void KvCache::release(RequestId sequence, StepId last_user) {
  Sequence& entry = state_->sequence(sequence);
  if (entry.out) {
    state_->drop_twins(sequence, entry);
  } else {
    if (entry.copies_awaited > 0) state_->drop_pending_in(sequence);
    state_->drop_table(entry, last_user);
  }
  --state_->model(entry.model).open_sequences;
  std::erase(state_->lost, sequence);
  state_->sequences.erase(sequence);
}

// Released from the end, so that the last block of a chain is evicted first: a block is useless
// without those before it.
void KvCache::State::drop_table(Sequence& entry, StepId last_user) {
  for (auto frame = entry.table.rbegin(); frame != entry.table.rend(); ++frame) {
    const bool indexed = pool.indexed(*frame);
    const PrefixHash hash = indexed ? pool.hash(*frame) : PrefixHash();
    pool.unreference(*frame, last_user);
    if (!indexed || pool.references(*frame) > 0) continue;
    twins.let_go(hash, pool.let_go(*frame));
  }
  entry.table.clear();
}

// Indexes what the step and all before `oldest` have filled, then ends their quarantines.
void KvCache::State::complete(StepId step, StepId oldest) {
  for (auto at = in_flight.begin(); at != in_flight.end() && at->first <= step;) {
    const auto& [id, work] = *at;
    if (id != step && id >= oldest) {
      ++at;
      continue;
    }
    for (const Fill& fill : work.fills) {
      if (pool.end_fill(fill.frame, fill.hash, id)) note_indexed(fill.frame, fill.hash);
    }
    const auto ended = at++;
    spares.push_back(in_flight.extract(ended));
    spares.back().mapped().commits.clear();
    spares.back().mapped().fills.clear();
  }
  pool.step_done(step, oldest);
}

void KvCache::step_done(StepId step, StepId oldest) { state_->complete(step, oldest); }

void KvCache::step_failed(StepId step, StepId oldest) {
  CAUSEWAY_CHECK(!state_->pool.is_done(step), "a step that is done cannot fail");
  const StepId first = std::min(step, oldest);
  state_->complete(StepId(first.value - 1), first);
  if (const auto failed = state_->in_flight.find(step); failed != state_->in_flight.end()) {
    const std::vector<Commit> commits = failed->second.commits;
    state_->roll_back(commits, step);
  }
  state_->complete(step, oldest);
}

// Later steps of the same sequences use what the failed step was to write, so what they have
// committed is not valid either.
void KvCache::State::roll_back(const std::vector<Commit>& failed, StepId step) {
  std::unordered_set<std::uint64_t> serials;
  for (const Commit& commit : failed) {
    serials.insert(commit.serial);
    const auto found = sequences.find(commit.sequence);
    if (found == sequences.end() || found->second.serial != commit.serial) continue;
    Sequence& entry = found->second;
    entry.committed_tokens = std::min(entry.committed_tokens, commit.committed_before);
    const auto full = static_cast<std::size_t>(entry.committed_tokens / entry.block_tokens);
    entry.hashes.resize(std::min(entry.hashes.size(), full));
    if (!entry.out) continue;
    lose(commit.sequence, entry);
    lose_blocks(entry, static_cast<std::int64_t>(full));
  }
  abandon_fills(serials, step);
}

void KvCache::State::abandon_fills(const std::unordered_set<std::uint64_t>& serials, StepId step) {
  for (auto later = in_flight.lower_bound(step); later != in_flight.end(); ++later) {
    Step& work = later->second;
    std::erase_if(work.commits, [&](const Commit& c) { return serials.contains(c.serial); });
    std::erase_if(work.fills, [&](const Fill& fill) {
      if (!serials.contains(fill.serial)) return false;
      pool.abandon_fill(fill.frame, fill.hash, later->first);
      drop_copy_of(fill);
      return true;
    });
  }
}

std::span<const FrameId> KvCache::table(RequestId sequence) const {
  return state_->sequence(sequence).table;
}

bool KvCache::is_open(RequestId sequence) const { return state_->sequences.contains(sequence); }

void KvCache::add_frames(FrameRun run) {
  for (std::int64_t i = 0; i < run.count; ++i) state_->pool.add(FrameId(run.first.value + i));
}

void KvCache::retire_frames(FrameRun run) {
  for (std::int64_t i = 0; i < run.count; ++i) state_->pool.retire(FrameId(run.first.value + i));
}

bool KvCache::retired(FrameRun run) const {
  for (std::int64_t i = 0; i < run.count; ++i) {
    if (state_->pool.state(FrameId(run.first.value + i)) != FrameState::kGone) return false;
  }
  return true;
}

bool KvCache::stranded(FrameRun run) const {
  for (std::int64_t i = 0; i < run.count; ++i) {
    if (state_->pool.stranded(FrameId(run.first.value + i))) return true;
  }
  return false;
}

bool KvCache::retiring(FrameId frame) const { return state_->pool.retiring(frame); }

std::vector<FrameRun> KvCache::runs_to_retire(std::int64_t length, std::int64_t count) const {
  CAUSEWAY_CHECK(length >= 1 && count >= 0, "runs without frames");
  using Rank = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // in use, cached, -first
  std::vector<Rank> ranks;
  for (std::int64_t first = 0; first + length <= frames_max(); first += length) {
    std::int64_t in_use = 0, cached = 0, unusable = 0;
    for (FrameId frame(first); frame.value < first + length; ++frame.value) {
      const FrameState state = state_->pool.state(frame);
      const bool stays = state_->pool.retiring(frame) || state_->pool.stranded(frame);
      unusable += state == FrameState::kGone || stays ? 1 : 0;
      cached += state == FrameState::kCached ? 1 : 0;
      in_use += state == FrameState::kReferenced || state == FrameState::kQuarantined ? 1 : 0;
    }
    if (unusable == 0) ranks.emplace_back(in_use, cached, -first);
  }
  const auto best = ranks.begin() + std::min<std::ptrdiff_t>(count, std::ssize(ranks));
  std::partial_sort(ranks.begin(), best, ranks.end());
  std::vector<FrameRun> runs;
  for (auto rank = ranks.begin(); rank != best; ++rank) {
    runs.push_back({FrameId(-std::get<2>(*rank)), length});
  }
  return runs;
}

FrameCounts KvCache::counts() const { return state_->pool.counts(); }
PrefixStats KvCache::prefix_stats() const { return state_->stats; }
std::int64_t KvCache::frames() const { return state_->pool.counts().usable(); }
std::int64_t KvCache::frames_max() const { return state_->pool.size(); }

}  // namespace causeway::kv
