// What links were seen to give decides where models are placed.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "fleet/fleet_core.h"

namespace causeway::fleet::link_seen_test {
namespace {

constexpr double kRate = 1e9;

// Two GPUs with a link each, on which models of 400 MB are streamed.
class LinkSeenTest : public ::testing::Test {
 protected:
  LinkSeenTest() {
    FleetSpec spec;
    spec.models.resize(4);
    for (ModelSpec& model : spec.models) {
      model.weights = Bytes(400'000'000);
      model.slo.tpot = seconds(1);
    }
    for (int gpu = 0; gpu < 2; ++gpu) {
      spec.slices.push_back({.link = LinkId(gpu), .memory = Bytes(1)});
      spec.links.push_back({.bytes_per_second = kRate});
    }
    core_ = std::make_unique<FleetCore>(spec, FleetOptions{.loads_max = 4},
                                        make_placement(PlacementKind::kBandwidth));
  }

  std::vector<Action> on(const Event& event) {
    auto actions = core_->on_event(event, now_);
    const Status whole = core_->check_integrity();
    EXPECT_TRUE(whole.ok()) << whole.error().message;
    return actions;
  }
  // Seconds in which the link is busy for 0.9 s each, at this rate.
  void see(int link, double rate, int times) {
    for (int i = 0; i < times; ++i) {
      now_ += seconds(1);
      on(LinkSeen{LinkId(link), Bytes(static_cast<std::int64_t>(rate * 0.9)), millis(900)});
    }
  }
  // Where a request has its model loaded, which is then there.
  SliceId place(std::int64_t model) {
    on(RequestArrived{RequestId(model), ModelId(model), {}, now_});
    const auto actions = on(Measured{ModelId(model), HostRoom{Bytes(10), Bytes(0), gib(1)}});
    EXPECT_EQ(actions.size(), 1u);
    const auto* load = actions.empty() ? nullptr : std::get_if<Load>(&actions[0]);
    if (load == nullptr) return SliceId();
    const SliceId slice = load->slice;
    on(LoadEnded{ModelId(model), Bytes(400'000'000)});
    return slice;
  }

  std::unique_ptr<FleetCore> core_;
  Nanos now_ = seconds(100);
};

TEST_F(LinkSeenTest, WithNothingSeenTheFirstSliceIsTaken) {
  EXPECT_EQ(place(0), SliceId(0));
  EXPECT_EQ(place(1), SliceId(1)) << "where less is asked of the link";
}

TEST_F(LinkSeenTest, ALinkAtHalfItsRateHasTheNextModelPlacedElsewhere) {
  see(0, kRate / 2, 10);
  EXPECT_NEAR(core_->link_rate(LinkId(0)), kRate / 2, 0.03 * kRate);
  EXPECT_EQ(place(0), SliceId(1));
  EXPECT_EQ(place(1), SliceId(1)) << "800 MB a second of 1 GB: there even a second";
  EXPECT_EQ(place(2), SliceId(0)) << "a third exceeds it, and 400 of 500 are still free here";
  EXPECT_EQ(core_->counters().best_effort, 0);
  EXPECT_NEAR(to_seconds(core_->predicted_tpot(ModelId(2))), 0.8, 0.02);
}

TEST_F(LinkSeenTest, ALinkThatHasRecoveredCountsInFullAgain) {
  see(0, kRate / 2, 10);
  see(0, kRate, 10);
  EXPECT_NEAR(core_->link_rate(LinkId(0)), kRate, 0.03 * kRate);
  see(0, kRate / 2, 10);
  see(0, 0, 300);
  EXPECT_NEAR(core_->link_rate(LinkId(0)), kRate, 0.03 * kRate) << "nothing was seen for long";
}

TEST_F(LinkSeenTest, LiesNeitherRaiseNorCloseIt) {
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{-5}, INT64_MAX / 2}) {
    for (const std::int64_t busy : {std::int64_t{0}, std::int64_t{-5}, INT64_MAX / 2}) {
      on(LinkSeen{LinkId(1), Bytes(bytes), Nanos(busy)});
      EXPECT_LE(core_->link_rate(LinkId(1)), kRate);
      EXPECT_GE(core_->link_rate(LinkId(1)), kRate / 8);
    }
  }
}

}  // namespace
}  // namespace causeway::fleet::link_seen_test
