#include "weights/stream_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/random.h"
#include "base/testing/must.h"
#include "base/testing/rounds.h"
#include "weights/weight_ring.h"

namespace causeway::weights::stream_plan_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Bytes kExtent = kib(64);

// Groups of these sizes, in units of a quarter of an extent, one after the other; the first is an
// embedding, `tied` to the head or not.
WeightLayout layout_of(const std::vector<std::int64_t>& quarters) {
  WeightLayout layout;
  for (const std::int64_t size : quarters) {
    PlacedGroup group;
    group.offset = layout.bytes;
    group.bytes = kExtent / 4 * size;
    layout.bytes += group.bytes;
    layout.groups.push_back(group);
  }
  return layout;
}

std::vector<ReadingStep> reading_of(const WeightLayout& layout, bool tied) {
  std::vector<ReadingStep> reading;
  for (int g = 1; g < static_cast<int>(layout.groups.size()); ++g) reading.push_back({.group = g});
  reading.push_back({.group = 0, .readable_at_home = !tied, .stays = tied});
  return reading;
}

std::vector<int> streamed(const StreamPlan& plan) {
  std::vector<int> groups;
  for (const StreamedGroup& group : plan.groups) groups.push_back(group.layout_group);
  return groups;
}

TEST(StreamPlanTest, KeepsEverySecondOfEqualGroups) {
  const WeightLayout layout = layout_of({4, 8, 8, 8, 8, 8, 8});
  const auto plan =
      must(plan_stream(layout, reading_of(layout, false),
                       {.extent = kExtent, .budget = kExtent * 10, .ring = kExtent * 4}),
           "a plan");
  EXPECT_THAT(streamed(plan), ElementsAre(1, 3, 5));
  EXPECT_THAT(plan.resident, ElementsAre(2, 4, 6));
  EXPECT_EQ(plan.bytes, kExtent * 6);
  EXPECT_EQ(plan.ring_first, 13);
  // Six extents: twice a ring of three would do, but two groups want four.
  EXPECT_EQ(plan.ring_extents, 4);
}

TEST(StreamPlanTest, ATiedEmbeddingStaysAndAnotherIsNeverCached) {
  const WeightLayout layout = layout_of({4, 8, 8, 8, 8});
  const StreamOptions options{.extent = kExtent, .budget = kExtent * 5};
  const auto tied = must(plan_stream(layout, reading_of(layout, true), options), "a plan");
  EXPECT_THAT(tied.resident, ElementsAre(0));
  const auto untied = must(plan_stream(layout, reading_of(layout, false), options), "a plan");
  EXPECT_THAT(untied.resident, ElementsAre());
  EXPECT_THAT(streamed(untied), ElementsAre(1, 2, 3, 4));
}

// Groups that share all of their extents with resident ones would leave a ring of nothing.
TEST(StreamPlanTest, HasARingWhereverItsGroupsLie) {
  const WeightLayout layout = layout_of({1, 1, 1, 1, 1, 1});
  const StreamOptions options{.extent = kExtent, .budget = kExtent * 2};
  const auto plan = must(plan_stream(layout, reading_of(layout, false), options), "a plan");
  EXPECT_GE(plan.ring_extents, 1);
  EXPECT_THAT(plan.groups, ::testing::Not(::testing::IsEmpty()));
  const WeightLayout one = layout_of({1, 1, 1});
  const auto tied = plan_stream(one, reading_of(one, true), options);
  EXPECT_EQ(tied.error().code, ErrorCode::kInvalidArgument);
}

TEST(StreamPlanTest, SaysWhatIsMissing) {
  const WeightLayout layout = layout_of({4, 512, 512, 512});
  const auto refused =
      plan_stream(layout, reading_of(layout, true), {.extent = kExtent, .budget = kExtent * 100});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message,
              HasSubstr("takes 16 MiB of the device's memory for weights at least, "
                        "and may have 6553600 bytes"));
  const auto roomy = must(
      plan_stream(layout, reading_of(layout, true), {.extent = kExtent, .budget = kExtent * 1000}),
      "a plan");
  EXPECT_EQ(roomy.groups.size(), 1u);
}

// What lies in the ring, byte by byte of a grain that all groups are multiples of.
class RingModel {
 public:
  RingModel(const StreamPlan& plan, const WeightLayout& layout) : plan_(plan), layout_(layout) {
    for (const ExtentAlias& alias : plan.aliases) {
      for (std::int64_t i = 0; i < alias.count; ++i) ring_[alias.first + i] = alias.ring + i;
    }
  }

  // Grains of memory behind a group: of the ring, or its own.
  std::vector<std::int64_t> memory(int group) const {
    std::vector<std::int64_t> grains;
    const StreamedGroup& of = plan_.groups[static_cast<std::size_t>(group)];
    for (Bytes at = of.offset; at < of.offset + of.bytes; at += kGrain) {
      const std::int64_t extent = at / kExtent, rest = at % kExtent / kGrain;
      const auto shown = ring_.find(extent);
      grains.push_back((shown == ring_.end() ? extent : shown->second) * kPerExtent + rest);
    }
    return grains;
  }
  std::set<std::int64_t> residents() const {
    std::set<std::int64_t> grains;
    for (const int group : plan_.resident) {
      const PlacedGroup& placed = layout_.groups[static_cast<std::size_t>(group)];
      for (Bytes at = placed.offset; at < placed.offset + placed.bytes; at += kGrain) {
        EXPECT_FALSE(ring_.contains(at / kExtent)) << "a resident group lies in the ring";
        grains.insert(at / kGrain);
      }
    }
    return grains;
  }

  static constexpr Bytes kGrain = kExtent / 4;
  static constexpr std::int64_t kPerExtent = 4;

 private:
  const StreamPlan& plan_;
  const WeightLayout& layout_;
  std::map<std::int64_t, std::int64_t> ring_;
};

// Copies that may begin are under way at once and end in any order; a step reads groups in order.
class RingHistory {
 public:
  RingHistory(const StreamPlan& plan, const WeightLayout& layout, std::uint64_t seed)
      : model_(plan, layout), ring_(plan), groups_(std::ssize(plan.groups)), random_(seed) {
    residents_ = model_.residents();
  }

  void run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
      switch (random_.below(7)) {
        case 0: ring_.set_wanted(random_.chance(0.7)); break;
        case 1: begin(); break;
        case 6: lose(); break;
        case 2:
        case 3: end_copy(); break;
        default: read();
      }
      issue();
      // Nothing under way, and a step waits: its next copy may begin.
      if (stepping_ && under_way_.empty()) {
        ASSERT_TRUE(held(reading_)) << "the step waits for nothing";
      }
    }
  }
  std::int64_t steps() const { return ended_; }

 private:
  using Copy = std::pair<int, std::uint32_t>;

  bool held(int group) const {
    for (const std::int64_t grain : model_.memory(group)) {
      const auto at = holds_.find(grain);
      if (at == holds_.end() || at->second != Copy{group, pass_}) return false;
    }
    return true;
  }
  void issue() {
    while (const auto next = ring_.next()) {
      for (const std::int64_t grain : model_.memory(next->group)) {
        ASSERT_FALSE(residents_.contains(grain)) << "a copy into a resident group";
        const auto at = holds_.find(grain);
        if (at != holds_.end()) {
          const auto [group, pass] = at->second;
          ASSERT_TRUE(consumed(group, pass)) << "group " << next->group << " overwrites " << group;
          ASSERT_FALSE(under_way_.contains(at->second)) << "two copies to one place";
        }
        holds_[grain] = {next->group, next->pass};
      }
      under_way_.insert({next->group, next->pass});
      if (!lost_) seen_.insert(next->pass);
      ring_.issue();
    }
  }
  bool consumed(int group, std::uint32_t pass) const {
    return pass <= ended_ || (stepping_ && pass == pass_ && group < reading_);
  }
  // The memory went to another model, and came back with anything in it.
  void lose() {
    if (stepping_ || !under_way_.empty()) return;
    holds_.clear();
    lost_ = true;
    ring_.forget();
  }
  void end_copy() {
    if (under_way_.empty()) return;
    auto one = under_way_.begin();
    std::advance(one, random_.below(under_way_.size()));
    ring_.ended(one->first, one->second, true);
    under_way_.erase(one);
  }
  void begin() {
    if (stepping_) return;
    stepping_ = true;
    pass_ = ring_.begin_pass();
    EXPECT_TRUE(!lost_ || !seen_.contains(pass_)) << "a pass that was copied in part before";
    lost_ = false;
    reading_ = 0;
  }
  void read() {
    if (!stepping_ || under_way_.contains({reading_, pass_}) || !held(reading_)) return;
    ring_.consumed(ring_.consumed_value(reading_, pass_));
    if (++reading_ < groups_) return;
    stepping_ = false;
    ended_ = pass_;
    EXPECT_TRUE(ring_.end_pass());
  }

  const RingModel model_;
  WeightRing ring_;
  const std::int64_t groups_;
  Random random_;
  std::set<std::int64_t> residents_;
  std::map<std::int64_t, Copy> holds_;
  std::set<Copy> under_way_;
  std::set<std::uint32_t> seen_;  // passes of which a copy began
  bool lost_ = false;             // since the last step began
  bool stepping_ = false;
  std::uint32_t pass_ = 0;
  int reading_ = 0;
  std::uint32_t ended_ = 0;
};

TEST(StreamPlanTest, NoCopyOverwritesWhatIsStillToBeRead) {
  Random random(41);
  std::int64_t plans = 0;
  for (int round = 0; round < rounds(3000); ++round) {
    std::vector<std::int64_t> sizes;
    const std::int64_t groups = random.between(2, 12);
    for (std::int64_t g = 0; g <= groups; ++g) sizes.push_back(random.between(1, 14));
    const WeightLayout layout = layout_of(sizes);
    const Bytes budget = kExtent * random.between(1, layout.bytes / kExtent + 2);
    const Bytes ring = random.chance(0.5) ? Bytes(0) : kExtent * random.between(1, 12);
    const auto plan = plan_stream(layout, reading_of(layout, random.chance(0.3)),
                                  {.extent = kExtent, .budget = budget, .ring = ring});
    if (!plan.ok()) continue;
    ++plans;
    RingHistory history(*plan, layout, random.bits());
    history.run(400);
    ASSERT_FALSE(HasFailure()) << "round " << round;
    ASSERT_GT(history.steps(), 0) << "round " << round;
  }
  EXPECT_GT(plans, rounds(1000));
}

TEST(WeightRingTest, CountsBeyond32Bits) {
  StreamPlan plan;
  for (const std::int64_t distance : {2, 2}) plan.groups.push_back({0, {}, {}, distance});
  WeightRing ring(plan);
  for (int pass = 1; pass < 1000; ++pass) {
    const std::uint32_t begun = ring.begin_pass();
    for (int group = 0; group < 2; ++group) {
      const auto next = ring.next();
      ASSERT_TRUE(next && next->group == group && next->pass == begun);
      ring.issue();
      ring.ended(group, begun, true);
    }
    EXPECT_FALSE(ring.next());
    EXPECT_TRUE(ring.end_pass());
  }
}

TEST(WeightRingTest, AFailedCopyVoidsItsPassAlone) {
  StreamPlan plan;
  for (const std::int64_t distance : {2, 2}) plan.groups.push_back({0, {}, {}, distance});
  WeightRing ring(plan);
  const std::uint32_t first = ring.begin_pass();
  for (int group = 0; group < 2; ++group) {
    ring.issue();
    ring.ended(group, first, group != 1);
  }
  EXPECT_FALSE(ring.end_pass());
  const std::uint32_t second = ring.begin_pass();
  for (int group = 0; group < 2; ++group) {
    ring.issue();
    ring.ended(group, second, true);
  }
  EXPECT_TRUE(ring.end_pass());
}

// Its step ended before it had waited for its copies.
TEST(WeightRingTest, CopiesOfAStepThatFailedEndBeforeTheirPlaceIsTaken) {
  StreamPlan plan;
  for (const std::int64_t distance : {2, 2, 2}) plan.groups.push_back({0, {}, {}, distance});
  WeightRing ring(plan);
  const std::uint32_t first = ring.begin_pass();
  ring.issue();
  ring.issue();
  EXPECT_FALSE(ring.next()) << "the third takes the place of the first";
  EXPECT_TRUE(ring.end_pass());
  const std::uint32_t second = ring.begin_pass();
  EXPECT_FALSE(ring.next()) << "copies of the first pass are under way";
  ring.ended(0, first, true);
  ring.ended(1, first, true);
  const auto next = ring.next();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->group, 0);
  EXPECT_EQ(next->pass, second);
}

}  // namespace
}  // namespace causeway::weights::stream_plan_test
