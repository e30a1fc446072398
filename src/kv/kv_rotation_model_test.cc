// Random histories of a KvCache with host twins against a naive model of it, which knows what every
// frame and every twin holds, token by token: each step that ends is asked whether it read what it
// should have, each copy whether its source stayed as it was. Copies end late, out of order, failed
// or given up. The model also predicts which copies are issued, and the order of eviction from both
// tiers. (kv_cache_model_test.cc is the same without twins.)
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/random.h"
#include "base/testing/rounds.h"
#include "kv/kv_cache.h"
#include "kv/testing/naive_tiers.h"

namespace causeway::kv::kv_rotation_model_test {
namespace {

class RotationHistory : public NaiveTiers {
 public:
  explicit RotationHistory(std::uint64_t seed) : RotationHistory(seed, Random(seed)) {}

  void step() {
    switch (random_.below(22)) {
      case 0: return add_or_remove_model();
      case 1:
      case 2: return open();
      case 3: return release(any_sequence());
      case 4:
      case 5:
      case 6: return rotate_out();
      case 7:
      case 8:
      case 9: return rotate_in();
      case 10:
      case 11: return take_copies();
      case 12:
      case 13:
      case 14: return end_any_copy();
      case 15: return random_.chance(0.7) ? end_steps(false) : end_steps(true);
      case 16: return end_steps(false);
      case 17: return random_.chance(0.3) ? retire() : add();
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
      ASSERT_EQ(cache_.place(id), place_of(sequence));
      check_costs(id, sequence);
    }
    const FrameCounts counts = cache_.counts();
    ASSERT_EQ(counts.free, std::ssize(free_));
    ASSERT_EQ(counts.cached, std::ssize(cached_));
    ASSERT_EQ(counts.copying, std::ssize(cached_) - evictable());
    ASSERT_EQ(counts.quarantined, std::ssize(quarantined_) + std::ssize(copied_));
    ASSERT_EQ(counts.stranded, stranded());
    ASSERT_EQ(counts.referenced, std::ssize(referenced));
    ASSERT_EQ(counts.gone, std::ssize(gone_));
    ASSERT_EQ(counts.retiring, std::ssize(retiring_));
    ASSERT_EQ(cache_.twin_counts(), twin_counts());
    if (!models_.empty()) check_tiers();
  }

 private:
  RotationHistory(std::uint64_t seed, Random random)
      : NaiveTiers{random.between(2, 16), random.between(1, 24), random.chance(0.85)},
        random_(random),
        vocabulary_(random_.between(1, 3)),
        cache_({.frames = frames_, .prefix_caching = keep_, .hash_seed = seed, .twins = twins_}) {}

  // ---- what is there

  ModelId any_model() {
    auto model = models_.begin();
    std::advance(model, random_.below(std::ssize(models_)));
    return model->first;
  }
  template <typename Wanted>
  std::optional<RequestId> any_sequence(Wanted wanted) {
    std::vector<RequestId> ids;
    for (const auto& [id, sequence] : sequences_) {
      if (wanted(sequence)) ids.push_back(id);
    }
    if (ids.empty()) return std::nullopt;
    return ids[static_cast<std::size_t>(random_.below(std::ssize(ids)))];
  }
  std::optional<RequestId> any_sequence() {
    return any_sequence([](const NaiveSequence&) { return true; });
  }
  std::vector<TokenId> random_tokens(std::int64_t count) {
    std::vector<TokenId> tokens;
    for (std::int64_t i = 0; i < count; ++i) {
      tokens.push_back(static_cast<TokenId>(random_.below(vocabulary_)));
    }
    return tokens;
  }
  void check_costs(RequestId id, const NaiveSequence& sequence) const {
    if (sequence.out) {
      std::int64_t copies = 0, frames = 0;
      for (std::int64_t i = 0; i < std::ssize(sequence.twins); ++i) {
        const FrameId frame = is_full(sequence, i) ? frame_with(block_at(sequence, i)) : FrameId();
        copies += frame.valid() ? 0 : 1;
        frames += !frame.valid() || (is_cached(frame) && !copied(frame)) ? 1 : 0;
      }
      const RotateInCost cost = cache_.rotate_in_cost(id);
      ASSERT_EQ(cost.copies, copies);
      ASSERT_EQ(cost.frames, frames);
      return;
    }
    RotateOutCost expected;
    for (std::int64_t i = 0; i < std::ssize(sequence.table); ++i) {
      const FrameId frame = sequence.table[static_cast<std::size_t>(i)];
      const std::int64_t twin =
          is_full(sequence, i) ? twin_with(block_at(sequence, i)) : std::int64_t{-1};
      const bool copies = i < blocks_of(sequence) && twin < 0;
      expected.copies += copies;
      expected.twins += copies || (twin >= 0 && twin_.at(twin).holds == 0);
      if (tables_with(frame) > 1) continue;
      ++expected.frames;
      expected.frames_after_step += !copies && !copied(frame);
    }
    const RotateOutCost cost = cache_.rotate_out_cost(id);
    ASSERT_EQ(cost.copies, expected.copies);
    ASSERT_EQ(cost.twins, expected.twins);
    ASSERT_EQ(cost.frames, expected.frames);
    ASSERT_EQ(cost.frames_after_step, expected.frames_after_step);
  }

  void check_tiers() {
    const ModelId model = any_model();
    const auto tokens = random_tokens(random_.below(14));
    const auto blocks = matching(model, tokens, true);
    std::int64_t copies = 0, frames = 0;
    for (const Prefix& block : blocks) {
      const FrameId frame = frame_with(block);
      copies += frame.valid() ? 0 : 1;
      frames += !frame.valid() || (is_cached(frame) && !copied(frame)) ? 1 : 0;
    }
    const PrefixTiers tiers = cache_.prefix_tiers(model, tokens);
    ASSERT_EQ(tiers.in_hbm, cache_.match_prefix(model, tokens));
    ASSERT_EQ(tiers.in_hbm.count, std::ssize(matching(model, tokens, false)) * models_[model]);
    ASSERT_EQ(tiers.in_all.count, std::ssize(blocks) * models_[model]);
    ASSERT_EQ(tiers.copies, copies);
    ASSERT_EQ(tiers.frames, frames);
  }

  // ---- operations

  void add_or_remove_model() {
    const ModelId model(random_.below(2));
    if (!models_.contains(model)) {
      models_[model] = random_.between(1, 4);
      cache_.add_model(model, Tokens(models_[model]));
      return;
    }
    if (any_sequence([&](const NaiveSequence& s) { return s.model == model; })) return;
    if (random_.chance(0.7)) return;
    cache_.remove_model(model);
    std::erase_if(fills_, [&](const auto& fill) { return fill.second.block.model == model; });
    for (auto frame = FrameId(0); frame.value < frames_; ++frame.value) {
      const auto held = std::find_if(index_.begin(), index_.end(), [&](const auto& entry) {
        return entry.second == frame && entry.first.model == model;
      });
      if (held == index_.end()) continue;
      index_.erase(held);
      if (std::erase(cached_, frame) > 0) let_go(frame);
    }
    for (auto& [id, copy] : copies_) {
      if (copy.block && copy.block->model == model) copy.block.reset();
    }
    std::vector<std::int64_t> old;
    for (const auto& [id, twin] : twin_) {
      if (twin.block && twin.block->model == model) old.push_back(id);
    }
    for (const std::int64_t id : old) {
      unindex_twin(id);
      if (twin_.at(id).holds == 0) forget_twin(id);
    }
    models_.erase(model);
  }

  void open() {
    if (models_.empty() || sequences_.size() >= 6) return;
    const RequestId id(random_.chance(0.5) ? next_request_++ : random_.below(6));
    if (sequences_.contains(id)) return;
    NaiveSequence sequence;
    sequence.model = any_model();
    const auto tokens = random_tokens(random_.between(1, 16));
    bool bring = random_.chance(0.6);
    if (bring) bring = cache_.prefix_tiers(sequence.model, tokens).frames <= available();
    const auto blocks = matching(sequence.model, tokens, bring);
    sequence.opening = next_opening_++;
    const Tokens hit = bring ? cache_.open_with_twins(id, sequence.model, tokens)
                             : cache_.open(id, sequence.model, tokens);
    ASSERT_EQ(hit.count, std::ssize(blocks) * models_[sequence.model]);
    sequence.tokens.assign(tokens.begin(), tokens.begin() + hit.count);
    sequence.written_by.assign(sequence.tokens.size(), StepId());
    reached["from host"] += bring_blocks(id, sequence, blocks, {}, KvCopy::Reason::kPrefix);
    sequences_[id] = sequence;
  }

  // Fills the sequence's table: blocks in HBM are used, the others are copied in. `twins`, by
  // block, belong to a sequence that comes back. Returns the number of copies.
  std::int64_t bring_blocks(RequestId id, NaiveSequence& sequence,
                            const std::vector<Prefix>& blocks,
                            const std::vector<std::int64_t>& twins, KvCopy::Reason reason) {
    const std::int64_t block = block_of(sequence);
    std::vector<FrameId> table(blocks.size());
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (std::ssize(blocks[i].tokens) % block != 0) continue;
      table[i] = frame_with(blocks[i]);
      if (table[i].valid()) use(table[i], blocks[i]);
    }
    std::int64_t copies = 0;
    const auto actual = cache_.table(id);
    EXPECT_EQ(actual.size(), blocks.size());
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (table[i].valid()) {
        EXPECT_EQ(actual[i], table[i]);
        continue;
      }
      table[i] = actual[i];
      take_frame(actual[i]);
      const std::int64_t twin = twins.empty() ? twin_with(blocks[i]) : twins[i];
      hold(twin);
      const bool full = std::ssize(blocks[i].tokens) % block == 0;
      copies_[next_copy_++] = {.direction = KvCopy::Direction::kIn,
                               .reason = reason,
                               .frame = actual[i],
                               .twin = twin,
                               .block = full ? std::optional(blocks[i]) : std::nullopt,
                               .content = blocks[i],
                               .waiters = {sequence.opening}};
      sequence.newest_copy_in = next_copy_ - 1;
      ++copies;
    }
    sequence.table = table;
    return copies;
  }

  void release(std::optional<RequestId> id) {
    if (!id) return;
    NaiveSequence sequence = sequences_[*id];
    const StepId last_user = last_user_of(sequence);
    sequences_.erase(*id);
    cache_.release(*id, last_user);
    if (sequence.out) {
      for (auto twin = sequence.twins.rbegin(); twin != sequence.twins.rend(); ++twin) {
        drop_pending(sequence.opening, *twin);
        twin_.at(*twin).let_go = std::max(twin_.at(*twin).let_go, ++clock_);
        unhold(*twin);
      }
    } else {
      std::vector<std::int64_t> pending;
      for (const auto& [copy_id, copy] : copies_) {
        if (!copy.taken && copy.direction == KvCopy::Direction::kIn &&
            copy.waiters.contains(sequence.opening)) {
          pending.push_back(copy_id);
        }
      }
      for (const std::int64_t copy : pending) {
        const std::int64_t twin = copies_[copy].twin;
        copies_.erase(copy);
        unhold(twin);
        ++reached["dropped"];
      }
      drop_table(sequence, last_user);
    }
    lost_.erase(sequence.opening);
  }

  StepId last_user_of(const NaiveSequence& sequence) {
    StepId last_user = sequence.last_user;
    if (last_user <= done_ && random_.chance(0.5)) last_user = StepId();
    if (!in_flight_.empty() && random_.chance(0.2)) last_user = in_flight_.rbegin()->first;
    return last_user;
  }

  void rotate_out() {
    const auto id = any_sequence([](const NaiveSequence& s) { return !s.out; });
    if (!id) return;
    NaiveSequence& sequence = sequences_[*id];
    const StepId last_user = last_user_of(sequence);
    const bool possible = place_of(sequence) == SequencePlace::kHbm &&
                          cache_.rotate_out_cost(*id).twins <= twin_counts().available();
    ASSERT_EQ(cache_.rotate_out(*id, last_user), possible);
    if (!possible) {
      ++reached["refused out"];
      return;
    }
    ++reached["rotations out"];
    reached["out while in step"] += sequence.last_user > done_ ? 1 : 0;
    sequence.twins.assign(static_cast<std::size_t>(blocks_of(sequence)), -1);
    for (std::int64_t i = 0; i < std::ssize(sequence.twins); ++i) {
      const std::int64_t twin = is_full(sequence, i) ? twin_with(block_at(sequence, i)) : -1;
      if (twin < 0) continue;
      hold(twin);
      sequence.twins[static_cast<std::size_t>(i)] = twin;
      if (twin_.at(twin).valid) continue;
      for (auto& [copy_id, copy] : copies_) {
        if (copy.twin == twin) copy.waiters.insert(sequence.opening);
      }
    }
    for (std::int64_t i = 0; i < std::ssize(sequence.twins); ++i) {
      if (sequence.twins[static_cast<std::size_t>(i)] >= 0) continue;
      copy_out(sequence, i, last_user);
    }
    drop_table(sequence, last_user);
    sequence.last_user = std::max(sequence.last_user, last_user);
    sequence.out = true;
  }

  void copy_out(NaiveSequence& sequence, std::int64_t index, StepId last_user) {
    const Prefix content = block_at(sequence, index);
    const FrameId frame = sequence.table[static_cast<std::size_t>(index)];
    const bool full = is_full(sequence, index);
    const std::optional<Prefix> block = full ? std::optional(content) : std::nullopt;
    const std::int64_t twin = take_twin(block);
    hold(twin);
    sequence.twins[static_cast<std::size_t>(index)] = twin;
    reached["tails"] += full ? 0 : 1;
    // The last step that writes a token of the block; for a tail, the last that may write it at
    // all.
    StepId after = full ? StepId() : std::max(last_user, sequence.last_user);
    const std::int64_t begin = index * block_of(sequence);
    for (auto at = begin; at < std::ssize(content.tokens); ++at) {
      after = std::max(after, sequence.written_by[static_cast<std::size_t>(at)]);
    }
    copies_[next_copy_++] = {.direction = KvCopy::Direction::kOut,
                             .reason = KvCopy::Reason::kRotation,
                             .frame = frame,
                             .twin = twin,
                             .block = block,
                             .content = content,
                             .after = after,
                             .waiters = {sequence.opening}};
  }

  void rotate_in() {
    const auto id =
        any_sequence([&](const NaiveSequence& s) { return place_of(s) == SequencePlace::kHost; });
    if (!id) return;
    NaiveSequence& sequence = sequences_[*id];
    const bool possible = cache_.rotate_in_cost(*id).frames <= available();
    ASSERT_EQ(cache_.rotate_in(*id), possible);
    if (!possible) {
      ++reached["refused in"];
      return;
    }
    ++reached["rotations in"];
    std::vector<Prefix> blocks;
    for (std::int64_t i = 0; i < blocks_of(sequence); ++i) {
      blocks.push_back(block_at(sequence, i));
    }
    sequence.out = false;
    const std::vector<std::int64_t> twins = std::exchange(sequence.twins, {});
    reached["hits in"] +=
        std::ssize(blocks) - bring_blocks(*id, sequence, blocks, twins, KvCopy::Reason::kRotation);
    for (auto twin = twins.rbegin(); twin != twins.rend(); ++twin) unhold(*twin);
  }

  // ---- copies

  void take_copies() {
    const std::int64_t out_max = random_.below(5);
    std::vector<KvCopy> taken;
    cache_.take_copies(out_max, taken);
    std::vector<std::int64_t> expected;
    for (const auto direction : {KvCopy::Direction::kIn, KvCopy::Direction::kOut}) {
      for (const auto& [id, copy] : copies_) {
        if (!copy.taken && copy.direction == direction && copy.after <= done_) {
          expected.push_back(id);
        }
      }
    }
    auto out = std::count_if(expected.begin(), expected.end(), [&](std::int64_t id) {
      return copies_[id].direction == KvCopy::Direction::kOut;
    });
    for (; out < out_max; ++out) {
      const std::int64_t id = eager_copy();
      if (id < 0) break;
      expected.push_back(id);
    }
    ASSERT_EQ(taken.size(), expected.size());
    for (std::size_t i = 0; i < taken.size(); ++i) begin_copy(expected[i], taken[i]);
  }

  std::int64_t eager_copy() {
    while (!candidates_.empty()) {
      const NaiveCandidate next = candidates_.front();
      const auto held = index_.find(next.block);
      if (held != index_.end() && held->second == next.frame &&
          ordinals_[next.frame] == next.ordinal && twin_with(next.block) < 0) {
        break;
      }
      candidates_.erase(candidates_.begin());
    }
    if (candidates_.empty() || (std::ssize(twin_) == twins_ && twins_cached_.empty())) return -1;
    const NaiveCandidate next = candidates_.front();
    candidates_.erase(candidates_.begin());
    const std::int64_t twin = take_twin(next.block);
    copies_[next_copy_] = {.direction = KvCopy::Direction::kOut,
                           .reason = KvCopy::Reason::kEager,
                           .frame = next.frame,
                           .twin = twin,
                           .block = next.block,
                           .content = next.block};
    ++reached["eager"];
    return next_copy_++;
  }

  void begin_copy(std::int64_t id, const KvCopy& actual) {
    NaiveCopy& copy = copies_[id];
    copy.taken = true;
    ASSERT_EQ(actual.id, CopyId(id));
    ASSERT_EQ(actual.direction, copy.direction);
    ASSERT_EQ(actual.reason, copy.reason);
    ASSERT_EQ(actual.frame, copy.frame);
    NaiveTwin& twin = twin_.at(copy.twin);
    if (copy.direction == KvCopy::Direction::kIn) {
      ASSERT_EQ(actual.twin, twin.actual);
      ASSERT_TRUE(holds(on_host_[actual.twin], copy.content)) << "a twin of a changed block";
      held_.erase(copy.frame);
      return;
    }
    ASSERT_GE(actual.twin.value, 0);
    ASSERT_LT(actual.twin.value, twins_);
    for (const auto& [other_id, other] : twin_) {
      ASSERT_FALSE(other_id != copy.twin && other.actual == actual.twin) << "a twin in use";
    }
    twin.actual = actual.twin;
    on_host_.erase(actual.twin);
    ASSERT_TRUE(holds(held_[copy.frame], copy.content)) << "copied out before it was there";
    for (const auto& [step, rows] : in_flight_) {
      for (const NaiveRow& row : rows) {
        const auto block = static_cast<std::size_t>(models_of_rows_.at(row.opening));
        for (auto i = static_cast<std::size_t>(row.from) / block; i < row.table.size(); ++i) {
          ASSERT_NE(row.table[i], copy.frame) << "copied out while a step writes it";
        }
      }
    }
  }

  void end_any_copy() {
    std::vector<std::int64_t> taken;
    for (const auto& [id, copy] : copies_) {
      if (copy.taken) taken.push_back(id);
    }
    if (taken.empty()) return;
    const std::int64_t id = taken[static_cast<std::size_t>(random_.below(std::ssize(taken)))];
    if (random_.chance(0.05)) return give_up(id);
    end_copy(id, random_.chance(0.9));
  }

  // Marks as lost the sequences that wait for the copy, and those whose own copies become void with
  // it; the cache has named `named`.
  void lose_waiters(const NaiveCopy& copy, std::vector<RequestId> named) {
    const std::set<std::int64_t> before = lost_;
    for (const auto& [id, sequence] : sequences_) {
      if (copy.waiters.contains(sequence.opening)) lost_.insert(sequence.opening);
    }
    if (copy.direction == KvCopy::Direction::kIn) {
      void_.insert(copy.waiters.begin(), copy.waiters.end());
      drop_void_copies();
    }
    std::vector<RequestId> expected;
    for (const auto& [id, sequence] : sequences_) {
      const bool is_lost = lost_.contains(sequence.opening) && !before.contains(sequence.opening);
      if (is_lost) expected.push_back(id);
    }
    std::sort(named.begin(), named.end());
    ASSERT_EQ(named, expected);
    reached["lost"] += std::ssize(expected);
  }
  void release_lost() {
    while (const auto id =
               any_sequence([&](const NaiveSequence& s) { return lost_.contains(s.opening); })) {
      ASSERT_EQ(cache_.place(*id), SequencePlace::kLost);
      release(id);
    }
  }

  void give_up(std::int64_t id) {
    std::vector<RequestId> named;
    cache_.give_up_copy(CopyId(id), named);
    lose_waiters(copies_[id], named);
    NaiveCopy& copy = copies_[id];
    copy.given_up = true;
    reached["stranded"] += stranded() > 0 ? 1 : 0;
    if (copy.direction == KvCopy::Direction::kOut) unindex_twin(copy.twin);
    release_lost();
  }

  void end_copy(std::int64_t id, bool ok) {
    std::vector<RequestId> named;
    cache_.copy_ended(CopyId(id), ok, named);
    const NaiveCopy copy = copies_.at(id);
    if (ok || copy.given_up) {
      ASSERT_TRUE(named.empty());
    } else {
      lose_waiters(copy, named);
    }
    copies_.erase(id);
    NaiveTwin& twin = twin_.at(copy.twin);
    if (copy.direction == KvCopy::Direction::kOut) {
      // Whatever the frame holds now is the copy's result.
      ASSERT_TRUE(!ok || holds(held_[copy.frame], copy.content)) << "changed while it was copied";
      twin.valid = ok;
      if (ok) on_host_[twin.actual] = copy.content;
      if (!ok) unindex_twin(copy.twin);
    } else {
      ASSERT_TRUE(holds(on_host_[twin.actual], copy.content)) << "changed while it was copied";
      if (ok) held_[copy.frame] = copy.content;
      if (ok && copy.block && !copy.given_up) insert_filled(copy.frame, *copy.block);
    }
    end_copy_of(copy.frame);
    unhold(copy.twin);
    release_lost();
  }

  // ---- steps

  bool grow(RequestId id, std::int64_t count) {
    NaiveSequence& sequence = sequences_[id];
    const std::int64_t block = block_of(sequence);
    const std::int64_t total = std::ssize(sequence.tokens) + count;
    const std::int64_t wanted =
        std::max<std::int64_t>(0, (total + block - 1) / block - std::ssize(sequence.table));
    const bool possible = wanted <= available();
    EXPECT_EQ(cache_.grow(id, Tokens(total)), possible);
    if (!possible) return false;
    const auto table = cache_.table(id);
    for (std::size_t i = sequence.table.size(); i < table.size(); ++i) take_frame(table[i]);
    sequence.table.assign(table.begin(), table.end());
    return true;
  }

  void start_step() {
    const auto some = any_sequence([](const NaiveSequence& s) { return !s.out; });
    if (in_flight_.size() >= 3 || !some) return;
    const StepId step(next_step_++);
    const ModelId model = sequences_[*some].model;
    auto& rows = in_flight_[step];
    for (auto& [id, sequence] : sequences_) {
      if (sequence.model != model || sequence.out || random_.chance(0.4)) continue;
      const std::int64_t count = random_.between(1, 7);
      if (!grow(id, count)) continue;
      const std::int64_t before = std::ssize(sequence.tokens);
      for (const TokenId token : random_tokens(count)) sequence.tokens.push_back(token);
      sequence.written_by.resize(sequence.tokens.size(), step);
      sequence.last_user = step;
      cache_.commit(id, sequence.tokens, step);
      const Prefix all{sequence.model, keep_ ? 0 : sequence.opening + 1, sequence.tokens};
      rows.push_back({sequence.opening, all, before, sequence.written_by, sequence.table});
      models_of_rows_[sequence.opening] = block_of(sequence);
      for (std::int64_t i = before / block_of(sequence); is_full(sequence, i); ++i) {
        const auto end = (i + 1) * block_of(sequence);
        fills_.emplace(step,
                       NaiveFill{sequence.table[static_cast<std::size_t>(i)],
                                 block_at(sequence, i),
                                 sequence.opening,
                                 {sequence.written_by.begin(), sequence.written_by.begin() + end}});
      }
    }
    take_copies();
    for (const auto& [id, sequence] : sequences_) {
      const bool arrives = place_of(sequence) == SequencePlace::kArriving;
      ASSERT_EQ(cache_.arriving_until(id), CopyId(arrives ? sequence.newest_copy_in : -1));
    }
  }

  bool is_void(std::int64_t opening, const std::vector<StepId>& depends_on) const {
    return void_.contains(opening) ||
           std::any_of(depends_on.begin(), depends_on.end(),
                       [&](StepId step) { return failed_.contains(step); });
  }

  // The oldest step ends; sometimes several at once, of which the last may fail. What they waited
  // for has ended before.
  void end_steps(bool fails) {
    if (in_flight_.empty()) return;
    const auto last = random_.chance(0.2) ? std::prev(in_flight_.end()) : in_flight_.begin();
    const StepId step = last->first;
    end_what_steps_wait_for(step);
    if (fails) {
      cache_.step_failed(step);
    } else {
      cache_.step_done(step);
    }
    if (fails) {
      end_upto(StepId(step.value - 1));
      fail(step);
    }
    end_upto(step);
    std::vector<RequestId> named;
    cache_.take_lost(named);
    ASSERT_EQ(std::ssize(named), std::ssize(lost_));
    release_lost();
  }

  void end_upto(StepId step) {
    while (!in_flight_.empty() && in_flight_.begin()->first <= step) {
      for (const NaiveRow& row : in_flight_.begin()->second) execute(row);
      in_flight_.erase(in_flight_.begin());
    }
    done_ = std::max(done_, step);
    while (!fills_.empty() && fills_.begin()->first <= step) {
      const NaiveFill fill = fills_.begin()->second;
      fills_.erase(fills_.begin());
      if (!is_void(fill.opening, fill.depends_on)) insert_filled(fill.frame, fill.block);
    }
    while (!quarantined_.empty() && quarantined_.front().second <= step) {
      const FrameId frame = quarantined_.front().first;
      quarantined_.erase(quarantined_.begin());
      let_go(frame);
    }
  }

  void end_what_steps_wait_for(StepId step) {
    std::vector<std::int64_t> ending;
    for (const auto& [id, copy] : copies_) {
      if (copy.direction == KvCopy::Direction::kOut || !copy.taken || copy.given_up) continue;
      for (const auto& [at, rows] : in_flight_) {
        for (const NaiveRow& row : rows) {
          if (at <= step && copy.waiters.contains(row.opening)) ending.push_back(id);
        }
      }
    }
    for (const std::int64_t id : ending) {
      if (copies_.contains(id)) end_copy(id, random_.chance(0.95));
    }
  }

  // Called before the step has done anything: its sequences fall back, those that leave are lost.
  void fail(StepId step) {
    failed_.insert(step);
    for (auto& [id, sequence] : sequences_) {
      auto& written = sequence.written_by;
      const auto first = std::find(written.begin(), written.end(), step);
      if (first == written.end()) continue;
      written.erase(first, written.end());
      const auto valid = std::ssize(written);
      if (sequence.out) lose_blocks(sequence, valid / block_of(sequence));
      sequence.tokens.resize(written.size());
    }
    drop_void_copies();
  }
  // Drops pending copies out of blocks that steps in flight fill in vain, whatever waits for them.
  void drop_void_copies() {
    for (const auto& [step, fill] : fills_) {
      if (!is_void(fill.opening, fill.depends_on)) continue;
      const auto copy = std::find_if(copies_.begin(), copies_.end(), [&](const auto& one) {
        return one.second.direction == KvCopy::Direction::kOut && !one.second.taken &&
               one.second.frame == fill.frame && one.second.block == fill.block;
      });
      if (copy == copies_.end()) continue;
      ++reached["dropped in vain"];
      drop_copy_out(copy->first);
    }
  }
  void lose_blocks(const NaiveSequence& sequence, std::int64_t first) {
    lost_.insert(sequence.opening);
    ++reached["lost by steps"];
    for (std::int64_t i = first; i < std::ssize(sequence.twins); ++i) {
      for (const auto& [id, copy] : copies_) {
        const bool out = copy.direction == KvCopy::Direction::kOut && !copy.taken;
        if (!out || copy.twin != sequence.twins[static_cast<std::size_t>(i)]) continue;
        drop_copy_out(id);
        break;
      }
    }
  }

  // The row reads the KV before its tokens, then writes that of its tokens.
  void execute(const NaiveRow& row) {
    const auto block = models_of_rows_.at(row.opening);
    const bool nothing = is_void(row.opening, row.depends_on);
    for (std::int64_t i = 0; i < std::ssize(row.table); ++i) {
      const FrameId frame = row.table[static_cast<std::size_t>(i)];
      const auto upto = [&](std::int64_t end) {
        return Prefix{
            row.all.model,
            row.all.owner,
            {row.all.tokens.begin(), row.all.tokens.begin() + std::min(end, (i + 1) * block)}};
      };
      if (i * block < row.from && !nothing) {
        ASSERT_TRUE(holds(held_[frame], upto(row.from))) << "a step read what was not there";
      }
      if ((i + 1) * block <= row.from || i * block >= std::ssize(row.all.tokens)) continue;
      if (!nothing) {
        held_[frame] = upto(std::ssize(row.all.tokens));
      } else if (i * block >= row.from) {
        held_.erase(frame);
      }
    }
  }

  // ---- frames that come and go

  void retire() {
    const FrameId frame(random_.below(frames_));
    if (gone_.contains(frame) || retiring_.contains(frame)) return;
    cache_.retire_frames({frame, 1});
    if (free_.erase(frame) > 0) {
      gone_.insert(frame);
    } else if (is_cached(frame) && !copied(frame)) {
      std::erase(cached_, frame);
      unindex(frame);
      gone_.insert(frame);
    } else {
      if (std::erase(cached_, frame) > 0) copied_.insert(frame);
      retiring_.insert(frame);
    }
  }
  void add() {
    if (twins_ < 24) {
      cache_.add_twins(1);
      ++twins_;
    }
    for (FrameId frame(0); frame.value < frames_; ++frame.value) {
      const bool gone = gone_.erase(frame) > 0;
      if (!gone && retiring_.erase(frame) == 0) continue;
      cache_.add_frames({frame, 1});
      if (gone) free_.insert(frame);
    }
  }

  Random random_;
  const std::int64_t vocabulary_;
  KvCache cache_;

  std::map<std::int64_t, std::int64_t> models_of_rows_;  // tokens a block, by opening
  std::set<StepId> failed_;
  std::set<std::int64_t> void_;  // openings whose steps in flight compute nothing
  std::int64_t next_step_ = 0, next_request_ = 100, next_opening_ = 0;
  std::int64_t next_copy_ = 0;
};

// A failed CHECK aborts, so the history is named before.
volatile std::sig_atomic_t seed_running = 0;
void report_seed(int) {
  std::fprintf(stderr, "reproduce: kv_test --gtest_filter='KvRotationModel.*' %s%d, history %d\n",
               "--gtest_random_seed=", static_cast<int>(GTEST_FLAG_GET(random_seed)),
               static_cast<int>(seed_running));
}

// The cases that the histories must reach, and how often at least.
const std::map<std::string, std::int64_t> kReached = {
    {"rotations out", 5'000}, {"rotations in", 2'000},
    {"refused out", 500},     {"refused in", 100},
    {"eager", 2'000},         {"lost", 300},
    {"lost by steps", 50},    {"from host", 100},
    {"twins evicted", 200},   {"backing evicted", 40},
    {"late frames", 500},     {"tails", 1'000},
    {"dropped", 200},         {"out while in step", 1'000},
    {"hits in", 500},         {"stranded", 200}};

TEST(KvRotationModel, RandomHistoriesAgreeWithTheNaiveModel) {
  constexpr std::uint64_t kHistories = rounds(600u);
  constexpr int kSteps = 300;
  std::signal(SIGABRT, report_seed);
  std::map<std::string, std::int64_t> reached;
  // --gtest_random_seed=N tests others.
  const auto begin = static_cast<std::uint64_t>(GTEST_FLAG_GET(random_seed)) * kHistories;
  for (std::uint64_t seed = begin + 1; seed <= begin + kHistories; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    seed_running = static_cast<int>(seed);
    RotationHistory history(seed);
    for (int i = 0; i < kSteps; ++i) {
      history.step();
      if (!::testing::Test::HasFailure()) history.check();
      if (!::testing::Test::HasFailure()) continue;
      report_seed(0);
      std::signal(SIGABRT, SIG_DFL);
      return;
    }
    for (const auto& [what, times] : history.reached) reached[what] += times;
  }
  std::signal(SIGABRT, SIG_DFL);
  for (const auto& [what, times] : kReached) {
    EXPECT_GT(reached[what], kSanitized ? times / 10 : times) << what;
  }
}

}  // namespace
}  // namespace causeway::kv::kv_rotation_model_test
