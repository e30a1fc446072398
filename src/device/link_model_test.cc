#include "device/link_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/random.h"
#include "device/link_profile.h"

namespace causeway::device::link_model_test {
namespace {

constexpr double kGiga = 1e9;

// A machine's model, with transfers identified by their ends.
class Machine {
 public:
  explicit Machine(const LinkTree& tree)
      : profile_(make_link_tree(tree)), model(profile_.resources) {}

  FlowId start(int source, int target, Bytes bytes, Nanos now = Nanos(0),
               CopyPriority priority = CopyPriority::kStep) {
    const LinkPath* path = profile_.find(source, target);
    return model.start({bytes, path->route, priority, path->latency}, now);
  }
  double rate(FlowId flow) const { return model.bytes_per_second(flow) / kGiga; }
  std::map<FlowId, double> run_until_idle() {
    std::map<FlowId, double> seconds;
    while (const auto next = model.next_event()) model.advance(*next);
    for (const FlowEnd& end : model.take_ended()) seconds[end.flow] = to_seconds(end.at);
    return seconds;
  }

 private:
  LinkProfile profile_;

 public:
  LinkModel model;
};

LinkTree without_latency(LinkTree tree = {}) {
  tree.latency = Nanos(0);
  return tree;
}

// Four near writers, then four far ones, then all eight: the far ones waste what the near ones
// could use, so that all eight together move less than the near ones alone.
TEST(LinkModel, CostsMakeSomePathsWorseThanNone) {
  constexpr double kFar = 2;
  const auto total = [&](int near, int far) {
    LinkModel model({{"memory", 120 * kGiga}});
    std::vector<FlowId> flows;
    for (int f = 0; f < near + far; ++f) {
      LinkTransfer transfer{gib(1), {0}, CopyPriority::kStep, Nanos(0)};
      if (f >= near) transfer.costs = {kFar};
      flows.push_back(model.start(transfer, Nanos(0)));
    }
    double sum = 0;
    for (const FlowId flow : flows) sum += model.bytes_per_second(flow) / kGiga;
    EXPECT_NEAR(model.load(0), 120 * kGiga, 1e3);
    return sum;
  };
  EXPECT_NEAR(total(4, 0), 120, 1e-6);
  EXPECT_NEAR(total(0, 4), 60, 1e-6);
  EXPECT_NEAR(total(4, 4), 80, 1e-6);
}

TEST(LinkModel, CostsAreAccounted) {
  LinkModel model({{"memory", 10 * kGiga}});
  model.start({Bytes(10'000'000), {0}, CopyPriority::kStep, Nanos(0), {2.5}}, Nanos(0));
  EXPECT_EQ(model.next_event(), micros(2'500));
  model.advance(micros(1'000));
  EXPECT_EQ(model.accounted(0), Bytes(10'000'000));
  model.advance(micros(2'500));
  EXPECT_EQ(model.accounted(0), Bytes(25'000'000));
}

TEST(LinkProfile, CostsMustFitTheRoute) {
  LinkProfile profile = make_link_tree({.devices = 1});
  profile.paths[0].costs = {1, 1.8};
  EXPECT_TRUE(check(profile).ok());
  profile.paths[0].costs = {1};
  EXPECT_FALSE(check(profile).ok());
  profile.paths[0].costs = {1, 0};
  EXPECT_FALSE(check(profile).ok());
}

TEST(LinkModel, OneTransferHasTheLinkToItself) {
  Machine machine(without_latency());
  const FlowId flow = machine.start(kHostEnd, 0, Bytes(55'000'000));
  EXPECT_DOUBLE_EQ(machine.rate(flow), 55);
  EXPECT_EQ(machine.model.next_event(), millis(1));
  machine.model.advance(micros(500));
  EXPECT_EQ(machine.model.moved(flow), Bytes(27'500'000));
  EXPECT_EQ(machine.model.accounted(0), Bytes(27'500'000));
  machine.model.advance(millis(7));
  EXPECT_EQ(machine.model.moved(flow), std::nullopt);
  EXPECT_EQ(machine.model.accounted(0), Bytes(55'000'000));
  const auto ended = machine.model.take_ended();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].at, millis(1));  // not when it was noticed
  EXPECT_EQ(machine.model.next_event(), std::nullopt);
}

TEST(LinkModel, TransfersOneWayShareTheLink) {
  Machine machine(without_latency());
  const FlowId a = machine.start(kHostEnd, 0, Bytes(55'000'000));
  const FlowId b = machine.start(kHostEnd, 0, Bytes(110'000'000));
  EXPECT_DOUBLE_EQ(machine.rate(a), 27.5);
  EXPECT_DOUBLE_EQ(machine.rate(b), 27.5);
  const auto ends = machine.run_until_idle();
  EXPECT_NEAR(ends.at(a), 2e-3, 1e-8);
  EXPECT_NEAR(ends.at(b), 3e-3, 1e-8);  // the link was never idle
}

TEST(LinkModel, BothWaysAreBoundByTheirSum) {
  Machine machine(without_latency());
  const FlowId in = machine.start(kHostEnd, 0, gib(1));
  const FlowId out = machine.start(0, kHostEnd, gib(1));
  EXPECT_DOUBLE_EQ(machine.rate(in) + machine.rate(out), 97);
  EXPECT_DOUBLE_EQ(machine.rate(in), 48.5);
}

TEST(LinkModel, DevicesBehindASwitchShareIt) {
  LinkTree tree = without_latency({.devices = 3, .devices_per_switch = 2});
  tree.switch_link = 78e9;
  Machine machine(tree);
  const FlowId a = machine.start(kHostEnd, 0, gib(1));
  EXPECT_DOUBLE_EQ(machine.rate(a), 55);
  const FlowId b = machine.start(kHostEnd, 1, gib(1));
  const FlowId other_switch = machine.start(kHostEnd, 2, gib(1));
  EXPECT_DOUBLE_EQ(machine.rate(a), 39);
  EXPECT_DOUBLE_EQ(machine.rate(b), 39);
  EXPECT_DOUBLE_EQ(machine.rate(other_switch), 55);
  const FlowId peer = machine.start(0, 1, gib(1));  // NVLink shares nothing with the rest
  EXPECT_DOUBLE_EQ(machine.rate(peer), 395);
  EXPECT_DOUBLE_EQ(machine.rate(a), 39);
}

TEST(LinkModel, WhatOneCannotUseOthersGet) {
  LinkModel model({{"shared", 10}, {"narrow", 2}});
  const FlowId narrow = model.start({Bytes(1'000), {0, 1}, CopyPriority::kStep, {}}, Nanos(0));
  const FlowId wide = model.start({Bytes(1'000), {0}, CopyPriority::kStep, {}}, Nanos(0));
  EXPECT_DOUBLE_EQ(model.bytes_per_second(narrow), 2);
  EXPECT_DOUBLE_EQ(model.bytes_per_second(wide), 8);
  EXPECT_DOUBLE_EQ(model.load(0), 10);
}

TEST(LinkModel, UrgentBytesGoFirst) {
  Machine machine(without_latency());
  const FlowId twin = machine.start(kHostEnd, 0, Bytes(55'000'000), Nanos(0), CopyPriority::kTwin);
  const FlowId step = machine.start(kHostEnd, 0, Bytes(55'000'000), micros(500));
  EXPECT_DOUBLE_EQ(machine.rate(twin), 0);
  EXPECT_DOUBLE_EQ(machine.rate(step), 55);
  const auto ends = machine.run_until_idle();
  EXPECT_NEAR(ends.at(step), 1.5e-3, 1e-8);
  EXPECT_NEAR(ends.at(twin), 2e-3, 1e-8);
}

TEST(LinkModel, LessUrgentBytesUseWhatIsLeft) {
  Machine machine(without_latency());
  const FlowId out = machine.start(0, kHostEnd, gib(1), Nanos(0), CopyPriority::kTwin);
  const FlowId in = machine.start(kHostEnd, 0, gib(1));
  EXPECT_DOUBLE_EQ(machine.rate(in), 55);
  EXPECT_DOUBLE_EQ(machine.rate(out), 42);
}

TEST(LinkModel, LatencyComesFirstAndTakesNoBandwidth) {
  Machine machine({.latency = micros(20)});
  const FlowId a = machine.start(kHostEnd, 0, Bytes(550'000));
  EXPECT_EQ(machine.model.next_event(), micros(20));
  EXPECT_DOUBLE_EQ(machine.rate(a), 0);
  EXPECT_EQ(machine.model.when_moved(a, Bytes(1)), micros(20));
  const FlowId b = machine.start(kHostEnd, 0, Bytes(550'000), micros(15));
  machine.model.advance(micros(25));
  EXPECT_DOUBLE_EQ(machine.rate(a), 55);
  EXPECT_EQ(machine.model.moved(a), Bytes(275'000));
  EXPECT_EQ(machine.model.when_moved(a, Bytes(330'000)), micros(26));
  EXPECT_NEAR(machine.run_until_idle().at(a), 30e-6, 1e-8);
  EXPECT_EQ(machine.model.moved(b), std::nullopt);
}

TEST(LinkModel, NothingToMoveTakesTheLatency) {
  LinkModel model({{"link", 10}});
  model.start({Bytes(0), {0}, CopyPriority::kStep, micros(3)}, Nanos(0));
  model.start({gib(1), {}, CopyPriority::kStep, micros(5)}, Nanos(0));  // crosses nothing
  model.start({Bytes(0), {0}, CopyPriority::kStep, {}}, Nanos(0));
  model.advance(seconds(1));
  const auto ended = model.take_ended();
  ASSERT_EQ(ended.size(), 3u);
  EXPECT_EQ(ended[0].at, Nanos(0));
  EXPECT_EQ(ended[1].at, micros(3));
  EXPECT_EQ(ended[2].at, micros(5));
}

TEST(LinkModel, CancelledTransfersKeepWhatTheyMoved) {
  Machine machine(without_latency());
  const FlowId a = machine.start(kHostEnd, 0, gib(10));
  const FlowId b = machine.start(kHostEnd, 0, gib(10));
  machine.model.cancel(a, millis(2));
  EXPECT_DOUBLE_EQ(machine.rate(b), 55);
  machine.model.cancel(b, millis(3));
  machine.model.cancel(b, millis(4));
  EXPECT_EQ(machine.model.flows(), 0);
  EXPECT_NEAR(static_cast<double>(machine.model.accounted(0).count), 165e6, 2);
  EXPECT_TRUE(machine.model.take_ended().empty());
}

// Random machines and transfers.
struct Workload {
  explicit Workload(std::uint64_t seed) : random(seed) {
    const auto count = random.between(1, 6);
    for (std::int64_t r = 0; r < count; ++r) {
      resources.push_back({"r" + std::to_string(r), std::pow(10, 6 + 4 * random.uniform())});
    }
    const auto transfers_count = random.between(1, 25);
    Nanos now(random.between(-1'000'000'000, 1'000'000'000));
    for (std::int64_t t = 0; t < transfers_count; ++t) {
      LinkTransfer transfer{Bytes(random.below(50'000'000)),
                            {},
                            static_cast<CopyPriority>(random.below(kCopyPriorities)),
                            Nanos(random.below(1'000'000))};
      for (int r = 0; r < count; ++r) {
        if (random.chance(0.5)) transfer.route.push_back(r);
      }
      now += Nanos(random.below(20'000'000));
      starts.push_back({now, transfer});
    }
  }
  Random random;
  std::vector<LinkResource> resources;
  std::vector<std::pair<Nanos, LinkTransfer>> starts;
};

// No resource is overloaded, and no flow could be faster without slowing one that is no faster and
// no less urgent: every flow has a saturated resource where it is among the fastest.
void expect_max_min_fair(const LinkModel& model, const std::map<FlowId, LinkTransfer>& running) {
  for (std::size_t r = 0; r < model.resources().size(); ++r) {
    ASSERT_LE(model.load(static_cast<int>(r)), model.resources()[r].bytes_per_second * (1 + 1e-9));
  }
  for (const auto& [id, transfer] : running) {
    const double rate = model.bytes_per_second(id);
    const bool limited =
        std::any_of(transfer.route.begin(), transfer.route.end(), [&](int resource) {
          double used = 0, fastest = 0;
          for (const auto& [other_id, other] : running) {
            if (std::count(other.route.begin(), other.route.end(), resource) == 0) continue;
            if (other.priority > transfer.priority) continue;
            used += model.bytes_per_second(other_id);
            if (other.priority == transfer.priority) {
              fastest = std::max(fastest, model.bytes_per_second(other_id));
            }
          }
          const double capacity =
              model.resources()[static_cast<std::size_t>(resource)].bytes_per_second;
          return used >= capacity * (1 - 1e-6) - 2 && rate >= fastest * (1 - 1e-9);
        });
    ASSERT_TRUE(limited) << "flow " << id.value << " could be faster";
  }
}

TEST(LinkModel, RatesAreMaxMinFairAtEveryMoment) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Workload workload(seed);
    LinkModel model(workload.resources);
    std::map<FlowId, LinkTransfer> started;
    for (auto& [at, transfer] : workload.starts) {
      started[model.start(transfer, at)] = transfer;
      std::map<FlowId, LinkTransfer> flowing;
      for (const auto& [id, t] : started) {
        const bool still = !model.when_moved(id, t.bytes);  // not for its latency: others go first
        if (model.moved(id) && (still || model.bytes_per_second(id) > 0)) {
          flowing[id] = t;
        }
      }
      expect_max_min_fair(model, flowing);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(LinkModel, EveryByteIsAccountedAndEveryTransferEnds) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Workload workload(seed);
    LinkModel model(workload.resources);
    std::vector<std::int64_t> expected(workload.resources.size(), 0);
    for (auto& [at, transfer] : workload.starts) {
      model.start(transfer, at);
      for (const int r : transfer.route) {
        expected[static_cast<std::size_t>(r)] += transfer.bytes.count;
      }
    }
    const Nanos first = workload.starts.front().first;
    Nanos last = first;
    while (const auto next = model.next_event()) model.advance(last = *next);
    EXPECT_EQ(model.flows(), 0);
    EXPECT_EQ(model.take_ended().size(), workload.starts.size());
    for (std::size_t r = 0; r < expected.size(); ++r) {
      EXPECT_EQ(model.accounted(static_cast<int>(r)).count, expected[r]);
      const double capacity = workload.resources[r].bytes_per_second * to_seconds(last - first);
      EXPECT_LE(static_cast<double>(expected[r]), capacity * (1 + 1e-6) + 1e3);
    }
  }
}

TEST(LinkModel, HowOftenItIsAskedChangesNothing) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Workload workload(seed);
    LinkModel lazy(workload.resources), eager(workload.resources);
    for (auto& [at, transfer] : workload.starts) {
      const FlowId flow = lazy.start(transfer, at);
      EXPECT_EQ(eager.start(transfer, at), flow);
      eager.advance(at + Nanos(0));
    }
    const Nanos start = workload.starts.back().first;
    for (Nanos t = start; t < start + millis(50); t += Nanos(workload.random.below(900'000))) {
      eager.advance(t);
    }
    lazy.advance(start + seconds(3600));
    eager.advance(start + seconds(3600));
    const auto a = lazy.take_ended(), b = eager.take_ended();
    std::map<FlowId, Nanos> ends;
    for (const FlowEnd& end : a) ends[end.flow] = end.at;
    ASSERT_EQ(a.size(), b.size());
    for (const FlowEnd& end : b) {
      EXPECT_NEAR(static_cast<double>(ends.at(end.flow).count), static_cast<double>(end.at.count),
                  200);
    }
  }
}

TEST(LinkModelDeath, MisuseIsABug) {
  EXPECT_DEATH(LinkModel({{"dead", 0}}), "bandwidth");
  EXPECT_DEATH(LinkModel({{"nan", std::nan("")}}), "bandwidth");
  LinkModel model({{"link", 10}});
  EXPECT_DEATH(model.start({Bytes(1), {1}, CopyPriority::kStep, {}}, Nanos(0)), "known resources");
  EXPECT_DEATH(model.start({Bytes(1), {0, 0}, CopyPriority::kStep, {}}, Nanos(0)), "once each");
  model.advance(seconds(1));
  EXPECT_DEATH(model.advance(Nanos(0)), "backwards");
}

TEST(LinkProfile, TreeIsSoundAndHasAllPaths) {
  const LinkProfile profile =
      make_link_tree({.devices = 4, .devices_per_switch = 2, .switch_link = 78e9});
  EXPECT_TRUE(check(profile).ok());
  EXPECT_EQ(profile.paths.size(), 4u * 2 + 4 * 3);
  EXPECT_NE(profile.find(3, 1), nullptr);
  EXPECT_EQ(profile.find(4, kHostEnd), nullptr);
  EXPECT_EQ(make_link_tree({.devices = 2, .peer_link = 0}).find(0, 1), nullptr);
}

TEST(LinkProfile, NonsenseIsNamed) {
  const LinkProfile good = make_link_tree({});
  const auto message = [](const LinkProfile& profile) { return check(profile).error().message; };
  LinkProfile bad = good;
  bad.resources[1].bytes_per_second = std::nan("");
  EXPECT_NE(message(bad).find("device0.out"), std::string::npos);
  bad = good;
  bad.paths[0].route = {0, 99};
  EXPECT_NE(message(bad).find("from the host to device 0 crosses an unknown"), std::string::npos);
  bad.paths[0].route = {0, 0};
  EXPECT_NE(message(bad).find("twice"), std::string::npos);
  bad = good;
  bad.paths.push_back(bad.paths[0]);
  EXPECT_NE(message(bad).find("twofold"), std::string::npos);
  bad = good;
  bad.paths[0].latency = Nanos(-1);
  EXPECT_NE(message(bad).find("latency"), std::string::npos);
}

}  // namespace
}  // namespace causeway::device::link_model_test
