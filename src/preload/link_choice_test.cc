#include "preload/link_choice.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/testing/temporary_directory.h"
#include "preload/testing/fake_driver.h"

namespace causeway::preload::link_choice_test {
namespace {

using transfer::Direction;
using transfer::LinkSet;

TEST(OnlyMap, IsTakenWhenThereIsNoOther) {
  const TemporaryDirectory directory;
  const std::string folder = directory.path() / "maps";
  EXPECT_EQ(only_map_in("", 2), "");
  EXPECT_EQ(only_map_in(folder, 2), "");
  std::filesystem::create_directories(folder);
  const auto put = [&](const std::string& name) { std::ofstream(folder + "/" + name) << "{}"; };
  put("links-2x-a-1.json");
  put("links-22x-a-1.json");
  put("links-2x-a-1.json.77.part");
  EXPECT_EQ(only_map_in(folder, 2), folder + "/links-2x-a-1.json");
  EXPECT_EQ(only_map_in(folder, 8), "");
  put("links-2x-b-2.json");
  EXPECT_EQ(only_map_in(folder, 2), "");
}

TEST(PathsFor, AreAssumedWithoutAMapThatFits) {
  fake_fault(static_cast<int>(FakeFault::kNone), -1);
  fake_gpus(4);
  const Native native = load_native(fake_symbol);
  const RealClock clock;
  auto gpus = Gpus::open(native, {{0, 1, 2}, {1}, mib(4)}, clock);
  ASSERT_TRUE(gpus.ok()) << gpus.error().message;
  const TemporaryDirectory directory;
  const std::string broken = directory.path() / "broken.json";
  std::ofstream(broken) << "{\"causeway_link_map\": 1, \"links\": 99";
  for (const std::string& file : {std::string("none"), std::string("/not/there"), broken}) {
    std::vector<std::string> said;
    const transfer::PathFacts facts =
        paths_for(**gpus, file, "", [&](const std::string& text) { said.push_back(text); });
    EXPECT_EQ(said.size(), file == "none" ? 0U : 1U) << file;
    for (const std::string& text : said) {
      EXPECT_NE(text.find("CAUSEWAY_LINK_MAP=" + file + " is ignored: "), std::string::npos)
          << text;
    }
    // GPU 1 relays for the others, and no GPU relays for it.
    EXPECT_EQ(facts.way(Direction::kIn).reach[0], LinkSet::of(0).with(1)) << file;
    EXPECT_EQ(facts.way(Direction::kOut).reach[1], LinkSet::of(1)) << file;
    EXPECT_EQ(facts.way(Direction::kOut).best[2], LinkSet::of(1).with(2)) << file;
  }
}

}  // namespace
}  // namespace causeway::preload::link_choice_test
