#include "kv/kv_cache.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "base/random.h"
#include "kv/frame_pool.h"
#include "kv/prefix_hash.h"

namespace causeway::kv {
namespace {

struct Model {
  std::int64_t block_tokens = 0;
  std::int64_t open_sequences = 0;
};

struct Sequence {
  ModelId model;
  std::int64_t block_tokens = 0;
  std::uint64_t serial = 0;  // tells this opening from others of the same request
  std::vector<FrameId> table;
  std::vector<PrefixHash> hashes;     // of the leading full blocks (with prefix caching)
  std::int64_t committed_tokens = 0;  // whose KV is valid once the steps in flight are done
};

// What a step in flight will have done to a sequence; what to go back to if it fails.
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

}  // namespace

class KvCache::State {
 public:
  explicit State(const KvCacheOptions& options)
      : pool(options.frames, std::max(options.frames, options.frames_max)),
        prefix_caching(options.prefix_caching),
        key{options.hash_seed, mix64(options.hash_seed)} {}

  Model& model(ModelId id) {
    const auto found = models.find(id);
    CAUSEWAY_CHECK(found != models.end(), "the KV cache does not know this model");
    return found->second;
  }
  Sequence& sequence(RequestId id) {
    const auto found = sequences.find(id);
    CAUSEWAY_CHECK(found != sequences.end(), "the sequence has no open block table");
    return found->second;
  }

  // Calls visit(frame, hash) for the leading blocks of `tokens` that are indexed, in order.
  template <typename Visit>
  std::int64_t for_each_prefix_block(ModelId id, std::span<const TokenId> tokens, Visit visit) {
    const auto block = static_cast<std::size_t>(model(id).block_tokens);
    if (!prefix_caching || tokens.empty()) return 0;
    const std::size_t blocks_max = (tokens.size() - 1) / block;  // one token must be computed
    PrefixHash hash;
    for (std::size_t i = 0; i < blocks_max; ++i) {
      hash = hash_block(key, id, hash, tokens.subspan(i * block, block));
      const FrameId frame = pool.find(hash);
      if (!frame.valid()) return static_cast<std::int64_t>(i * block);
      visit(frame, hash);
    }
    return static_cast<std::int64_t>(blocks_max * block);
  }

  void hash_full_blocks(RequestId id, std::span<const TokenId> tokens, StepId step);
  void complete(StepId step, StepId oldest);
  void roll_back(const std::vector<Commit>& failed, StepId step);
  Status check_sequence(RequestId id, const Sequence& sequence) const;

  FramePool pool;
  const bool prefix_caching;
  const HashKey key;
  std::unordered_map<ModelId, Model> models;
  std::unordered_map<RequestId, Sequence> sequences;
  std::map<StepId, Step> in_flight;
  std::uint64_t next_serial = 0;
  PrefixStats stats;
};

KvCache::KvCache(const KvCacheOptions& options) : state_(std::make_unique<State>(options)) {}
KvCache::~KvCache() = default;

void KvCache::add_model(ModelId model, Tokens tokens_per_block) {
  CAUSEWAY_CHECK(tokens_per_block.count >= 1, "a block holds at least one token");
  const bool added = state_->models.emplace(model, Model{tokens_per_block.count, 0}).second;
  CAUSEWAY_CHECK(added, "the KV cache knows this model already");
}

void KvCache::remove_model(ModelId model) {
  CAUSEWAY_CHECK(state_->model(model).open_sequences == 0, "the model has open sequences");
  state_->pool.forget_model(model);
  state_->models.erase(model);
}

Tokens KvCache::tokens_per_block(ModelId model) const {
  return Tokens(state_->model(model).block_tokens);
}

Tokens KvCache::match_prefix(ModelId model, std::span<const TokenId> tokens) const {
  return Tokens(state_->for_each_prefix_block(model, tokens, [](FrameId, const PrefixHash&) {}));
}

std::int64_t KvCache::cached_frames_of_prefix(ModelId model,
                                              std::span<const TokenId> tokens) const {
  std::int64_t cached = 0;
  state_->for_each_prefix_block(model, tokens, [&](FrameId frame, const PrefixHash&) {
    cached += state_->pool.state(frame) == FrameState::kCached ? 1 : 0;
  });
  return cached;
}

Tokens KvCache::open(RequestId sequence, ModelId model, std::span<const TokenId> tokens) {
  Sequence opened;
  opened.model = model;
  opened.block_tokens = state_->model(model).block_tokens;
  opened.serial = state_->next_serial++;
  CAUSEWAY_CHECK(!is_open(sequence), "the sequence has an open block table already");
  opened.committed_tokens =
      state_->for_each_prefix_block(model, tokens, [&](FrameId frame, const PrefixHash& hash) {
        state_->pool.reference(frame);
        opened.table.push_back(frame);
        opened.hashes.push_back(hash);
      });
  if (state_->prefix_caching) {
    state_->stats.queried_tokens += static_cast<std::int64_t>(tokens.size());
    state_->stats.hit_tokens += opened.committed_tokens;
  }
  ++state_->model(model).open_sequences;
  const Tokens hit(opened.committed_tokens);
  state_->sequences.emplace(sequence, std::move(opened));
  return hit;
}

std::int64_t KvCache::frames_to_grow(RequestId sequence, Tokens total) const {
  CAUSEWAY_CHECK(total.count >= 0, "a table cannot cover a negative number of tokens");
  const Sequence& entry = state_->sequence(sequence);
  if (total.count == 0) return 0;
  const std::int64_t blocks = (total.count - 1) / entry.block_tokens + 1;
  return std::max<std::int64_t>(0, blocks - static_cast<std::int64_t>(entry.table.size()));
}

bool KvCache::grow(RequestId sequence, Tokens total) {
  const std::int64_t wanted = frames_to_grow(sequence, total);
  if (wanted > state_->pool.counts().available()) return false;
  Sequence& entry = state_->sequence(sequence);
  for (std::int64_t i = 0; i < wanted; ++i) entry.table.push_back(state_->pool.take(entry.model));
  return true;
}

void KvCache::commit(RequestId sequence, std::span<const TokenId> tokens, StepId step) {
  Sequence& entry = state_->sequence(sequence);
  const auto total = static_cast<std::int64_t>(tokens.size());
  CAUSEWAY_CHECK(total >= entry.committed_tokens, "tokens once committed stay committed");
  CAUSEWAY_CHECK((total + entry.block_tokens - 1) / entry.block_tokens <=
                     static_cast<std::int64_t>(entry.table.size()),
                 "the table does not cover these tokens");
  if (total == entry.committed_tokens) return;
  if (!state_->pool.is_done(step)) {
    state_->in_flight[step].commits.push_back({sequence, entry.serial, entry.committed_tokens});
  }
  if (state_->prefix_caching) state_->hash_full_blocks(sequence, tokens, step);
  entry.committed_tokens = total;
}

void KvCache::State::hash_full_blocks(RequestId id, std::span<const TokenId> tokens, StepId step) {
  Sequence& entry = sequence(id);
  const auto block = static_cast<std::size_t>(entry.block_tokens);
  for (std::size_t i = entry.hashes.size(); (i + 1) * block <= tokens.size(); ++i) {
    const PrefixHash parent = entry.hashes.empty() ? PrefixHash() : entry.hashes.back();
    const PrefixHash hash = hash_block(key, entry.model, parent, tokens.subspan(i * block, block));
    entry.hashes.push_back(hash);
    if (!pool.is_done(step)) {
      pool.begin_fill(entry.table[i], hash, step);
      in_flight[step].fills.push_back({entry.table[i], hash, entry.serial});
    } else {
      pool.index(entry.table[i], hash);
    }
  }
}

void KvCache::release(RequestId sequence, StepId last_user) {
  const Sequence& entry = state_->sequence(sequence);
  // From the end, so that of a chain the last block is evicted first: a block is worthless
  // without those before it.
  for (auto frame = entry.table.rbegin(); frame != entry.table.rend(); ++frame) {
    state_->pool.unreference(*frame, last_user);
  }
  --state_->model(entry.model).open_sequences;
  state_->sequences.erase(sequence);
}

// Indexes what the step, and all before `oldest`, have filled, then ends their quarantines.
void KvCache::State::complete(StepId step, StepId oldest) {
  for (auto at = in_flight.begin(); at != in_flight.end() && at->first <= step;) {
    const auto& [id, work] = *at;
    if (id != step && id >= oldest) {
      ++at;
      continue;
    }
    for (const Fill& fill : work.fills) pool.end_fill(fill.frame, fill.hash, id);
    at = in_flight.erase(at);
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

// Later steps of the same sequences build on what the failed step was to write, so whatever they
// have committed is not valid either.
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
  }
  for (auto later = in_flight.find(step); later != in_flight.end(); ++later) {
    Step& work = later->second;
    std::erase_if(work.commits, [&](const Commit& c) { return serials.contains(c.serial); });
    std::erase_if(work.fills, [&](const Fill& fill) {
      if (!serials.contains(fill.serial)) return false;
      pool.abandon_fill(fill.frame, fill.hash, later->first);
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

bool KvCache::retiring(FrameId frame) const { return state_->pool.retiring(frame); }

std::vector<FrameRun> KvCache::runs_to_retire(std::int64_t length, std::int64_t count) const {
  CAUSEWAY_CHECK(length >= 1 && count >= 0, "runs without frames");
  using Rank = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // in use, cached, -first
  std::vector<Rank> ranks;
  for (std::int64_t first = 0; first + length <= frames_max(); first += length) {
    std::int64_t in_use = 0, cached = 0, unusable = 0;
    for (FrameId frame(first); frame.value < first + length; ++frame.value) {
      const FrameState state = state_->pool.state(frame);
      unusable += state == FrameState::kGone || state_->pool.retiring(frame) ? 1 : 0;
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

Status KvCache::State::check_sequence(RequestId id, const Sequence& entry) const {
  const auto broken = [&](const std::string& what) {
    return corrupt("KV of sequence " + std::to_string(id.value) + ": " + what);
  };
  const auto model = models.find(entry.model);
  if (model == models.end()) return broken("its model is unknown");
  if (model->second.block_tokens != entry.block_tokens) return broken("wrong block size");
  const auto blocks = static_cast<std::int64_t>(entry.table.size());
  if (entry.committed_tokens > blocks * entry.block_tokens) {
    return broken("more tokens are committed than its table covers");
  }
  const std::int64_t full = prefix_caching ? entry.committed_tokens / entry.block_tokens : 0;
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
  return {};
}

Status KvCache::check_integrity() const {
  std::vector<std::int64_t> references(static_cast<std::size_t>(frames_max()), 0);
  std::unordered_map<ModelId, std::int64_t> open_sequences;
  for (const auto& [id, sequence] : state_->sequences) {
    CAUSEWAY_TRY(state_->check_sequence(id, sequence));
    for (const FrameId frame : sequence.table) ++references[static_cast<std::size_t>(frame.value)];
    ++open_sequences[sequence.model];
  }
  for (const auto& [id, model] : state_->models) {
    if (model.open_sequences != open_sequences[id]) {
      return corrupt("model " + std::to_string(id.value) + " miscounts its open KV sequences");
    }
  }
  if (!state_->in_flight.empty() && state_->pool.is_done(state_->in_flight.begin()->first)) {
    return corrupt("the KV cache waits for a step that is done");
  }
  return state_->pool.check(references);
}

}  // namespace causeway::kv
