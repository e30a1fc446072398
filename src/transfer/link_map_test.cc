#include "transfer/link_map.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/random.h"
#include "base/testing/temporary_directory.h"
#include "transfer/testing/machines.h"

namespace causeway::transfer::link_map_test {
namespace {

using testing::eight_h200;
using testing::map_of;
using testing::ModelProber;
using testing::steady_rate;

LinkSet set_of(std::initializer_list<int> links) {
  LinkSet set;
  for (const int link : links) set = set.with(link);
  return set;
}

double own_rate(Direction direction, LinkSet links) {
  return steady_rate(eight_h200(), {direction, links, std::nullopt, {}}) * 1e-9;
}

// The model against the table of docs/design/transfer.md, which was measured.
TEST(LinkMapModel, GivesWhatWasMeasured) {
  const auto between = [](double value, double low, double high) {
    EXPECT_GE(value, low);
    EXPECT_LE(value, high);
  };
  between(own_rate(Direction::kIn, set_of({0, 1})), 78, 100);
  between(own_rate(Direction::kOut, set_of({0, 1})), 63, 80);
  between(own_rate(Direction::kIn, set_of({0, 1, 2, 3})), 78, 100);
  between(own_rate(Direction::kOut, set_of({0, 1, 2, 3})), 67, 78);
  between(own_rate(Direction::kIn, set_of({4, 5, 6, 7})), 159, 178);
  between(own_rate(Direction::kOut, set_of({4, 5, 6, 7})), 124, 139);
  between(own_rate(Direction::kIn, set_of({0, 2, 4, 6})), 145, 164);
  between(own_rate(Direction::kOut, set_of({0, 2, 4, 6})), 93, 111);
  between(own_rate(Direction::kIn, LinkSet::first(8)), 140, 170);
  between(own_rate(Direction::kOut, LinkSet::first(8)), 75, 101);
}

TEST(LinkMap, FindsThatFourLinksBeatEight) {
  const LinkMap map = map_of(eight_h200(), 8);
  for (int target = 0; target < 8; ++target) {
    const BestSet out = best_set(map, target, Direction::kOut);
    EXPECT_NEAR(out.rate * 1e-9, 132, 132 * 0.02) << target;
    EXPECT_EQ(out.links & LinkSet::first(4), LinkSet{}) << text_of(out.links);
  }
}

// For every target and direction the map's set is within 5 % of the best of all 255.
TEST(LinkMap, BestSetIsNearTheExhaustiveOne) {
  const LinkMap map = map_of(eight_h200(), 8);
  for (const Direction direction : kBothDirections) {
    for (int target = 0; target < 8; ++target) {
      const BestSet found = best_set(map, target, direction);
      const BestSet best = testing::exhaustive_best(eight_h200(), 8, {direction, {}, target, {}});
      EXPECT_GE(steady_rate(eight_h200(), {direction, found.links, target, {}}), 0.95 * best.rate)
          << name_of(direction) << " " << target << ": " << text_of(found.links) << " against "
          << text_of(best.links);
    }
  }
}

TEST(LinkMap, IsMeasuredWithFewProbes) {
  ModelProber prober(eight_h200(), 8);
  ASSERT_TRUE(measure_link_map("m", prober, {.runs = 1}).ok());
  EXPECT_LT(prober.probes, 450);  // of 20 ms: below ten seconds
}

TEST(LinkMap, WithoutPeersEveryTargetHasItsOwnLinkOnly) {
  const LinkMap map = map_of(device::make_link_tree({.devices = 4, .peer_link = 0}), 4);
  for (int target = 0; target < 4; ++target) {
    EXPECT_EQ(best_set(map, target, Direction::kIn).links, LinkSet::of(target));
  }
}

// What was measured can be modelled from the map alone.
TEST(LinkMap, MakesAProfileThatGivesItsRates) {
  const LinkMap map = map_of(eight_h200(), 8);
  const device::LinkProfile profile = profile_of(map);
  ASSERT_TRUE(device::check(profile).ok());
  for (const SetRate& set : map.own[index_of(Direction::kOut)]) {
    const double modelled = steady_rate(profile, {Direction::kOut, set.links, std::nullopt, {}});
    EXPECT_NEAR(modelled / set.rate, 1, 0.12) << text_of(set.links);
  }
}

TEST(LinkMap, SurvivesWritingAndReading) {
  const LinkMap map = map_of(eight_h200(), 8);
  const std::string written = write_link_map(map);
  const LinkMap again = read_link_map(written).value();
  EXPECT_EQ(write_link_map(again), written);
  EXPECT_EQ(best_set(again, 1, Direction::kIn).links, best_set(map, 1, Direction::kIn).links);
}

TEST(LinkMap, HostileTextIsRefused) {
  const std::string good = write_link_map(map_of(eight_h200(), 8));
  const auto with = [&](const std::string& what, const std::string& instead) {
    std::string text = good;
    const auto found = text.find(what);
    EXPECT_NE(found, std::string::npos) << what;
    text.replace(found, what.size(), instead);
    return read_link_map(text);
  };
  EXPECT_EQ(with("\"causeway_link_map\":1", "\"causeway_link_map\":2").error().code,
            ErrorCode::kUnsupported);
  for (const auto& [what, instead] : std::vector<std::pair<std::string, std::string>>{
           {"\"links\":8", "\"links\":9"},
           {"\"links\":8", "\"links\":3"},
           {"\"links\":8", "\"links\":-1"},
           {"\"links\":8", "\"links\":1e3"},
           {"\"machine\":\"modelled\"", "\"machine\":7"},
           {"\"rate\":", "\"rate\":-"},
           {"\"rate\":", "\"rate\":1e300, \"x\":"},
           {"\"rate\":", "\"rote\":"},
           {"\"target\":0", "\"target\":8"},
           {"\"source\":0", "\"source\":1"},
           {"\"own\":[", "\"own\":[[[[[[[["},
           {"\"own\":[", "\"own\":1, \"x\":["}}) {
    EXPECT_EQ(with(what, instead).error().code, ErrorCode::kCorrupt) << instead;
  }
  EXPECT_EQ(read_link_map("").error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(read_link_map("[]").error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(read_link_map(std::string(2 << 20, ' ')).error().code, ErrorCode::kCorrupt);
}

// Cutting and flipping bytes of a good map never does more than fail.
TEST(LinkMap, DamagedTextIsRefusedOrMakesSense) {
  const std::string good = write_link_map(map_of(eight_h200(), 8));
  Random random(11);
  int read = 0;
  for (int round = 0; round < 300; ++round) {
    std::string text =
        good.substr(0, static_cast<std::size_t>(random.between(0, std::ssize(good))));
    if (round % 2 == 0) text = good;
    for (int i = round % 4; i < 3 && !text.empty(); ++i) {
      text[static_cast<std::size_t>(random.below(std::ssize(text)))] =
          static_cast<char>(random.between(32, 126));
    }
    const auto map = read_link_map(text);
    if (!map.ok()) continue;
    ++read;
    EXPECT_TRUE(device::check(profile_of(*map)).ok());
  }
  EXPECT_GT(read, 0);
}

class LinkMapCache : public ::testing::Test {
 protected:
  const TemporaryDirectory directory_;
  const std::string folder_ = directory_.path() / "maps";
};

TEST_F(LinkMapCache, KeepsAMapByMachine) {
  LinkMap map = map_of(device::make_link_tree({.devices = 2}), 2);
  EXPECT_EQ(load_link_map(folder_, map.machine).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(save_link_map(folder_, map).ok());
  ASSERT_TRUE(save_link_map(folder_, map).ok());  // replaces
  EXPECT_EQ(write_link_map(load_link_map(folder_, map.machine).value()), write_link_map(map));
  std::filesystem::copy_file(link_map_path(folder_, map.machine), link_map_path(folder_, "other"));
  EXPECT_EQ(load_link_map(folder_, "other").error().code, ErrorCode::kCorrupt);
  std::ofstream(link_map_path(folder_, map.machine)) << "{";
  EXPECT_EQ(load_link_map(folder_, map.machine).error().code, ErrorCode::kCorrupt);
}

// The shipped snapshot is what measuring the modelled machine gives, and is read as a cache is.
TEST(LinkMapSnapshot, OfEightH200IsTheModelledMachines) {
  const LinkMap map = load_link_map(CAUSEWAY_TRANSFER_TESTDATA, "8x-nvidia-h200-modelled").value();
  LinkMap measured = map_of(eight_h200(), 8);
  measured.machine = map.machine;
  EXPECT_EQ(write_link_map(map), write_link_map(measured));
  EXPECT_EQ(best_set(map, 0, Direction::kOut).links, set_of({4, 5, 6, 7}));
}

TEST_F(LinkMapCache, AFolderThatCannotBeMadeIsSaid) {
  std::ofstream(folder_) << "a file";
  const LinkMap map = map_of(device::make_link_tree({.devices = 1}), 1);
  EXPECT_EQ(save_link_map(folder_ + "/below", map).error().code, ErrorCode::kIo);
}

TEST(MachineIdentity, TellsMachinesApartWithoutNamingThem) {
  topology::Machine machine;
  machine.driver = "580.1";
  machine.gpus.resize(2);
  machine.gpus[0].name = machine.gpus[1].name = "NVIDIA H200";
  machine.gpus[0].pci_id = "0000:1b:00.0";
  machine.gpus[1].pci_id = "0000:1c:00.0";
  const std::string identity = machine_identity(machine);
  EXPECT_EQ(identity.substr(0, 15), "2x-nvidia-h200-");
  EXPECT_EQ(identity, machine_identity(machine));
  machine.gpus[1].pci_id = "0000:1d:00.0";
  EXPECT_NE(identity, machine_identity(machine));
}

}  // namespace
}  // namespace causeway::transfer::link_map_test
