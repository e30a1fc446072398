// The machine's rules one by one; residency_model_test.cc has random histories.
#include "weights/residency.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace causeway::weights {
namespace {

using Kind = WeightCommand::Kind;

constexpr Bytes kExtent = mib(32);
constexpr ModelId kA(0), kB(1), kC(2);

// `layers` groups of `extents` extents each, then perhaps an embedding of one extent.
std::vector<ResidentGroup> model_of(int layers, std::int64_t extents, bool embedding = false) {
  std::vector<ResidentGroup> groups;
  for (int i = 0; i < layers; ++i) {
    groups.push_back({.offset = kExtent * (extents * i), .bytes = kExtent * extents});
  }
  if (embedding) {
    groups.push_back(
        {.offset = kExtent * (extents * layers), .bytes = kExtent, .readable_at_home = true});
  }
  return groups;
}

ResidencyOptions options_of(std::int64_t extents) {
  ResidencyOptions options;
  options.extents = extents;
  return options;
}

// A machine with what its tests do over and over.
class Cache {
 public:
  explicit Cache(const ResidencyOptions& options) : residency(options) {}
  ~Cache() {
    const Status status = residency.check_integrity();
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  }

  void add(ModelId model, std::vector<ResidentGroup> groups) {
    ASSERT_TRUE(residency.add_model(model, std::move(groups)).ok());
  }
  std::vector<WeightCommand> decide() {
    std::vector<WeightCommand> commands;
    residency.decide(now, commands);
    for (const WeightCommand& command : commands) {
      if (command.kind == Kind::kBring) copies.push_back(command);
    }
    const Status status = residency.check_integrity();
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
    return commands;
  }
  void demand(std::vector<ModelDemand> demands) { residency.demand(demands, now); }
  // Every copy that was issued ends, each after `each`.
  void copies_end(Nanos each = millis(1), bool well = true) {
    for (const WeightCommand& copy : std::exchange(copies, {})) {
      now += each;
      if (well) {
        residency.arrived(copy.model, copy.group, copy.arrival, now);
      } else {
        residency.failed(copy.model, copy.group, copy.arrival, now);
      }
    }
  }
  // It gets a request, is brought, and its request ends.
  void use(ModelId model, std::int64_t arrived = 1) {
    demand({{.model = model, .requests = arrived, .arrived = arrived}});
    decide();
    copies_end();
    EXPECT_TRUE(ready(model));
    demand({});
  }
  bool ready(ModelId model) const { return residency.readiness(model, Nanos(0), now).now; }
  std::int64_t arrivals() const { return residency.counters().arrivals; }

  Residency residency;
  Nanos now = seconds(1);
  std::vector<WeightCommand> copies;
};

TEST(Residency, AModelIsCommittedThenBroughtInReadingOrder) {
  Cache cache(options_of(4));
  cache.add(kA, model_of(3, 1, true));
  EXPECT_FALSE(cache.ready(kA));
  cache.demand({{.model = kA, .requests = 1, .arrived = 1}});
  const auto commands = cache.decide();
  ASSERT_EQ(commands.size(), 5u);
  EXPECT_EQ(commands[0].kind, Kind::kCommit);
  EXPECT_EQ(commands[0].first_extent, 0);
  EXPECT_EQ(commands[0].extents, 4);
  for (int group = 0; group < 4; ++group) {
    const WeightCommand& bring = commands[static_cast<std::size_t>(group) + 1];
    EXPECT_EQ(bring.kind, Kind::kBring);
    EXPECT_EQ(bring.group, group);
    EXPECT_EQ(bring.arrival, 1u);
    EXPECT_EQ(cache.residency.place(kA, group), GroupPlace::kArriving);
  }
  EXPECT_TRUE(cache.decide().empty());
  cache.copies_end();
  EXPECT_TRUE(cache.residency.all_cached(kA));
  EXPECT_TRUE(cache.ready(kA));
}

TEST(Residency, MovesNothingWhenBothFit) {
  Cache cache(options_of(4));
  cache.add(kA, model_of(2, 1));
  cache.add(kB, model_of(2, 1));
  cache.use(kA);
  cache.use(kB);
  const Bytes brought = cache.residency.counters().brought;
  for (int i = 0; i < 5; ++i) {
    cache.now += seconds(20);
    cache.use(i % 2 == 0 ? kA : kB);
  }
  EXPECT_EQ(cache.residency.counters().brought, brought);
  EXPECT_EQ(cache.residency.counters().evictions, 0);
}

}  // namespace
}  // namespace causeway::weights
