#include "weights/expert_cache.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/random.h"
#include "base/testing/must.h"
#include "base/testing/rounds.h"

namespace causeway::weights::expert_cache_test {
namespace {

using Counts = std::vector<std::uint32_t>;

TEST(ExpertCacheTest, EmptySlotsFillWithExpertsOfEveryLayer) {
  ExpertCache cache({.layers = 3, .experts = 4, .slots = 5, .loads_max = 2});
  std::set<std::int32_t> loaded;
  while (auto load = cache.next()) {
    loaded.insert(load->expert);
    cache.issue();
    cache.ended(load->slot, true);
  }
  EXPECT_EQ(loaded, (std::set<std::int32_t>{0, 4, 8, 1, 5}));
  EXPECT_EQ(cache.check(), "");
}

TEST(ExpertCacheTest, NoMoreLoadsThanMayBeUnderWay) {
  ExpertCache cache({.layers = 1, .experts = 8, .slots = 4, .loads_max = 2});
  for (int i = 0; i < 2; ++i) cache.issue();
  EXPECT_FALSE(cache.next());
  cache.ended(0, true);
  EXPECT_TRUE(cache.next());
  EXPECT_FALSE(cache.quiet());
}

TEST(ExpertCacheTest, ALoadThatFailsLeavesItsExpertAtHomeAndIsTriedAgainAfterAStep) {
  ExpertCache cache({.layers = 1, .experts = 2, .slots = 1});
  const auto load = cache.next();
  ASSERT_TRUE(load);
  cache.issue();
  cache.ended(load->slot, false);
  EXPECT_EQ(cache.placed()[0], -1);
  cache.step_begins();
  cache.step_ended(Counts{3, 0});
  const auto again = cache.next();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->expert, 0);
}

// An expert that gives way is read in its slot by the step that began before.
TEST(ExpertCacheTest, ASlotIsUntouchedUntilStepsThatReadItHaveEnded) {
  ExpertCache cache({.layers = 1, .experts = 2, .slots = 1, .policy = ExpertPolicy::kLru});
  cache.issue();
  cache.ended(0, true);
  cache.step_begins();
  const auto second = cache.step_begins();
  ASSERT_EQ(second[0], 0);
  cache.step_ended(Counts{0, 1});
  EXPECT_EQ(cache.placed()[0], -1);
  EXPECT_FALSE(cache.next()) << "the second step reads it";
  cache.step_ended(Counts{0, 1});
  ASSERT_TRUE(cache.next());
  EXPECT_EQ(cache.next()->expert, 1);
}

// What lies in the slots, by the copies that were made: and what steps read there.
class History {
 public:
  History(const ExpertCacheOptions& options, std::uint64_t seed)
      : options_(options), cache_(options), random_(seed) {
    holds_.assign(static_cast<std::size_t>(options.slots), -1);
  }

  void run(int events) {
    for (int i = 0; i < events && !::testing::Test::HasFailure(); ++i) {
      switch (random_.below(6)) {
        case 0:
        case 1: begin_step(); break;
        case 2:
        case 3: end_step(); break;
        case 4: end_load(random_.chance(0.9)); break;
        default: lose(); break;
      }
      while (random_.chance(0.7) && issue()) {
      }
      ASSERT_EQ(cache_.check(), "");
    }
  }
  std::int64_t hits() const { return cache_.counters().hits; }
  std::int64_t loads() const { return cache_.counters().loads; }

 private:
  std::int64_t experts() const { return options_.layers * options_.experts; }

  bool issue() {
    const auto load = cache_.next();
    if (!load) return false;
    cache_.issue();
    EXPECT_LT(std::ssize(loading_), options_.loads_max);
    EXPECT_FALSE(loading_.contains(load->slot)) << "two copies into a slot";
    for (const auto& step : steps_) {
      for (const std::int32_t slot : step) EXPECT_NE(slot, load->slot) << "a step reads it";
    }
    for (const std::int32_t slot : cache_.placed()) EXPECT_NE(slot, load->slot);
    for (const auto& [slot, expert] : loading_) EXPECT_NE(expert, load->expert) << "twice";
    loading_[load->slot] = load->expert;
    holds_[static_cast<std::size_t>(load->slot)] = -1;
    return true;
  }
  void end_load(bool ok) {
    if (loading_.empty()) return;
    auto one = loading_.begin();
    std::advance(one, random_.below(std::ssize(loading_)));
    if (ok) holds_[static_cast<std::size_t>(one->first)] = one->second;
    cache_.ended(one->first, ok);
    loading_.erase(one);
  }
  void begin_step() {
    if (steps_.size() == 2) return;
    const auto told = cache_.step_begins();
    steps_.emplace_back(told.begin(), told.end());
    check_reads();
  }
  // Every expert lies where the step was told.
  void check_reads() const {
    for (const auto& step : steps_) {
      for (std::int64_t e = 0; e < experts(); ++e) {
        const std::int32_t slot = step[static_cast<std::size_t>(e)];
        if (slot < 0) continue;
        EXPECT_EQ(holds_[static_cast<std::size_t>(slot)], e);
      }
    }
  }
  void end_step() {
    if (steps_.empty()) return;
    check_reads();
    Counts chosen(static_cast<std::size_t>(experts()));
    if (random_.chance(0.1)) chosen.clear();
    std::int64_t distinct = 0;
    for (std::uint32_t& count : chosen) {
      if (random_.chance(0.3)) count = static_cast<std::uint32_t>(random_.between(1, 9));
      distinct += count > 0 ? 1 : 0;
    }
    const auto before = cache_.counters();
    cache_.step_ended(chosen);
    const auto after = cache_.counters();
    EXPECT_EQ(after.hits - before.hits + after.misses - before.misses, distinct);
    steps_.erase(steps_.begin());
    if (random_.chance(0.1)) cache_.sequence_begins();
  }
  void lose() {
    if (!steps_.empty() || !loading_.empty() || random_.chance(0.8)) return;
    cache_.forget();
    std::fill(holds_.begin(), holds_.end(), -1);
  }

  const ExpertCacheOptions options_;
  ExpertCache cache_;
  Random random_;
  std::vector<std::int64_t> holds_;               // by slot: expert; -1: unknown
  std::map<std::int32_t, std::int32_t> loading_;  // by slot: expert
  std::vector<std::vector<std::int32_t>> steps_;  // in flight: what they were told
};

TEST(ExpertCacheTest, NothingIsOverwrittenThatAStepMayRead) {
  Random random(31);
  std::int64_t hits = 0, loads = 0;
  for (int round = 0; round < 120; ++round) {
    const auto policies = {ExpertPolicy::kFrequency, ExpertPolicy::kLru, ExpertPolicy::kActivation,
                           ExpertPolicy::kMap};
    for (const ExpertPolicy policy : policies) {
      const std::int64_t layers = random.between(1, 4), experts = random.between(1, 9);
      History history({.layers = layers,
                       .experts = experts,
                       .slots = random.between(1, layers * experts),
                       .policy = policy,
                       .loads_max = static_cast<int>(random.between(1, 4)),
                       .memory = 2},
                      random.bits());
      history.run(250);
      hits += history.hits();
      loads += history.loads();
    }
  }
  EXPECT_GT(hits, 10'000);
  EXPECT_GT(loads, 3'000);
}

// A router that chooses k different experts of each layer a token, by popularity: the i-th of a
// layer's order as (i + 1)^-exponent, or all alike. Which one is popular differs by layer.
class Router {
 public:
  Router(std::int64_t layers, std::int64_t experts, double exponent, std::uint64_t seed)
      : experts_(experts), random_(seed) {
    for (std::int64_t e = 0; e < experts; ++e) {
      weights_.push_back(std::pow(static_cast<double>(e + 1), -exponent));
    }
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      auto& order = orders_.emplace_back(static_cast<std::size_t>(experts));
      std::iota(order.begin(), order.end(), 0);
      for (std::size_t i = order.size(); i > 1; --i) {
        const auto j = random_.below(static_cast<std::int64_t>(i));
        std::swap(order[i - 1], order[static_cast<std::size_t>(j)]);
      }
    }
  }
  // One token.
  Counts token(std::int64_t k) {
    Counts counts(orders_.size() * static_cast<std::size_t>(experts_));
    for (std::size_t layer = 0; layer < orders_.size(); ++layer) {
      std::vector<double> left = weights_;
      for (std::int64_t i = 0; i < k; ++i) {
        const auto rank = draw(left);
        left[rank] = 0;
        counts[layer * static_cast<std::size_t>(experts_) + orders_[layer][rank]] = 1;
      }
    }
    return counts;
  }

 private:
  std::size_t draw(const std::vector<double>& weights) {
    double at = random_.uniform() * std::accumulate(weights.begin(), weights.end(), 0.0);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      at -= weights[i];
      if (at < 0 && weights[i] > 0) return i;
    }
    return static_cast<std::size_t>(
        std::find_if(weights.begin(), weights.end(), [](double w) { return w > 0; }) -
        weights.begin());
  }

  const std::int64_t experts_;
  Random random_;
  std::vector<double> weights_;
  std::vector<std::vector<std::size_t>> orders_;
};

struct Rates {
  double hits = 0;   // of the experts that single tokens chose
  double loads = 0;  // likewise, though prompts cause some
};

Counts prompt_of(Router& router, int tokens, std::int64_t k) {
  Counts counts = router.token(k);
  for (int i = 1; i < tokens; ++i) {
    const Counts more = router.token(k);
    for (std::size_t e = 0; e < counts.size(); ++e) counts[e] += more[e];
  }
  return counts;
}

// Qwen3-30B-A3B's experts, slots for a quarter of them, after a thousand tokens of warming up; a
// step's loads all end while it runs. Sequences have `output` tokens behind a prompt of 128.
Rates simulate(ExpertPolicy policy, double exponent, int output) {
  constexpr std::int64_t kLayers = 12, kExperts = 128, kChosen = 8;
  Router router(kLayers, kExperts, exponent, 7);
  ExpertCache cache({.layers = kLayers,
                     .experts = kExperts,
                     .slots = kLayers * kExperts / 4,
                     .policy = policy,
                     .loads_max = 1000});
  ExpertCache::Counters warm, prompts;
  for (int step = 0; step < 1500; ++step) {
    if (step == 1000) warm = cache.counters();
    const bool begins = step % (output + 1) == 0;
    if (begins) cache.sequence_begins();
    cache.step_begins();
    while (const auto load = cache.next()) {
      cache.issue();
      cache.ended(load->slot, true);
    }
    const ExpertCache::Counters before = cache.counters();
    cache.step_ended(begins ? prompt_of(router, 128, kChosen) : router.token(kChosen));
    if (begins && step >= 1000) {
      prompts.hits += cache.counters().hits - before.hits;
      prompts.misses += cache.counters().misses - before.misses;
    }
  }
  const ExpertCache::Counters all = cache.counters();
  const std::int64_t hits = all.hits - warm.hits - prompts.hits;
  const auto chosen = static_cast<double>(hits + all.misses - warm.misses - prompts.misses);
  return {static_cast<double>(hits) / chosen, static_cast<double>(all.loads - warm.loads) / chosen};
}

// What crosses the link of what is chosen: misses and loads.
double crossing(const Rates& rates) { return 1 - rates.hits + rates.loads; }

TEST(ExpertCacheTest, PopularExpertsStayAndFewBytesCrossForNothing) {
  if (kSanitized) GTEST_SKIP() << "needs a build without sanitizers: figures of one thread";
  for (const double exponent : {0.0, 1.0}) {
    for (const int output : {6, 64}) {
      const Rates frequency = simulate(ExpertPolicy::kFrequency, exponent, output);
      const Rates lru = simulate(ExpertPolicy::kLru, exponent, output);
      const Rates activation = simulate(ExpertPolicy::kActivation, exponent, output);
      const auto print = [&](const char* name, const Rates& rates) {
        fmt::print("Zipf {:.1f}, {:2} tokens, {:10} hits {:.3f}, loads {:.3f} of what is chosen\n",
                   exponent, output, name, rates.hits, rates.loads);
      };
      print("frequency", frequency);
      print("lru", lru);
      print("activation", activation);
      // What a prompt of 128 tokens chose by chance does not turn the cache over.
      EXPECT_LT(frequency.loads, output == 6 ? 0.12 : 0.025) << exponent;
      EXPECT_LT(crossing(frequency), 0.9 * crossing(lru)) << exponent;
      EXPECT_LT(crossing(frequency), crossing(activation)) << exponent;
      if (exponent == 0) {
        EXPECT_NEAR(frequency.hits, 0.25, 0.012);
      } else {
        EXPECT_GT(frequency.hits, lru.hits + 0.03);
      }
    }
  }
}

// Favourites of a sequence's own come into the slots while it runs.
TEST(ExpertCacheTest, ChangedFavouritesAreFollowed) {
  constexpr std::int64_t kLayers = 12, kExperts = 128, kChosen = 8;
  ExpertCache cache(
      {.layers = kLayers, .experts = kExperts, .slots = kLayers * kExperts / 4, .loads_max = 1000});
  const auto hits = [&](Router& router, int tokens) {
    const auto before = cache.counters();
    for (int i = 0; i < tokens; ++i) {
      cache.step_begins();
      while (const auto load = cache.next()) {
        cache.issue();
        cache.ended(load->slot, true);
      }
      cache.step_ended(router.token(kChosen));
    }
    const auto after = cache.counters();
    const std::int64_t hit = after.hits - before.hits;
    return static_cast<double>(hit) / static_cast<double>(hit + after.misses - before.misses);
  };
  Router one(kLayers, kExperts, 1.0, 7), other(kLayers, kExperts, 1.0, 8);
  hits(one, 1000);
  const double settled = hits(one, 100);
  EXPECT_LT(hits(other, 20), settled - 0.2);
  hits(other, 150);
  EXPECT_GT(hits(other, 100), settled - 0.1);
}

// Sequences of several kinds, each with favourites of its own: the map of one that began alike says
// more than what the running one has chosen so far.
TEST(ExpertCacheTest, MapsBringTheFavouritesOfSequencesThatBeganAlike) {
  constexpr std::int64_t kLayers = 12, kExperts = 128, kChosen = 8;
  std::map<ExpertPolicy, double> hits;
  for (const ExpertPolicy policy : {ExpertPolicy::kActivation, ExpertPolicy::kMap}) {
    std::vector<Router> kinds;
    for (std::uint64_t seed = 0; seed < 6; ++seed) kinds.emplace_back(kLayers, kExperts, 1.0, seed);
    ExpertCache cache({.layers = kLayers,
                       .experts = kExperts,
                       .slots = kLayers * kExperts / 4,
                       .policy = policy,
                       .loads_max = 1000,
                       .empty_max = 200});
    ExpertCache::Counters warm;
    for (int sequence = 0; sequence < 60; ++sequence) {
      if (sequence == 30) warm = cache.counters();
      Router& router = kinds[static_cast<std::size_t>(sequence * 5 % 6)];
      cache.sequence_begins();
      for (int token = 0; token < 24; ++token) {
        cache.step_begins();
        while (const auto load = cache.next()) {
          cache.issue();
          cache.ended(load->slot, true);
        }
        cache.step_ended(token == 0 ? prompt_of(router, 3, kChosen) : router.token(kChosen));
      }
    }
    const ExpertCache::Counters all = cache.counters();
    const auto hit = static_cast<double>(all.hits - warm.hits);
    hits[policy] = hit / (hit + static_cast<double>(all.misses - warm.misses));
  }
  fmt::print("activation {:.3f}, map {:.3f} hit\n", hits[ExpertPolicy::kActivation],
             hits[ExpertPolicy::kMap]);
  EXPECT_GT(hits[ExpertPolicy::kMap], hits[ExpertPolicy::kActivation] + 0.03);
}

// Experts that other ones are to replace are hit until shortly before their copies begin.
TEST(ExpertCacheTest, SlotsThatWaitForCopiesAreFew) {
  ExpertCache cache({.layers = 1,
                     .experts = 200,
                     .slots = 100,
                     .policy = ExpertPolicy::kLru,
                     .loads_max = 4,
                     .empty_max = 10});
  while (const auto load = cache.next()) {
    cache.issue();
    cache.ended(load->slot, true);
  }
  Counts others(200);
  for (std::size_t e = 0; e < others.size(); ++e) others[e] = cache.placed()[e] < 0 ? 1 : 0;
  cache.step_begins();
  cache.step_ended(others);
  const auto placed = std::count_if(cache.placed().begin(), cache.placed().end(),
                                    [](std::int32_t slot) { return slot >= 0; });
  EXPECT_EQ(placed, 90);
  EXPECT_TRUE(cache.next());
}

}  // namespace
}  // namespace causeway::weights::expert_cache_test
