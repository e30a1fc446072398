#include "fleet/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace causeway::fleet::placement_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr double kGiga = 1e9;

// `giga` bytes are read at every step, within 100 ms.
ModelSpec model_of(double giga) {
  ModelSpec model;
  model.weights = Bytes(static_cast<std::int64_t>(giga * kGiga));
  model.slo.tpot = millis(100);
  return model;
}

DecayedCount once() {
  DecayedCount count;
  count.add(Nanos(0));
  return count;
}

PlacedModel placed(std::int64_t id, double giga, bool may_go = true, double cost = 1) {
  return {.model = ModelId(id),
          .demand = demand_of(model_of(giga), Bytes(0)),
          .may_go = may_go,
          .may_drain = may_go,
          .bytes = Bytes(static_cast<std::int64_t>(cost)),
          .rate = once()};
}

// Slices on one link with `models_max` places each, whose memory keeps no weights.
std::vector<SliceSpec> slices_of(int slices, std::int64_t models_max = 1) {
  const SliceSpec slice{.link = LinkId(0),
                        .models_max = models_max,
                        .memory = Bytes(1),
                        .memory_bytes_per_second = 1e12};
  return std::vector<SliceSpec>(static_cast<std::size_t>(slices), slice);
}

// One link of 100 GB/s: 10 GB a step of 100 ms.
FleetView fleet_of(std::vector<SliceSpec> slices) {
  return {std::move(slices), {{.bytes_per_second = 100 * kGiga}}};
}
FleetView fleet_of(int slices, std::int64_t models_max = 1) {
  return fleet_of(slices_of(slices, models_max));
}

Candidate candidate_of(const ModelSpec& model) { return {.model = ModelId(99), .spec = model}; }

TEST(Demand, IsWhatStillCrossesWithinTheTimeOfAToken) {
  ModelSpec model = model_of(8);
  model.flops_per_token = 2e9;
  model.prompt = Tokens(1000);
  model.slo.ttft = seconds(2);
  const Demand demand = demand_of(model, Bytes(2'000'000'000));
  EXPECT_EQ(demand.crosses, Bytes(6'000'000'000));
  EXPECT_DOUBLE_EQ(demand.link_bytes_per_second, 60 * kGiga);
  EXPECT_DOUBLE_EQ(demand.memory_bytes_per_second, 80 * kGiga);
  EXPECT_DOUBLE_EQ(demand.flops_per_second, 1e12);
  EXPECT_EQ(demand_of(model, gib(100)).crosses, Bytes(0)) << "no more stays than there is";
}

TEST(BandwidthPlacement, AnIdleSliceWhereTheLinkHasTheSum) {
  FleetView fleet = fleet_of(3);
  fleet.put(SliceId(0), placed(0, 4));
  const ModelSpec model = model_of(6);
  const auto fits = make_placement(PlacementKind::kBandwidth)->choose(fleet, candidate_of(model));
  ASSERT_TRUE(fits);
  EXPECT_EQ(fits->slice, SliceId(1));
  EXPECT_THAT(fits->victims, IsEmpty());
  EXPECT_NEAR(fits->excess, 1, 1e-6) << "4 + 6 GB a step are all that the link has";
}

TEST(BandwidthPlacement, EvictsWhatIsCheapestToBringBackWhenTheSumIsTooLarge) {
  FleetView fleet = fleet_of(3);
  fleet.put(SliceId(0), placed(0, 4, true, 5));
  fleet.put(SliceId(1), placed(1, 4, true, 3));
  const ModelSpec model = model_of(5);
  const auto fits = make_placement(PlacementKind::kBandwidth)->choose(fleet, candidate_of(model));
  ASSERT_TRUE(fits);
  EXPECT_EQ(fits->slice, SliceId(1)) << "slice 2 is idle, but 4 + 4 + 5 GB a step are too much";
  EXPECT_THAT(fits->victims, ElementsAre(ModelId(1)));
}

TEST(BandwidthPlacement, BestEffortSaysByHowMuch) {
  FleetView fleet = fleet_of(2);
  fleet.put(SliceId(0), placed(0, 8, /*may_go=*/false));
  const ModelSpec model = model_of(8);
  const auto best = make_placement(PlacementKind::kBandwidth)->choose(fleet, candidate_of(model));
  ASSERT_TRUE(best);
  EXPECT_EQ(best->slice, SliceId(1));
  EXPECT_NEAR(best->excess, 1.6, 1e-6);
  Candidate ahead = candidate_of(model);
  ahead.evicts = false;
  EXPECT_FALSE(make_placement(PlacementKind::kBandwidth)->choose(fleet, ahead))
      << "the initial active set keeps within the link";
}

TEST(BandwidthPlacement, TheMemorysBandwidthIsTheSlicesOwn) {
  std::vector<SliceSpec> slices = slices_of(2);
  slices[0].memory_bytes_per_second = 20 * kGiga;
  const FleetView fleet = fleet_of(slices);
  const ModelSpec model = model_of(5);
  const auto fits = make_placement(PlacementKind::kBandwidth)->choose(fleet, candidate_of(model));
  EXPECT_EQ(fits->slice, SliceId(1));
}

TEST(BandwidthPlacement, ComputeMustReachTheFirstToken) {
  std::vector<SliceSpec> slices = slices_of(2);
  slices[0].flops_per_second = 1e12;
  slices[1].flops_per_second = 4e12;
  const FleetView fleet = fleet_of(slices);
  ModelSpec model = model_of(1);
  model.flops_per_token = 2e9;
  model.prompt = Tokens(1000);
  model.slo.ttft = seconds(1);
  const auto fits = make_placement(PlacementKind::kBandwidth)->choose(fleet, candidate_of(model));
  EXPECT_EQ(fits->slice, SliceId(1));
}

TEST(BandwidthPlacement, WhatStaysOnTheSliceNeedNotCross) {
  std::vector<SliceSpec> slices = slices_of(2);
  slices[1].memory = gib(20);
  const FleetView fleet = fleet_of(slices);
  const ModelSpec model = model_of(15);
  const auto fits = make_placement(PlacementKind::kBandwidth)->choose(fleet, candidate_of(model));
  ASSERT_TRUE(fits);
  EXPECT_EQ(fits->slice, SliceId(1));
  EXPECT_EQ(fits->demand.crosses, Bytes(0));
}

// One link of 100 GB/s, whose half takes 20 ms for a GB; slices of 10 GB. A request takes 50 ms.
class FirstToken : public ::testing::Test {
 protected:
  FirstToken() { fleet_.set_request_work(0.05 * 1e12); }

  void run(SliceId slice, std::int64_t requests, double giga) {
    PlacedModel model = placed(slice.value, giga, /*may_go=*/false);
    model.demand = demand_of(model_of(giga), Bytes(static_cast<std::int64_t>(giga * kGiga)));
    model.requests = requests;
    fleet_.put(slice, model);
  }
  SliceId choose(double giga, SliceId last = {}) {
    const ModelSpec model = model_of(giga);
    Candidate candidate = candidate_of(model);
    candidate.last = last;
    candidate.time_shared = true;
    return make_placement(PlacementKind::kBandwidth)->choose(fleet_, candidate)->slice;
  }

  FleetView fleet_ = fleet_of(
      {{.link = LinkId(0), .memory = Bytes(10'000'000'000), .memory_bytes_per_second = 1e12},
       {.link = LinkId(0), .memory = Bytes(10'000'000'000), .memory_bytes_per_second = 1e12}});
};

TEST_F(FirstToken, AModelStaysWhereItWasUntilTheQueueTakesLongerThanItsWeights) {
  run(SliceId(1), 1, 1);
  EXPECT_EQ(choose(3, SliceId(1)), SliceId(1)) << "50 ms of work against 60 ms of copies";
  EXPECT_EQ(choose(2, SliceId(1)), SliceId(0)) << "40 ms of copies";
  run(SliceId(1), 2, 1);
  EXPECT_EQ(choose(3, SliceId(1)), SliceId(0)) << "100 ms of work";
}

TEST_F(FirstToken, WhatDoesNotFitBesideOthersIsBroughtAgain) {
  run(SliceId(0), 1, 8);
  run(SliceId(1), 2, 1);
  EXPECT_EQ(choose(2), SliceId(0)) << "it fits, and there is less to do";
  EXPECT_EQ(choose(5), SliceId(1)) << "3 GB too much are 60 ms, another request is 50 ms";
}

TEST_F(FirstToken, FasterSlicesHaveShorterQueues) {
  std::vector<SliceSpec> slices(2, fleet_.slice(SliceId(0)).spec);
  slices[1].memory_bytes_per_second *= 4;
  fleet_ = fleet_of(slices);
  fleet_.set_request_work(0.05 * 1e12);
  run(SliceId(0), 1, 1);
  run(SliceId(1), 3, 1);
  EXPECT_EQ(choose(1), SliceId(1));
  run(SliceId(1), 5, 1);
  EXPECT_EQ(choose(1), SliceId(0));
}

TEST(Placement, NothingIsPutWhereNoPlaceOrMemoryIs) {
  FleetView fleet = fleet_of(3);
  fleet.put(SliceId(0), placed(0, 1, /*may_go=*/false));
  fleet.set_up(SliceId(1), false);
  ModelSpec model = model_of(1);
  model.memory_min = Bytes(2);  // of slices with 1
  for (const auto kind :
       {PlacementKind::kBandwidth, PlacementKind::kRandom, PlacementKind::kDedicated,
        PlacementKind::kLocality, PlacementKind::kShared}) {
    EXPECT_FALSE(make_placement(kind)->choose(fleet, candidate_of(model))) << name_of(kind);
  }
}

TEST(Placement, BaselinesDoAsTheirNamesSay) {
  FleetView fleet = fleet_of(3, /*models_max=*/2);
  fleet.put(SliceId(0), placed(0, 9));
  fleet.put(SliceId(0), placed(1, 1));
  PlacedModel busy = placed(2, 1, false);
  busy.requests = 3;
  fleet.put(SliceId(1), busy);
  fleet.put(SliceId(2), placed(3, 1));
  fleet.put(SliceId(2), placed(4, 1));
  const ModelSpec model = model_of(50);
  Candidate candidate = candidate_of(model);
  candidate.last = SliceId(2);
  const auto slice = [&](PlacementKind kind) {
    return make_placement(kind)->choose(fleet, candidate)->slice;
  };
  EXPECT_EQ(slice(PlacementKind::kDedicated), SliceId(1)) << "the only one with a free place";
  EXPECT_EQ(slice(PlacementKind::kLocality), SliceId(1)) << "nothing has to go there";
  EXPECT_EQ(slice(PlacementKind::kShared), SliceId(0)) << "no requests run there";
  fleet.put(SliceId(1), placed(5, 1));
  EXPECT_EQ(slice(PlacementKind::kLocality), SliceId(2)) << "where it was";
  EXPECT_FALSE(make_placement(PlacementKind::kDedicated)->choose(fleet, candidate));
  std::vector<int> drawn(3);
  for (candidate.draw = 0; candidate.draw < 9; ++candidate.draw) {
    drawn[static_cast<std::size_t>(slice(PlacementKind::kRandom).value)] += 1;
  }
  EXPECT_THAT(drawn, ElementsAre(3, 3, 3));
}

TEST(Placement, NamesAreKnown) {
  EXPECT_EQ(find_placement("locality").value(), PlacementKind::kLocality);
  EXPECT_EQ(find_placement("best").error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace causeway::fleet::placement_test
