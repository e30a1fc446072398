// Random histories of a KvCache against a naive model of it. The model knows what every frame
// holds, by whole token prefixes instead of hashes, and which steps use which frames; it follows
// the cache's choice of free frames, and predicts everything else, the order of eviction included.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/random.h"
#include "base/testing/rounds.h"
#include "kv/kv_cache.h"

namespace causeway::kv::kv_cache_model_test {
namespace {

// A block's identity: its model and every token up to its end.
using Prefix = std::pair<ModelId, std::vector<TokenId>>;

struct NaiveSequence {
  ModelId model;
  std::vector<TokenId> tokens;     // committed, or once committed, ones first
  std::vector<StepId> written_by;  // of each committed token
  std::vector<FrameId> table;
  StepId last_user;
};

struct NaiveFill {
  FrameId frame;
  Prefix prefix;
  std::vector<StepId> depends_on;
};

struct NaiveQuarantine {
  FrameId frame;
  StepId until;
};

class History {
 public:
  explicit History(std::uint64_t seed)
      : random_(seed),
        frames_(random_.between(1, 20)),
        frames_max_(frames_ + (random_.chance(0.5) ? random_.below(10) : 0)),
        run_(random_.between(1, 4)),
        vocabulary_(random_.between(1, 3)),
        cache_({.frames = frames_, .frames_max = frames_max_, .hash_seed = seed}) {
    for (std::int64_t f = 0; f < frames_; ++f) free_.insert(FrameId(f));
    for (std::int64_t f = frames_; f < frames_max_; ++f) gone_.insert(FrameId(f));
  }

  void step() {
    switch (random_.below(14)) {
      case 0: return add_or_remove_model();
      case 1:
      case 2: return open();
      case 3:
      case 4: return release();
      case 5: return grow_only();
      case 6: return commit_without_step();
      case 7: return random_.chance(0.7) ? step_done() : step_failed();
      case 8: return step_done();
      case 9: return random_.chance(0.5) ? retire_run() : retire_best_run();
      case 10: return add_run();
      default: return start_step();
    }
  }

  void check() {
    const Status status = cache_.check_integrity();
    ASSERT_TRUE(status.ok()) << status.error().message;
    std::set<FrameId> referenced;
    for (const auto& [id, sequence] : sequences_) {
      const auto table = cache_.table(id);
      ASSERT_TRUE(
          std::equal(table.begin(), table.end(), sequence.table.begin(), sequence.table.end()));
      referenced.insert(sequence.table.begin(), sequence.table.end());
    }
    const FrameCounts counts = cache_.counts();
    ASSERT_EQ(counts.free, std::ssize(free_));
    ASSERT_EQ(counts.cached, std::ssize(cached_));
    ASSERT_EQ(counts.quarantined, std::ssize(quarantined_));
    ASSERT_EQ(counts.referenced, std::ssize(referenced));
    ASSERT_EQ(counts.retiring, std::ssize(retiring_));
    ASSERT_EQ(counts.gone, std::ssize(gone_));
    ASSERT_EQ(cache_.frames(), frames_max_ - std::ssize(retiring_) - std::ssize(gone_));
    for (std::int64_t f = 0; f < frames_max_; ++f) {
      ASSERT_EQ(cache_.retired({FrameId(f), 1}), gone_.contains(FrameId(f)));
      ASSERT_EQ(cache_.retiring(FrameId(f)), retiring_.contains(FrameId(f)));
    }
    if (models_.empty()) return;
    const ModelId model = any_model();
    const auto tokens = random_tokens(random_.below(14));
    const auto expected = matching(model, tokens);
    ASSERT_EQ(cache_.match_prefix(model, tokens).count, std::ssize(expected) * models_[model]);
    ASSERT_EQ(cache_.cached_frames_of_prefix(model, tokens),
              std::count_if(expected.begin(), expected.end(), [&](FrameId frame) {
                return std::find(cached_.begin(), cached_.end(), frame) != cached_.end();
              }));
  }

  std::int64_t shared_blocks = 0, evictions = 0, failures = 0, duplicates = 0;
  std::int64_t retired_in_use = 0, taken_back = 0, evicted_with_run = 0;

 private:
  ModelId any_model() {
    auto model = models_.begin();
    std::advance(model, random_.below(std::ssize(models_)));
    return model->first;
  }
  std::optional<RequestId> any_sequence() {
    if (sequences_.empty()) return std::nullopt;
    auto sequence = sequences_.begin();
    std::advance(sequence, random_.below(std::ssize(sequences_)));
    return sequence->first;
  }
  std::vector<TokenId> random_tokens(std::int64_t count) {
    std::vector<TokenId> tokens;
    for (std::int64_t i = 0; i < count; ++i) {
      tokens.push_back(static_cast<TokenId>(random_.below(vocabulary_)));
    }
    return tokens;
  }

  std::vector<FrameId> matching(ModelId model, const std::vector<TokenId>& tokens) const {
    std::vector<FrameId> frames;
    const std::int64_t block = models_.at(model);
    for (auto end = block; end < std::ssize(tokens); end += block) {
      const auto found = index_.find({model, {tokens.begin(), tokens.begin() + end}});
      if (found == index_.end() || retiring_.contains(found->second)) break;
      frames.push_back(found->second);
    }
    return frames;
  }

  void add_or_remove_model() {
    const ModelId model(random_.below(2));
    if (!models_.contains(model)) {
      models_[model] = random_.between(1, 4);
      cache_.add_model(model, Tokens(models_[model]));
      return;
    }
    for (const auto& [id, sequence] : sequences_) {
      if (sequence.model == model) return;
    }
    if (random_.chance(0.7)) return;
    cache_.remove_model(model);
    std::erase_if(fills_, [&](const auto& fill) { return fill.second.prefix.first == model; });
    std::erase_if(index_, [&](const auto& entry) {
      if (entry.first.first != model) return false;
      if (std::erase(cached_, entry.second) > 0) free_.insert(entry.second);
      return true;
    });
    models_.erase(model);
  }

  void open() {
    if (models_.empty() || sequences_.size() >= 6) return;
    const RequestId id(random_.chance(0.5) ? next_request_++ : random_.below(6));
    if (sequences_.contains(id)) return;
    NaiveSequence sequence;
    sequence.model = any_model();
    const auto tokens = random_tokens(random_.between(1, 16));
    sequence.table = matching(sequence.model, tokens);
    for (const FrameId frame : sequence.table) {
      std::erase(cached_, frame);
      std::erase_if(quarantined_, [&](const auto& q) { return q.frame == frame; });
      ++shared_blocks;
    }
    const Tokens hit = cache_.open(id, sequence.model, tokens);
    ASSERT_EQ(hit.count, std::ssize(sequence.table) * models_[sequence.model]);
    sequence.tokens.assign(tokens.begin(), tokens.begin() + hit.count);
    sequence.written_by.assign(sequence.tokens.size(), StepId());
    sequences_[id] = sequence;
  }

  // Grows by `count` tokens; false when frames are lacking.
  bool grow(RequestId id, std::int64_t count) {
    NaiveSequence& sequence = sequences_[id];
    const std::int64_t total = std::ssize(sequence.written_by) + count;
    const std::int64_t block = models_[sequence.model];
    const std::int64_t wanted =
        std::max<std::int64_t>(0, (total + block - 1) / block - std::ssize(sequence.table));
    EXPECT_EQ(cache_.frames_to_grow(id, Tokens(total)), wanted);
    const bool possible = wanted <= std::ssize(free_) + std::ssize(cached_);
    EXPECT_EQ(cache_.grow(id, Tokens(total)), possible);
    if (!possible) return false;
    const auto table = cache_.table(id);
    for (std::size_t i = sequence.table.size(); i < table.size(); ++i) take(table[i]);
    sequence.table.assign(table.begin(), table.end());
    return true;
  }

  void take(FrameId frame) {
    for (const auto& [step, used] : in_flight_) {
      ASSERT_FALSE(used.contains(frame)) << "handed out while a step uses it";
    }
    if (!free_.empty()) {
      ASSERT_TRUE(free_.contains(frame)) << "took a frame that was not free";
      free_.erase(frame);
      return;
    }
    ASSERT_EQ(frame, cached_.front()) << "evicted another than the least recently used";
    cached_.erase(cached_.begin());
    std::erase_if(index_, [&](const auto& entry) { return entry.second == frame; });
    ++evictions;
  }

  void grow_only() {
    if (const auto id = any_sequence()) grow(*id, random_.below(6));
  }

  void commit(RequestId id, std::int64_t count, StepId step) {
    NaiveSequence& sequence = sequences_[id];
    const std::int64_t block = models_[sequence.model];
    const std::int64_t before = std::ssize(sequence.written_by);
    sequence.tokens.resize(static_cast<std::size_t>(before));
    for (const TokenId token : random_tokens(count)) sequence.tokens.push_back(token);
    sequence.written_by.resize(sequence.tokens.size(), step > done_ ? step : StepId());
    cache_.commit(id, sequence.tokens, step);
    for (auto end = (before / block + 1) * block; end <= before + count; end += block) {
      NaiveFill fill{sequence.table[static_cast<std::size_t>(end / block - 1)],
                     {sequence.model, {sequence.tokens.begin(), sequence.tokens.begin() + end}},
                     {sequence.written_by.begin(), sequence.written_by.begin() + end}};
      if (step > done_) {
        fills_.emplace(step, std::move(fill));
      } else {
        insert_filled(fill);
      }
    }
  }

  void insert_filled(const NaiveFill& fill) {
    for (const StepId step : fill.depends_on) {
      if (failed_.contains(step)) return;
    }
    if (!index_.emplace(fill.prefix, fill.frame).second) ++duplicates;
  }

  // Commits tokens whose KV exists already: only sequences with nothing in flight.
  void commit_without_step() {
    const auto id = any_sequence();
    if (!id || sequences_[*id].last_user > done_) return;
    const std::int64_t count = random_.below(6);
    if (grow(*id, count)) commit(*id, count, random_.chance(0.5) ? StepId() : done_);
  }

  void start_step() {
    if (in_flight_.size() >= 3 || sequences_.empty()) return;
    const StepId step(next_step_++);
    auto& used = in_flight_[step];
    const ModelId model = sequences_[*any_sequence()].model;
    for (auto& [id, sequence] : sequences_) {
      if (sequence.model != model || random_.chance(0.4)) continue;
      const std::int64_t count = random_.between(1, 7);
      if (!grow(id, count)) continue;
      commit(id, count, step);
      sequence.last_user = step;
      used.insert(sequence.table.begin(), sequence.table.end());
    }
  }

  bool is_indexed(FrameId frame) const {
    return std::any_of(index_.begin(), index_.end(),
                       [&](const auto& entry) { return entry.second == frame; });
  }

  // A frame without a reference is quarantined until the last step that uses it is done.
  void abandon(FrameId frame, StepId asked) {
    StepId until = std::max(asked, asked_until_[frame]);
    asked_until_[frame] = until;
    for (const auto& [id, sequence] : sequences_) {
      if (std::count(sequence.table.begin(), sequence.table.end(), frame) > 0) return;
    }
    if (until > done_) {
      const auto later = std::find_if(quarantined_.begin(), quarantined_.end(),
                                      [&](const auto& q) { return q.until > until; });
      quarantined_.insert(later, {frame, until});
    } else {
      settle(frame);
    }
  }

  void leave(FrameId frame) {
    std::erase_if(index_, [&](const auto& entry) { return entry.second == frame; });
    gone_.insert(frame);
  }

  FrameRun any_run() {
    const std::int64_t runs = frames_max_ / run_;
    return {FrameId(runs == 0 ? 0 : random_.below(runs) * run_), runs == 0 ? 0 : run_};
  }

  template <typename Holds>
  std::int64_t count_in(FrameRun run, Holds holds) const {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < run.count; ++i) count += holds(FrameId(run.first.value + i));
    return count;
  }
  bool in_cached(FrameId frame) const {
    return std::find(cached_.begin(), cached_.end(), frame) != cached_.end();
  }
  std::int64_t unusable(FrameRun run) const {
    return count_in(run, [&](FrameId f) { return gone_.contains(f) || retiring_.contains(f); });
  }
  // Fewest in use, fewest cached, highest: smaller is better.
  std::vector<std::int64_t> rank(FrameRun run) const {
    const std::int64_t cached = count_in(run, [&](FrameId f) { return in_cached(f); });
    const std::int64_t free = count_in(run, [&](FrameId f) { return free_.contains(f); });
    return {run_ - cached - free, cached, -run.first.value};
  }

  void retire_run() { retire_frames(any_run()); }

  void retire_best_run() {
    std::optional<FrameRun> best;
    for (std::int64_t r = 0; r < frames_max_ / run_; ++r) {
      const FrameRun run{FrameId(r * run_), run_};
      if (unusable(run) == 0 && (!best || rank(run) < rank(*best))) best = run;
    }
    const std::vector<FrameRun> chosen = cache_.runs_to_retire(run_, 1);
    ASSERT_EQ(chosen.size(), best ? 1u : 0u);
    if (!best) return;
    ASSERT_EQ(chosen[0].first, best->first);
    ASSERT_EQ(chosen[0].count, run_);
    retire_frames(*best);
  }

  void retire_frames(FrameRun run) {
    if (unusable(run) > 0) return;
    cache_.retire_frames(run);
    for (std::int64_t i = 0; i < run.count; ++i) {
      const FrameId frame(run.first.value + i);
      const bool cached = std::erase(cached_, frame) > 0;
      evicted_with_run += cached ? 1 : 0;
      if (cached || free_.erase(frame) > 0) {
        leave(frame);
      } else {
        retiring_.insert(frame);
        ++retired_in_use;
      }
    }
  }

  void add_run() {
    const FrameRun run = any_run();
    if (unusable(run) < run.count) return;
    cache_.add_frames(run);
    for (std::int64_t i = 0; i < run.count; ++i) {
      const FrameId frame(run.first.value + i);
      if (gone_.erase(frame) > 0) free_.insert(frame);
      taken_back += static_cast<std::int64_t>(retiring_.erase(frame));
    }
  }

  void settle(FrameId frame) {
    if (retiring_.erase(frame) > 0) {
      leave(frame);
    } else if (is_indexed(frame)) {
      cached_.push_back(frame);
    } else {
      free_.insert(frame);
    }
  }

  void release() {
    const auto id = any_sequence();
    if (!id) return;
    StepId last_user = sequences_[*id].last_user;
    if (last_user <= done_ && random_.chance(0.5)) last_user = StepId();
    if (!in_flight_.empty() && random_.chance(0.2)) last_user = in_flight_.rbegin()->first;
    const auto table = sequences_[*id].table;
    sequences_.erase(*id);
    cache_.release(*id, last_user);
    for (auto frame = table.rbegin(); frame != table.rend(); ++frame) abandon(*frame, last_user);
  }

  // The oldest step ends; sometimes several at once.
  void step_done() {
    if (in_flight_.empty()) return;
    const auto last = random_.chance(0.2) ? std::prev(in_flight_.end()) : in_flight_.begin();
    const StepId step = last->first;
    cache_.step_done(step);
    end_steps(step);
  }

  void step_failed() {
    if (in_flight_.empty()) return;
    const auto last = random_.chance(0.2) ? std::prev(in_flight_.end()) : in_flight_.begin();
    const StepId step = last->first;
    cache_.step_failed(step);
    failed_.insert(step);
    for (auto& [id, sequence] : sequences_) {
      auto& written = sequence.written_by;
      written.erase(std::find(written.begin(), written.end(), step), written.end());
    }
    ++failures;
    end_steps(step);
  }

  void end_steps(StepId step) {
    done_ = step;
    while (!fills_.empty() && fills_.begin()->first <= step) {
      insert_filled(fills_.begin()->second);
      fills_.erase(fills_.begin());
    }
    std::erase_if(in_flight_, [&](const auto& entry) { return entry.first <= step; });
    while (!quarantined_.empty() && quarantined_.front().until <= step) {
      settle(quarantined_.front().frame);
      quarantined_.erase(quarantined_.begin());
    }
  }

  Random random_;
  const std::int64_t frames_;  // at the start
  const std::int64_t frames_max_;
  const std::int64_t run_;  // frames that come and go together
  const std::int64_t vocabulary_;
  KvCache cache_;

  std::map<ModelId, std::int64_t> models_;  // tokens a block
  std::map<RequestId, NaiveSequence> sequences_;
  std::map<Prefix, FrameId> index_;
  std::set<FrameId> free_, gone_, retiring_;
  std::vector<FrameId> cached_;               // least recently used first
  std::vector<NaiveQuarantine> quarantined_;  // by the step that ends it, then as they came
  std::map<FrameId, StepId> asked_until_;
  std::multimap<StepId, NaiveFill> fills_;
  std::map<StepId, std::set<FrameId>> in_flight_;
  std::set<StepId> failed_;
  StepId done_;
  std::int64_t next_step_ = 0;
  std::int64_t next_request_ = 100;
};

TEST(KvCacheModel, RandomHistoriesAgreeWithTheNaiveModel) {
  constexpr std::uint64_t kHistories = rounds(500u);
  constexpr int kSteps = 250;
  std::int64_t shared = 0, evictions = 0, failures = 0, duplicates = 0;
  std::int64_t retired_in_use = 0, taken_back = 0, evicted_with_run = 0;
  for (std::uint64_t seed = 1; seed <= kHistories; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    History history(seed);
    for (int i = 0; i < kSteps; ++i) {
      history.step();
      history.check();
      if (::testing::Test::HasFailure()) return;
    }
    shared += history.shared_blocks;
    evictions += history.evictions;
    failures += history.failures;
    duplicates += history.duplicates;
    retired_in_use += history.retired_in_use;
    taken_back += history.taken_back;
    evicted_with_run += history.evicted_with_run;
  }
  // The histories reach the cases that they are meant to test.
  EXPECT_GT(shared, rounds(1'000));
  EXPECT_GT(evictions, rounds(1'000));
  EXPECT_GT(failures, rounds(1'000));
  EXPECT_GT(duplicates, rounds(1'000));
  EXPECT_GT(retired_in_use, rounds(1'000));
  EXPECT_GT(taken_back, rounds(100));
  EXPECT_GT(evicted_with_run, rounds(500));
}

}  // namespace
}  // namespace causeway::kv::kv_cache_model_test
