#include "weights/expert_cache.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace causeway::weights {

namespace {

// MoE-Infinity's: an expert that the sequence has not chosen still counts for something.
constexpr double kLittle = 1e-3;
// Sequences whose choices kMap remembers: 25 MB of Qwen3-30B-A3B's.
constexpr std::int64_t kMaps = 512;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace

ExpertCache::ExpertCache(const ExpertCacheOptions& options)
    : options_(options), maps_(options.layers, options.experts, kMaps) {
  CAUSEWAY_CHECK(options.policy != ExpertPolicy::kWhole && options.slots > 0 &&
                     options.slots <= options.layers * options.experts && options.loads_max > 0,
                 "slots for experts");
  const std::size_t all = at(options.layers * options.experts);
  placed_.assign(all, kNone);
  coming_.assign(all, 0);
  scores_.assign(all, 0);
  of_sequence_.assign(all, 0);
  slots_.resize(at(options.slots));
  forget();
}

void ExpertCache::forget() {
  CAUSEWAY_CHECK(quiet() && in_flight_.empty(), "slots are lost while they are in use");
  std::fill(placed_.begin(), placed_.end(), kNone);
  for (Slot& slot : slots_) slot = {};
  empty_ = std::ssize(slots_);
  rank_wanted(slots_.size());
}

std::span<const std::int32_t> ExpertCache::step_begins() {
  ++begun_;
  return in_flight_.emplace_back(placed_);
}

void ExpertCache::step_ended(std::span<const std::uint32_t> chosen) {
  CAUSEWAY_CHECK(!in_flight_.empty(), "no step is in flight");
  const std::vector<std::int32_t> placed = std::move(in_flight_.front());
  in_flight_.pop_front();
  ++ended_;
  if (chosen.empty()) return;
  CAUSEWAY_CHECK(chosen.size() == placed_.size(), "counts of another model");
  rearrange(take_counts(chosen, placed));
}

// Returns the misses.
std::int64_t ExpertCache::take_counts(std::span<const std::uint32_t> chosen,
                                      const std::vector<std::int32_t>& placed) {
  std::int64_t hits = 0, misses = 0;
  for (std::size_t e = 0; e < chosen.size(); ++e) {
    if (chosen[e] == 0) continue;
    (placed[e] == kNone ? misses : hits) += 1;
  }
  counters_.hits += hits;
  counters_.misses += misses;
  switch (options_.policy) {
    case ExpertPolicy::kWhole: break;
    case ExpertPolicy::kFrequency: score_frequency(chosen); break;
    case ExpertPolicy::kLru: score_lru(chosen); break;
    case ExpertPolicy::kActivation: score_activation(chosen); break;
    case ExpertPolicy::kMap: score_map(chosen); break;
  }
  return misses;
}

// What is remembered fades with choices, not with time: it says which experts are chosen, not how
// much the model is asked.
void ExpertCache::score_frequency(std::span<const std::uint32_t> chosen) {
  const double choices = std::accumulate(chosen.begin(), chosen.end(), 0.0);
  const double each = choices / static_cast<double>(chosen.size());
  const double kept = std::exp(-each / options_.memory);
  for (std::size_t e = 0; e < chosen.size(); ++e) scores_[e] = scores_[e] * kept + chosen[e];
}

void ExpertCache::score_lru(std::span<const std::uint32_t> chosen) {
  for (std::size_t e = 0; e < chosen.size(); ++e) {
    if (chosen[e] > 0) scores_[e] = static_cast<double>(ended_);
  }
}

void ExpertCache::score_activation(std::span<const std::uint32_t> chosen) {
  for (std::int64_t layer = 0; layer < options_.layers; ++layer) {
    const std::size_t first = at(layer * options_.experts), end = first + at(options_.experts);
    double all = 0;
    for (std::size_t e = first; e < end; ++e) all += of_sequence_[e] += chosen[e];
    for (std::size_t e = first; e < end; ++e) {
      scores_[e] = (of_sequence_[e] / std::max(all, 1.0) + kLittle) * near(e);
    }
  }
}

void ExpertCache::score_map(std::span<const std::uint32_t> chosen) {
  maps_.learn(chosen);
  for (std::size_t e = 0; e < chosen.size(); ++e) {
    scores_[e] = (maps_.expected()[e] + kLittle) * near(e);
  }
}

double ExpertCache::near(std::size_t expert) const {
  const auto layer = static_cast<std::int64_t>(expert) / options_.experts;
  return 1 - static_cast<double>(layer) / static_cast<double>(options_.layers);
}

void ExpertCache::sequence_begins() {
  std::fill(of_sequence_.begin(), of_sequence_.end(), 0);
  maps_.sequence_begins();
}

bool ExpertCache::takes_over(std::int32_t expert, std::int32_t from) const {
  const double ahead = score(expert) - score(from);
  if (options_.policy != ExpertPolicy::kFrequency) return ahead > 0;
  return ahead >= options_.deviations * std::sqrt(score(expert) + score(from)) + options_.more;
}

// The best of those at home. Among equals one of each layer in turn, so that no layer has all.
void ExpertCache::rank_wanted(std::size_t count) {
  const auto turn = [&](std::int32_t e) {
    return e % options_.experts * options_.layers + e / options_.experts;
  };
  std::vector<std::int32_t> home;
  for (std::int32_t e = 0; e < std::ssize(placed_); ++e) {
    if (at_home(e)) home.push_back(e);
  }
  count = std::min(count, home.size());
  std::partial_sort(home.begin(), home.begin() + static_cast<std::ptrdiff_t>(count), home.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      return score(a) != score(b) ? score(a) > score(b) : turn(a) < turn(b);
                    });
  wanted_.assign(home.begin(), home.begin() + static_cast<std::ptrdiff_t>(count));
}

// Those in slots that are chosen least, the lowest first.
std::vector<std::int32_t> ExpertCache::lowest(std::size_t count) const {
  std::vector<std::int32_t> cached;
  for (std::int32_t e = 0; e < std::ssize(placed_); ++e) {
    if (placed_[at(e)] != kNone) cached.push_back(e);
  }
  count = std::min(count, cached.size());
  std::partial_sort(cached.begin(), cached.begin() + static_cast<std::ptrdiff_t>(count),
                    cached.end(), [&](std::int32_t a, std::int32_t b) {
                      return score(a) != score(b) ? score(a) < score(b) : a > b;
                    });
  cached.resize(count);
  return cached;
}

// At most as many are loaded as were missed: of those that have the better claim to a slot. An
// expert that gives way is at home from then on, so those that would long wait for a copy stay.
void ExpertCache::rearrange(std::int64_t loads) {
  // Those whose slots are empty still wait for what was wanted before.
  const std::int64_t give_way =
      std::max<std::int64_t>(0, std::min<std::int64_t>(loads, options_.empty_max) - empty_);
  rank_wanted(at(empty_ + give_way));
  const std::vector<std::int32_t> victims = lowest(at(give_way));
  for (std::size_t i = 0; i < victims.size() && at(empty_) < wanted_.size(); ++i) {
    if (!takes_over(wanted_[at(empty_)], victims[i])) break;
    std::int32_t& placed = placed_[at(victims[i])];
    slots_[at(placed)] = {.untouched_until = begun_};
    placed = kNone;
    ++empty_;
  }
}

std::optional<ExpertCache::Load> ExpertCache::next() const {
  if (empty_ == 0 || wanted_.empty() || loading_ >= options_.loads_max) return std::nullopt;
  const auto found =
      std::find_if(slots_.begin(), slots_.end(), [&](const Slot& slot) { return free(slot); });
  if (found == slots_.end()) return std::nullopt;
  return Load{wanted_.front(), static_cast<std::int32_t>(found - slots_.begin())};
}

void ExpertCache::issue() {
  const auto load = next();
  CAUSEWAY_CHECK(load, "there is nothing to load");
  wanted_.pop_front();
  slots_[at(load->slot)].expert = load->expert;
  slots_[at(load->slot)].loading = true;
  coming_[at(load->expert)] = 1;
  --empty_;
  ++loading_;
  ++counters_.loads;
}

void ExpertCache::ended(std::int32_t slot, bool ok) {
  Slot& loaded = slots_.at(at(slot));
  CAUSEWAY_CHECK(loaded.loading, "a load that was not begun has ended");
  coming_[at(loaded.expert)] = 0;
  --loading_;
  if (ok) {
    placed_[at(loaded.expert)] = slot;
    loaded.loading = false;
    return;
  }
  loaded = {};
  ++empty_;
}

std::string ExpertCache::check() const {
  std::int64_t empty = 0, loading = 0, occupied = 0;
  for (std::size_t s = 0; s < slots_.size(); ++s) {
    const Slot& slot = slots_[s];
    empty += slot.expert == kNone ? 1 : 0;
    loading += slot.loading ? 1 : 0;
    if (slot.expert == kNone || slot.loading) continue;
    ++occupied;
    if (placed_[at(slot.expert)] != static_cast<std::int32_t>(s)) return "an expert lies elsewhere";
  }
  const auto placed = std::count_if(placed_.begin(), placed_.end(),
                                    [](std::int32_t slot) { return slot != kNone; });
  if (placed != occupied) return "an expert without its slot";
  if (empty != empty_) return "empty slots";
  if (loading != loading_) return "loads under way";
  return {};
}

}  // namespace causeway::weights
