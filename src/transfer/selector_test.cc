// The selector on modelled links: how near it comes to the best that any set of links could do in
// the long run, found by trying them all.
#include <gtest/gtest.h>

#include <algorithm>

#include "transfer/testing/machines.h"
#include "transfer/testing/modelled_links.h"

namespace causeway::transfer::selector_test {
namespace {

using device::CopyPriority;
using device::kHostEnd;
using device::LinkProfile;
using testing::BackgroundTraffic;
using testing::eight_h200;
using testing::exhaustive_best;
using testing::map_of;
using testing::SimulationResult;
using testing::SimulationSetup;

constexpr double kShareOfBest = 0.95;

TaskSpec task(std::int64_t id, int target, Direction direction, Bytes bytes,
              CopyPriority priority = CopyPriority::kStep) {
  const auto host = device::MemoryAddress::in_host({RegionId(0), Bytes(0)});
  const auto arena = device::MemoryAddress::in_arena(device::DeviceId(target), Bytes(0));
  return {TaskId(id), target, direction, priority,
          SegmentTable::make({{host, arena, bytes}}).value()};
}

SimulationSetup setup_of(const LinkProfile& profile, int links) {
  SimulationSetup setup;
  setup.profile = profile;
  setup.facts = facts_of(map_of(profile, links));
  return setup;
}

double rate_of(const SimulationResult& result, TaskId id, Bytes bytes, Nanos begin = Nanos(0)) {
  return static_cast<double>(bytes.count) / to_seconds(result.tasks.at(id).at - begin);
}

// Moves one task; returns its share of the exhaustive best under the same background.
double share_of_best(SimulationSetup setup, int target, Direction direction, Bytes bytes) {
  const int links = setup.facts.links;
  const BestSet best =
      exhaustive_best(setup.profile, links, {direction, {}, target, setup.background});
  setup.tasks.push_back({task(0, target, direction, bytes), Nanos(0)});
  const auto result = simulate_transfers(std::move(setup));
  return rate_of(result, TaskId(0), bytes) / best.rate;
}

BackgroundTraffic native(Direction direction, int link) {
  return direction == Direction::kIn ? BackgroundTraffic{kHostEnd, link}
                                     : BackgroundTraffic{link, kHostEnd};
}

class Selector : public ::testing::TestWithParam<Direction> {};
INSTANTIATE_TEST_SUITE_P(Ways, Selector, ::testing::ValuesIn(kBothDirections),
                         [](const auto& way) { return std::string(name_of(way.param)); });

TEST_P(Selector, OnAsymmetricSocketsIsNearTheBestSet) {
  for (int target = 0; target < 8; ++target) {
    EXPECT_GE(share_of_best(setup_of(eight_h200(), 8), target, GetParam(), gib(1)), kShareOfBest)
        << target;
  }
}

TEST_P(Selector, OnAPlainMachineUsesAllLinks) {
  const LinkProfile profile = device::make_link_tree({.devices = 4, .latency = micros(1)});
  EXPECT_GE(share_of_best(setup_of(profile, 4), 2, GetParam(), gib(1)), kShareOfBest);
}

TEST_P(Selector, BehindSwitchesIsNearTheBestSet) {
  const LinkProfile profile = device::make_link_tree(
      {.devices = 8, .devices_per_switch = 2, .switch_link = 60e9, .latency = micros(1)});
  EXPECT_GE(share_of_best(setup_of(profile, 8), 3, GetParam(), gib(1)), kShareOfBest);
}

// The share of the best that a second task reaches with what the first one taught.
double learnt_share_of_best(SimulationSetup setup, int target, Direction direction) {
  const int links = setup.facts.links;
  const BestSet best =
      exhaustive_best(setup.profile, links, {direction, {}, target, setup.background});
  setup.tasks.push_back({task(0, target, direction, gib(8)), Nanos(0)});
  setup.tasks.push_back({task(1, target, direction, gib(2)), Nanos(0)});
  const auto result = simulate_transfers(std::move(setup));
  return rate_of(result, TaskId(1), gib(2), result.tasks.at(TaskId(0)).at) / best.rate;
}

// More links mean a larger share of what is congested, so here the best set is not the map's.
TEST_P(Selector, BesideNativeTrafficOnOneLinkIsNearTheBestSet) {
  for (int busy = 0; busy < 8; busy += 3) {
    SimulationSetup setup = setup_of(eight_h200(), 8);
    setup.background = {native(GetParam(), busy)};
    EXPECT_GE(share_of_best(setup, 5, GetParam(), gib(1)), 0.85) << busy;
    EXPECT_GE(learnt_share_of_best(setup, 5, GetParam()), kShareOfBest) << busy;
  }
}

TEST_P(Selector, CongestedOnHalfItsLinksIsNearTheBestSet) {
  SimulationSetup setup = setup_of(eight_h200(), 8);
  for (int link = 4; link < 8; ++link) setup.background.push_back(native(GetParam(), link));
  EXPECT_GE(learnt_share_of_best(std::move(setup), 6, GetParam()), kShareOfBest);
}

// Links slower than when the map was made: the map's best set is wrong, and others must be found.
TEST_P(Selector, FindsOtherLinksWhenTheMapIsWrong) {
  LinkProfile now = eight_h200();
  for (auto& resource : now.resources) {
    for (const char* name : {"device4.", "device5.", "device6."}) {
      const bool link =
          resource.name == name + std::string("in") || resource.name == name + std::string("out");
      if (link) resource.bytes_per_second = 8e9;
    }
  }
  SimulationSetup setup = setup_of(eight_h200(), 8);
  setup.profile = now;
  const BestSet best = exhaustive_best(now, 8, {GetParam(), {}, 7, {}});
  // What the tuner learnt stays for the next task.
  setup.tasks.push_back({task(0, 7, GetParam(), gib(8)), Nanos(0)});
  setup.tasks.push_back({task(1, 7, GetParam(), gib(4)), Nanos(0)});
  const auto result = simulate_transfers(setup);
  const double second = rate_of(result, TaskId(1), gib(4), result.tasks.at(TaskId(0)).at);
  EXPECT_GE(second, 0.9 * best.rate);
  setup.options.tune_sets = false;
  const auto fixed = simulate_transfers(setup);
  EXPECT_LT(
      fixed.tasks.size() == 2 ? rate_of(fixed, TaskId(1), gib(4), fixed.tasks.at(TaskId(0)).at) : 0,
      second * 0.97)
      << "the map alone would have done";
}

TEST_P(Selector, WithoutAMapLearnsWhichLinksHarm) {
  SimulationSetup setup = setup_of(eight_h200(), 8);
  setup.facts = assume_all_links(8);
  const BestSet best = exhaustive_best(setup.profile, 8, {GetParam(), {}, 4, {}});
  setup.tasks.push_back({task(0, 4, GetParam(), gib(16)), Nanos(0)});
  setup.tasks.push_back({task(1, 4, GetParam(), gib(4)), Nanos(0)});
  const auto result = simulate_transfers(std::move(setup));
  EXPECT_GE(rate_of(result, TaskId(1), gib(4), result.tasks.at(TaskId(0)).at), 0.9 * best.rate);
}

// However the tuner came to use only the target's own link, later transfers find the way back.
TEST_P(Selector, FromItsOwnLinkAloneItFindsTheOthers) {
  const LinkProfile profile = device::make_link_tree({.devices = 2, .latency = micros(1)});
  SimulationSetup setup = setup_of(profile, 2);
  setup.facts.way(GetParam()).best[0] = LinkSet::of(0);
  for (int i = 0; i < 24; ++i) {
    setup.tasks.push_back({task(i, 0, GetParam(), mib(256)), millis(20) * i});
  }
  const BestSet best = exhaustive_best(setup.profile, 2, {GetParam(), {}, 0, {}});
  const auto result = simulate_transfers(std::move(setup));
  EXPECT_GE(rate_of(result, TaskId(23), mib(256), millis(20) * 23), 0.9 * best.rate);
}

// The share of what native copies of 55 GB/s take that each of so many transfers takes, the slowest
// first. They come one by one, and each finds the engine's thread asleep: ends are seen late.
std::vector<double> shares_of_native(Direction direction, Bytes bytes, Nanos launch, Nanos wake) {
  LinkProfile profile = device::make_link_tree({.devices = 4, .latency = launch});
  const int memory = static_cast<int>(profile.resources.size());
  profile.resources.push_back({"memory", 128e9});
  for (device::LinkPath& path : profile.paths) {
    if (path.source == kHostEnd || path.target == kHostEnd) path.route.push_back(memory);
  }
  SimulationSetup setup = setup_of(profile, 4);
  setup.wake = wake;
  for (int i = 0; i < 40; ++i) {
    setup.tasks.push_back({task(i, 0, direction, bytes), millis(1) * i});
  }
  const auto result = simulate_transfers(std::move(setup));
  std::vector<double> shares;
  for (int i = 0; i < 40; ++i) {
    const double native = static_cast<double>(bytes.count) / 55e9;
    shares.push_back(to_seconds(result.tasks.at(TaskId(i)).at - millis(1) * i) / native);
  }
  std::sort(shares.rbegin(), shares.rend());
  return shares;
}

// When those ends counted, all relays looked slow and the target's own link fast: transfers of 12
// MiB went over it alone from then on.
TEST_P(Selector, ShortTransfersThatFindTheEngineAsleepUseManyLinks) {
  for (const Nanos wake : {Nanos(0), micros(60), micros(120), micros(180)}) {
    for (const Nanos launch : {micros(5), micros(10), micros(20)}) {
      for (const Bytes bytes : {mib(12), mib(16)}) {
        const auto shares = shares_of_native(GetParam(), bytes, launch, wake);
        const std::string what = std::to_string(bytes.count >> 20) + " MiB, launched in " +
                                 std::to_string(launch.count) + " ns, seen after " +
                                 std::to_string(wake.count);
        EXPECT_LT(shares.front(), 0.85) << what;
        EXPECT_LT(shares[20], 0.8) << what;
      }
    }
  }
}

// Paper §5.1.2: native copies on one link keep about half of it.
TEST_P(Selector, NativeTrafficKeepsItsShareOfTheLink) {
  const LinkProfile profile = device::make_link_tree({.devices = 4, .latency = micros(1)});
  SimulationSetup setup = setup_of(profile, 4);
  setup.background = {native(GetParam(), 0)};
  setup.tasks.push_back({task(0, 0, GetParam(), gib(2)), Nanos(0)});
  const auto result = simulate_transfers(std::move(setup));
  const double rate = static_cast<double>(result.background[0].count) / to_seconds(result.end);
  EXPECT_GE(rate, 0.45 * 55e9);
}

// Yielding, it keeps clearly more than its half.
TEST_P(Selector, YieldingLeavesTheLinkToNativeTraffic) {
  const LinkProfile profile = device::make_link_tree({.devices = 4, .latency = micros(1)});
  const auto background_rate = [&](Nanos yield) {
    SimulationSetup setup = setup_of(profile, 4);
    setup.options.yield_for = yield;
    setup.background = {native(GetParam(), 1)};
    setup.tasks.push_back({task(0, 0, GetParam(), gib(2)), Nanos(0)});
    const auto result = simulate_transfers(std::move(setup));
    return static_cast<double>(result.background[0].count) / to_seconds(result.end);
  };
  EXPECT_GT(background_rate(millis(1)), 1.3 * background_rate(Nanos(0)));
}

// Figure 11: dynamic does as well as the split that fits, without and with traffic on one link.
TEST_P(Selector, DynamicBeatsEitherStaticSplitWhereThatDoesNotFit) {
  const LinkProfile profile = device::make_link_tree({.devices = 2, .latency = micros(1)});
  const auto seconds = [&](std::vector<double> shares, bool congested) {
    SimulationSetup setup = setup_of(profile, 2);
    if (!shares.empty()) {
      setup.options.relay = RelayPolicy::kStatic;
      setup.options.static_shares = std::move(shares);
    }
    if (congested) setup.background = {native(GetParam(), 0)};
    setup.tasks.push_back({task(0, 0, GetParam(), gib(1)), Nanos(0)});
    return to_seconds(simulate_transfers(std::move(setup)).tasks.at(TaskId(0)).at);
  };
  for (const bool congested : {false, true}) {
    const double fitting = congested ? seconds({1, 2}, true) : seconds({1, 1}, false);
    const double other = congested ? seconds({1, 1}, true) : seconds({1, 2}, false);
    EXPECT_LT(seconds({}, congested), 1.03 * fitting) << congested;
    EXPECT_GT(other, 1.2 * fitting) << congested;
  }
}

// Table 2 of the paper: eight transfers to their own GPUs move nothing between GPUs.
TEST_P(Selector, DirectFirstKeepsThePeerLinksFree) {
  const LinkProfile profile = device::make_link_tree({.devices = 8, .latency = micros(1)});
  const auto relayed = [&](bool direct_first) {
    SimulationSetup setup = setup_of(profile, 8);
    setup.options.direct_first = direct_first;
    for (int t = 0; t < 8; ++t) {
      setup.tasks.push_back({task(t, t, GetParam(), mib(512)), micros(50) * t});
    }
    Bytes bytes;
    for (const auto& link : simulate_transfers(std::move(setup)).links) {
      bytes += link[index_of(GetParam())].relayed;
    }
    return bytes;
  };
  EXPECT_LT(relayed(true), mib(256));  // of 4 GiB: while only some have begun, or are not done
  EXPECT_GT(relayed(false), relayed(true) * 3);
}

// An urgent task, of the same target or another, waits only for the chunks that are under way.
TEST_P(Selector, UrgentTasksOvertake) {
  for (const int target : {4, 5}) {
    SimulationSetup setup = setup_of(eight_h200(), 8);
    setup.tasks.push_back({task(0, 4, GetParam(), gib(4), CopyPriority::kPromotion), Nanos(0)});
    setup.tasks.push_back({task(1, target, GetParam(), mib(512), CopyPriority::kStep), millis(5)});
    const auto result = simulate_transfers(setup);
    setup.tasks.erase(setup.tasks.begin());
    const auto alone = simulate_transfers(setup);
    const Nanos took = result.tasks.at(TaskId(1)).at - millis(5);
    const Nanos least = alone.tasks.at(TaskId(1)).at - millis(5);
    EXPECT_LT(to_seconds(took), 1.2 * to_seconds(least)) << target;
  }
}

// Concurrent targets share: each makes progress, and together they get what one would.
TEST_P(Selector, TwoTargetsShareTheLinks) {
  SimulationSetup setup = setup_of(eight_h200(), 8);
  setup.tasks.push_back({task(0, 0, GetParam(), gib(1)), Nanos(0)});
  setup.tasks.push_back({task(1, 6, GetParam(), gib(1)), Nanos(0)});
  const BestSet best = exhaustive_best(setup.profile, 8, {GetParam(), {}, 6, {}});
  const auto result = simulate_transfers(std::move(setup));
  const double both = 2.0 * static_cast<double>(gib(1).count) / to_seconds(result.end);
  EXPECT_GE(both, 0.85 * best.rate);
  for (const auto& [id, end] : result.tasks) {
    EXPECT_GT(to_seconds(end.at), 0.5 * to_seconds(result.end)) << id.value;
  }
}

}  // namespace
}  // namespace causeway::transfer::selector_test
