// A naive model of a KvCache's two tiers, for the random histories of kv_rotation_model_test.cc:
// the frames and twins, what is indexed, what each sequence holds, and the order of eviction.
// Blocks are identified by whole token prefixes instead of hashes, and all look-ups are searches.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kv/kv_cache.h"

namespace causeway::kv {

// A block's identity: its model and every token up to its end, and without prefix caching its
// sequence as well. A tail's identity reaches up to its last token.
struct Prefix {
  ModelId model;
  std::int64_t owner = 0;
  std::vector<TokenId> tokens;
  auto operator<=>(const Prefix&) const = default;
};

struct NaiveSequence {
  ModelId model;
  std::int64_t opening = 0;
  std::vector<TokenId> tokens;     // committed
  std::vector<StepId> written_by;  // of each
  std::vector<FrameId> table;
  std::vector<std::int64_t> twins;  // while rotated out
  StepId last_user;
  std::int64_t newest_copy_in = -1;
  bool out = false;
};

struct NaiveTwin {
  std::optional<Prefix> block;  // none: a tail's, or void
  bool valid = false;
  bool in_use = false;
  std::int64_t holds = 0;
  std::int64_t let_go = 0;
  TwinId actual = {};  // known when its copy was taken
};

struct NaiveCopy {
  KvCopy::Direction direction;
  KvCopy::Reason reason;
  FrameId frame;
  std::int64_t twin = 0;
  std::optional<Prefix> block;  // of a full block
  Prefix content;               // what it must find
  StepId after = {};
  bool taken = false, given_up = false;
  std::set<std::int64_t> waiters = {};  // openings
};

// What a step does for one sequence.
struct NaiveRow {
  std::int64_t opening = 0;
  Prefix all;  // the tokens up to its end
  std::int64_t from = 0;
  std::vector<StepId> depends_on;
  std::vector<FrameId> table;
};

struct NaiveFill {
  FrameId frame;
  Prefix block;
  std::int64_t opening = 0;
  std::vector<StepId> depends_on;
};

struct NaiveCandidate {
  FrameId frame;
  Prefix block;
  std::int64_t ordinal = 0;
};

// The facts that the model must be told: the sequences' tables, the copies (copies_), the steps in
// flight. Each of its functions follows one change, as the cache must.
class NaiveTiers {
 public:
  // How often the histories reached the cases that they are meant to test.
  std::map<std::string, std::int64_t> reached;

 protected:
  NaiveTiers(std::int64_t frames, std::int64_t twins, bool keep)
      : frames_(frames), twins_(twins), keep_(keep) {
    for (std::int64_t f = 0; f < frames; ++f) free_.insert(FrameId(f));
  }

  std::int64_t block_of(const NaiveSequence& sequence) const { return models_.at(sequence.model); }
  std::int64_t blocks_of(const NaiveSequence& sequence) const {
    const std::int64_t block = block_of(sequence);
    return (std::ssize(sequence.tokens) + block - 1) / block;
  }
  // The block with this index, up to its last token.
  Prefix block_at(const NaiveSequence& sequence, std::int64_t index) const {
    const auto end =
        std::min<std::int64_t>((index + 1) * block_of(sequence), std::ssize(sequence.tokens));
    return {sequence.model,
            keep_ ? 0 : sequence.opening + 1,
            {sequence.tokens.begin(), sequence.tokens.begin() + end}};
  }
  bool is_full(const NaiveSequence& sequence, std::int64_t index) const {
    return (index + 1) * block_of(sequence) <= std::ssize(sequence.tokens);
  }
  std::int64_t tables_with(FrameId frame) const {
    std::int64_t count = 0;
    for (const auto& [id, sequence] : sequences_) {
      count += std::count(sequence.table.begin(), sequence.table.end(), frame);
    }
    return count;
  }
  bool copied(FrameId frame) const {
    return std::any_of(copies_.begin(), copies_.end(),
                       [&](const auto& copy) { return copy.second.frame == frame; });
  }
  std::int64_t stranded() const {
    std::set<FrameId> frames;
    for (const auto& [id, copy] : copies_) {
      const auto in_step = [&](const auto& q) { return q.first == copy.frame; };
      const bool quarantined = copied_.contains(copy.frame) ||
                               std::any_of(quarantined_.begin(), quarantined_.end(), in_step);
      if (copy.given_up && quarantined) frames.insert(copy.frame);
    }
    return std::ssize(frames);
  }
  bool is_cached(FrameId frame) const {
    return std::find(cached_.begin(), cached_.end(), frame) != cached_.end();
  }
  std::int64_t evictable() const {
    return std::count_if(cached_.begin(), cached_.end(), [&](FrameId f) { return !copied(f); });
  }
  std::int64_t available() const { return std::ssize(free_) + evictable(); }
  FrameId frame_with(const Prefix& block) const {
    const auto found = index_.find(block);
    return found == index_.end() || retiring_.contains(found->second) ? FrameId() : found->second;
  }
  bool in_use(const Prefix& block) const {
    const auto found = index_.find(block);
    return found != index_.end() && tables_with(found->second) > 0;
  }
  std::int64_t twin_with(const Prefix& block) const {
    const auto found = twin_index_.find(block);
    return found == twin_index_.end() ? -1 : found->second;
  }
  std::int64_t awaited_by(std::int64_t opening) const {
    std::int64_t count = 0;
    for (const auto& [id, copy] : copies_) count += copy.waiters.contains(opening) ? 1 : 0;
    return count;
  }
  SequencePlace place_of(const NaiveSequence& sequence) const {
    if (lost_.contains(sequence.opening)) return SequencePlace::kLost;
    const bool waits = awaited_by(sequence.opening) > 0;
    if (sequence.out) {
      const bool computed = sequence.last_user <= done_;
      return waits || !computed ? SequencePlace::kLeaving : SequencePlace::kHost;
    }
    return waits ? SequencePlace::kArriving : SequencePlace::kHbm;
  }
  TwinCounts twin_counts() const {
    TwinCounts counts{.free = twins_ - std::ssize(twin_),
                      .cached = std::ssize(twins_cached_),
                      .backing = std::ssize(twins_backing_)};
    for (const auto& [id, twin] : twin_) counts.held += twin.holds > 0 ? 1 : 0;
    return counts;
  }

  // The leading blocks of `tokens` that are in HBM, or also (bring) in host memory.
  std::vector<Prefix> matching(ModelId model, const std::vector<TokenId>& tokens,
                               bool bring) const {
    std::vector<Prefix> blocks;
    const std::int64_t block = models_.at(model);
    for (auto end = block; keep_ && end < std::ssize(tokens); end += block) {
      Prefix next{model, 0, {tokens.begin(), tokens.begin() + end}};
      const std::int64_t twin = twin_with(next);
      const bool on_host = bring && twin >= 0 && twin_.at(twin).valid;
      if (!frame_with(next).valid() && !on_host) break;
      blocks.push_back(std::move(next));
    }
    return blocks;
  }

  // ---- twins

  void relist(std::int64_t id) {
    std::erase(twins_cached_, id);
    std::erase(twins_backing_, id);
    NaiveTwin& twin = twin_.at(id);
    if (twin.holds > 0) return;
    if (!twin.valid || !twin.block || (!twin.in_use && !keep_)) return forget_twin(id);
    if (twin.in_use) return twins_backing_.push_back(id);
    const auto later = std::find_if(twins_cached_.begin(), twins_cached_.end(), [&](auto other) {
      return twin_.at(other).let_go > twin.let_go;
    });
    twins_cached_.insert(later, id);
  }
  void forget_twin(std::int64_t id) {
    std::erase(twins_cached_, id);
    std::erase(twins_backing_, id);
    unindex_twin(id);
    twin_.erase(id);
  }
  void unindex_twin(std::int64_t id) {
    NaiveTwin& twin = twin_.at(id);
    if (twin.block) twin_index_.erase(*twin.block);
    twin.block.reset();
  }
  void hold(std::int64_t id) {
    if (++twin_.at(id).holds == 1) relist(id);
  }
  void unhold(std::int64_t id) {
    if (--twin_.at(id).holds == 0) relist(id);
  }
  void use_twin(const Prefix& block) {
    const std::int64_t id = twin_with(block);
    if (id < 0 || twin_.at(id).in_use) return;
    twin_.at(id).in_use = true;
    if (twin_.at(id).holds == 0) relist(id);
  }
  void let_twin_go(const Prefix& block, std::int64_t when) {
    const std::int64_t id = twin_with(block);
    if (id < 0) return;
    NaiveTwin& twin = twin_.at(id);
    twin.in_use = false;
    twin.let_go = std::max(twin.let_go, when);
    if (twin.holds == 0) relist(id);
  }
  std::int64_t take_twin(const std::optional<Prefix>& block) {
    if (std::ssize(twin_) == twins_) {
      const bool backing = twins_cached_.empty();
      EXPECT_FALSE(backing && twins_backing_.empty());
      ++reached[backing ? "backing evicted" : "twins evicted"];
      forget_twin(backing ? twins_backing_.front() : twins_cached_.front());
    }
    const std::int64_t id = next_twin_++;
    twin_[id] = {.block = block, .in_use = block && in_use(*block), .holds = 1};
    if (block && index_.contains(*block)) twin_[id].let_go = let_go_[index_.at(*block)];
    if (block) twin_index_[*block] = id;
    return id;
  }

  // ---- frames

  void use(FrameId frame, const Prefix& block) {
    std::erase(cached_, frame);
    copied_.erase(frame);
    std::erase_if(quarantined_, [&](const auto& q) { return q.first == frame; });
    use_twin(block);
  }
  void take_frame(FrameId frame) {
    ASSERT_FALSE(copied(frame)) << "handed out while a copy uses it";
    for (const auto& [step, rows] : in_flight_) {
      for (const NaiveRow& row : rows) {
        ASSERT_EQ(std::count(row.table.begin(), row.table.end(), frame), 0)
            << "handed out while a step uses it";
      }
    }
    held_.erase(frame);
    if (!free_.empty()) {
      ASSERT_TRUE(free_.contains(frame)) << "took a frame that was not free";
      free_.erase(frame);
      return;
    }
    const auto oldest =
        std::find_if(cached_.begin(), cached_.end(), [&](FrameId f) { return !copied(f); });
    ASSERT_TRUE(oldest != cached_.end());
    ASSERT_EQ(frame, *oldest) << "evicted another than the least recently used";
    cached_.erase(oldest);
    unindex(frame);
  }
  void unindex(FrameId frame) {
    std::erase_if(index_, [&](const auto& entry) { return entry.second == frame; });
  }
  // Nothing refers to the frame: once nothing uses it either, it is cached or free.
  void let_go(FrameId frame) {
    const StepId until = asked_until_[frame];
    if (until > done_) {
      const auto later = std::find_if(quarantined_.begin(), quarantined_.end(),
                                      [&](const auto& q) { return q.second > until; });
      quarantined_.insert(later, {frame, until});
    } else if (copied(frame)) {
      copied_.insert(frame);
      ++reached["late frames"];
    } else {
      settle(frame);
    }
  }
  void settle(FrameId frame) {
    const bool indexed = std::any_of(index_.begin(), index_.end(),
                                     [&](const auto& entry) { return entry.second == frame; });
    if (retiring_.erase(frame) > 0) {
      unindex(frame);
      gone_.insert(frame);
    } else if (indexed && keep_) {
      cached_.push_back(frame);
    } else {
      unindex(frame);
      free_.insert(frame);
    }
  }
  void drop_table(NaiveSequence& sequence, StepId last_user) {
    while (!sequence.table.empty()) {
      const FrameId frame = sequence.table.back();
      sequence.table.pop_back();
      std::optional<Prefix> block;
      for (const auto& [of, holder] : index_) {
        if (holder == frame) block = of;
      }
      asked_until_[frame] = std::max(asked_until_[frame], last_user);
      for (const auto& [step, fill] : fills_) {
        if (fill.frame == frame && fill.opening == sequence.opening) {
          asked_until_[frame] = std::max(asked_until_[frame], step);
        }
      }
      if (tables_with(frame) > 0) continue;
      let_go_[frame] = ++clock_;
      let_go(frame);
      if (block) let_twin_go(*block, clock_);
    }
  }
  void insert_filled(FrameId frame, const Prefix& block) {
    if (!index_.emplace(block, frame).second) return;
    const std::int64_t ordinal = ordinals_[frame] = next_ordinal_++;
    if (twin_with(block) >= 0) {
      return tables_with(frame) > 0 ? use_twin(block) : let_twin_go(block, let_go_[frame]);
    }
    candidates_.push_back({frame, block, ordinal});
  }

  // ---- copies that are not taken

  // Drops the pending copy into this twin, if no other sequence waits for it.
  void drop_pending(std::int64_t opening, std::int64_t twin) {
    for (auto copy = copies_.begin(); copy != copies_.end(); ++copy) {
      if (copy->second.twin != twin || copy->second.taken ||
          copy->second.direction == KvCopy::Direction::kIn) {
        continue;
      }
      copy->second.waiters.erase(opening);
      if (copy->second.waiters.empty()) drop_copy_out(copy->first);
      return;
    }
  }
  void drop_copy_out(std::int64_t id) {
    const NaiveCopy copy = copies_.at(id);
    for (const std::int64_t opening : copy.waiters) lost_.insert(opening);
    copies_.erase(id);
    unindex_twin(copy.twin);
    end_copy_of(copy.frame);
    unhold(copy.twin);
    ++reached["dropped"];
  }
  void end_copy_of(FrameId frame) {
    if (!copied(frame) && copied_.erase(frame) > 0) settle(frame);
  }

  static bool holds(const std::optional<Prefix>& content, const Prefix& wanted) {
    return content && content->model == wanted.model && content->owner == wanted.owner &&
           content->tokens.size() >= wanted.tokens.size() &&
           std::equal(wanted.tokens.begin(), wanted.tokens.end(), content->tokens.begin());
  }

  const std::int64_t frames_;
  std::int64_t twins_;
  const bool keep_;  // prefix caching

  std::map<ModelId, std::int64_t> models_;  // tokens a block
  std::map<RequestId, NaiveSequence> sequences_;
  std::map<Prefix, FrameId> index_;
  std::map<FrameId, std::int64_t> ordinals_;
  std::set<FrameId> free_, gone_, retiring_;
  std::vector<FrameId> cached_;                          // least recently used first
  std::vector<std::pair<FrameId, StepId>> quarantined_;  // by the step that ends it
  std::set<FrameId> copied_;                             // quarantined until a copy has ended
  std::map<FrameId, StepId> asked_until_;
  std::map<FrameId, std::int64_t> let_go_;  // in which order blocks were let go
  std::int64_t clock_ = 0;
  std::vector<NaiveCandidate> candidates_;

  std::map<std::int64_t, NaiveTwin> twin_;  // those that are not free
  std::map<Prefix, std::int64_t> twin_index_;
  std::vector<std::int64_t> twins_cached_, twins_backing_;
  std::map<std::int64_t, NaiveCopy> copies_;

  std::map<FrameId, std::optional<Prefix>> held_;    // the contents of frames
  std::map<TwinId, std::optional<Prefix>> on_host_;  // the contents of twins

  std::multimap<StepId, NaiveFill> fills_;
  std::map<StepId, std::vector<NaiveRow>> in_flight_;
  std::set<std::int64_t> lost_;  // openings that can only be released
  StepId done_;
  std::int64_t next_twin_ = 0, next_ordinal_ = 0;
};

}  // namespace causeway::kv
