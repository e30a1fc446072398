#include "preload/settings.h"

#include <gtest/gtest.h>

#include <map>

namespace causeway::preload::settings_test {
namespace {

Settings read(const std::map<std::string, std::string>& variables) {
  return read_settings([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Settings, DefaultsWithoutAnyVariable) {
  const Settings settings = read({});
  EXPECT_FALSE(settings.off);
  EXPECT_EQ(settings.threshold, mib(12));
  EXPECT_FALSE(settings.gpus.has_value());
  EXPECT_FALSE(settings.wait_for_opening);
  EXPECT_EQ(settings.order, Order::kValue);
  EXPECT_FALSE(settings.native_sync);
  EXPECT_EQ(settings.async, Async::kNative);
  EXPECT_TRUE(settings.complaints.empty());
}

TEST(Settings, WhatIsSaidIsDone) {
  const Settings settings = read({{"CAUSEWAY_PRELOAD", "off"},
                                  {"CAUSEWAY_THRESHOLD", "1G"},
                                  {"CAUSEWAY_CHUNK", "2048K"},
                                  {"CAUSEWAY_DEPTH", "3"},
                                  {"CAUSEWAY_GPUS", "0,2,5"},
                                  {"CAUSEWAY_RELAYS", "none"},
                                  {"CAUSEWAY_STAGING", "0"},
                                  {"CAUSEWAY_SYNC", "native"},
                                  {"CAUSEWAY_ASYNC", "hold"},
                                  {"CAUSEWAY_ORDER", "kernel"},
                                  {"CAUSEWAY_OPEN", "wait"},
                                  {"CAUSEWAY_STATISTICS", "stderr"}});
  EXPECT_TRUE(settings.off);
  EXPECT_EQ(settings.threshold, gib(1));
  EXPECT_EQ(settings.chunk, mib(2));
  EXPECT_EQ(settings.depth, 3);
  EXPECT_EQ(settings.gpus, (std::vector<int>{0, 2, 5}));
  EXPECT_EQ(settings.relays, std::vector<int>{});
  EXPECT_EQ(settings.staging, Bytes(0));
  EXPECT_TRUE(settings.native_sync);
  EXPECT_EQ(settings.async, Async::kHold);
  EXPECT_EQ(settings.order, Order::kKernel);
  EXPECT_TRUE(settings.wait_for_opening);
  EXPECT_EQ(settings.statistics, "stderr");
  EXPECT_TRUE(settings.complaints.empty());
}

TEST(Settings, MapsAreKeptWhereTheCommandLineKeepsThem) {
  EXPECT_EQ(read({}).link_map_folder, "");
  EXPECT_EQ(read({{"HOME", "/somebody"}}).link_map_folder, "/somebody/.cache/causeway");
  EXPECT_EQ(read({{"HOME", "/somebody"}, {"XDG_CACHE_HOME", "/cache"}}).link_map_folder,
            "/cache/causeway");
}

TEST(Settings, NonsenseIsNamedAndIgnored) {
  const std::map<std::string, std::string> nonsense = {
      {"CAUSEWAY_PRELOAD", "maybe"},     {"CAUSEWAY_THRESHOLD", "12MB"},
      {"CAUSEWAY_CHUNK", "64G"},         {"CAUSEWAY_DEPTH", "0"},
      {"CAUSEWAY_GPUS", "0,,1"},         {"CAUSEWAY_RELAYS", "1,64"},
      {"CAUSEWAY_STAGING", "-1"},        {"CAUSEWAY_ORDER", "Kernel"},
      {"CAUSEWAY_OPEN", "later please"}, {"CAUSEWAY_ASYNC", "both"},
      {"CAUSEWAY_SYNC", "hold"},
  };
  const Settings settings = read(nonsense);
  EXPECT_EQ(settings.complaints.size(), nonsense.size());
  EXPECT_FALSE(settings.off);
  EXPECT_EQ(settings.threshold, mib(12));
  EXPECT_EQ(settings.chunk, mib(4));
  EXPECT_EQ(settings.depth, 2);
  EXPECT_FALSE(settings.gpus.has_value());
  EXPECT_FALSE(settings.relays.has_value());
}

TEST(Settings, BuffersThatDoNotFitAreNamed) {
  EXPECT_TRUE(read({{"CAUSEWAY_CHUNK", "16M"}}).complaints.empty());
  EXPECT_EQ(read({{"CAUSEWAY_CHUNK", "17M"}}).complaints.size(), 1U);
  EXPECT_EQ(read({{"CAUSEWAY_STAGING", "8M"}}).complaints.size(), 1U);
}

TEST(Settings, SizesThatOverflowAreNonsense) {
  for (const char* size : {"99999999999999999999", "9223372036854775807G", "1048577G", "K"}) {
    EXPECT_EQ(read({{"CAUSEWAY_THRESHOLD", size}}).complaints.size(), 1U) << size;
  }
}

}  // namespace
}  // namespace causeway::preload::settings_test
