// What a LocalFleet expects: which models it loads before anybody asks, and how long tokens take of
// a model that no slice has room for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/testing/log_lines.h"
#include "base/testing/temporary_directory.h"
#include "fleet/local_fleet.h"
#include "fleet/testing/idle_slice.h"
#include "fleet/testing/snapshot.h"

namespace causeway::fleet::expectation_test {
namespace {

using ::testing::ElementsAre;

// Every model takes 10 bytes.
class OrderedHome final : public FleetHome {
 public:
  explicit OrderedHome(Bytes budget) : budget_(budget) {}
  Result<HostRoom> room_for(const CatalogueEntry&, const ModelSource&) override {
    const std::scoped_lock lock(mutex_);
    return HostRoom{.needed = kModel, .used = kModel * std::ssize(loaded_), .budget = budget_};
  }
  Status load(const CatalogueEntry& entry, const ModelSource&, const LoadWatch&) override {
    const std::scoped_lock lock(mutex_);
    loaded_.push_back(entry.name);
    return {};
  }
  void unload(ModelId) override { ADD_FAILURE() << "nothing has to leave"; }
  std::vector<std::string> loaded() const {
    const std::scoped_lock lock(mutex_);
    return loaded_;
  }

 private:
  static constexpr Bytes kModel{10};
  const Bytes budget_;
  mutable std::mutex mutex_;
  std::vector<std::string> loaded_;  // in this order
};

class NoSink final : public engine::OutputSink {
 public:
  void on_outputs(std::vector<request::Output>) override {}
};

// Two thirds of a model cross its link at every step.
class StreamingSlice final : public testing::IdleSlice {
 public:
  explicit StreamingSlice(SerialSink& sink) : sink_(sink) {}
  Result<AttachedModel> attach(const CatalogueEntry&, const ModelSource&, bool) override {
    return AttachedModel{.streamed = Bytes(200)};
  }
  void end(std::int64_t request) {
    request::Output output;
    output.request = RequestId(request);
    output.finished = true;
    sink_.on_outputs({output});
  }

 private:
  SerialSink& sink_;
};

// Says what it is told to say of its link.
class MeteredSlice final : public testing::IdleSlice {
 public:
  Result<AttachedModel> attach(const CatalogueEntry&, const ModelSource&, bool) override {
    attached += 1;
    return AttachedModel{};
  }
  Bytes link_bytes() const override { return Bytes(bytes.load()); }
  Nanos link_busy() const override {
    looks += 1;
    return Nanos(busy.load());
  }

  std::atomic<int> attached = 0;
  std::atomic<std::int64_t> bytes = 0, busy = 0;
  mutable std::atomic<int> looks = 0;
};

class ExpectationTest : public ::testing::Test {
 protected:
  CatalogueModel& add_model(double rate) {
    testing::write_snapshot(folder_.path());
    const ModelId id(std::ssize(models_));
    const ModelSource source{"m" + std::to_string(id.value), folder_.path()};
    models_.push_back({load_entry(id, source, {}).value(), source});
    models_.back().spec.rate = rate;
    return models_.back();
  }
  void start(OrderedHome& home, const LocalFleetOptions& options, FleetSlices slices) {
    fleet_ = LocalFleet::start(std::move(models_), options, home, std::move(slices), sink_).value();
  }
  static request::Request request(std::int64_t id) {
    request::Request request;
    request.id = RequestId(id);
    request.model = ModelId(0);
    request.prompt = {1};
    return request;
  }
  bool comes(const std::function<bool()>& what) const {
    const Nanos limit = clock_.now() + seconds(20);
    while (!what() && clock_.now() < limit) std::this_thread::yield();
    return what();
  }

  RealClock clock_;
  TemporaryDirectory folder_;
  NoSink target_;
  SerialSink sink_{target_};
  std::vector<CatalogueModel> models_;
  std::unique_ptr<LocalFleet> fleet_;
};

TEST_F(ExpectationTest, ModelsThatAreExpectedMostAreLoadedFirst) {
  for (const double rate : {0.0, 2.0, 0.5, 7.0, 2.0}) add_model(rate);
  models_[2].pinned = true;
  OrderedHome home(Bytes(39));
  testing::IdleSlice slice;
  FleetSlices slices;
  slices.slices = {&slice};
  start(home, {}, std::move(slices));
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  EXPECT_THAT(home.loaded(), ElementsAre("m2", "m3", "m1")) << "pinned, then by rate; two stay out";
  EXPECT_EQ(fleet_->status(ModelId(4)).state, ModelState::kUnloaded);
  fleet_.reset();
}

TEST_F(ExpectationTest, WithoutRatesTheCataloguesOrderDecides) {
  for (int i = 0; i < 3; ++i) add_model(0);
  OrderedHome home(Bytes(20));
  testing::IdleSlice slice;
  FleetSlices slices;
  slices.slices = {&slice};
  start(home, {}, std::move(slices));
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  EXPECT_THAT(home.loaded(), ElementsAre("m0", "m1"));
  fleet_.reset();
}

// 200 bytes at each step of a second, over a link of 100 a second.
TEST_F(ExpectationTest, BestEffortIsToldWithTheTimeOfAToken) {
  CatalogueModel& model = add_model(0);
  model.spec.weights = Bytes(300);
  model.entry->slo.tpot = seconds(1);
  OrderedHome home(Bytes(100));
  StreamingSlice first(sink_), second(sink_);
  FleetSlices slices;
  slices.slices = {&first, &second};
  slices.specs.assign(2, {.link = LinkId(0), .memory = Bytes(100)});
  slices.links = {{.bytes_per_second = 100}};
  const LogLines lines;
  start(home, {.load_ahead = false}, std::move(slices));
  ASSERT_TRUE(fleet_->submit(request(1)).ok());
  ASSERT_TRUE(comes([&] { return fleet_->status(ModelId(0)).best_effort; }));
  EXPECT_EQ(fleet_->status(ModelId(0)).predicted_tpot, seconds(2));
  EXPECT_EQ(fleet_->status(ModelId(0)).streamed_bytes, Bytes(200));
  ASSERT_TRUE(fleet_->submit(request(2)).ok());
  EXPECT_EQ(lines.count("m0 is served by best effort"), 1) << "not at every request";
  EXPECT_EQ(lines.count("expected to take 2000 ms; its target is 1000 ms"), 1);
  for (const std::int64_t id : {1, 2}) first.end(id);
  EXPECT_FALSE(fleet_->status(ModelId(0)).best_effort) << "nothing is asked for";
  EXPECT_EQ(fleet_->status(ModelId(0)).predicted_tpot, Nanos(0));
  fleet_.reset();
}

// Once a second it is looked what links give.
TEST_F(ExpectationTest, WhereALinkIsSeenToBeSlowNothingIsPlacedNext) {
  add_model(0).spec.weights = Bytes(300'000'000);
  OrderedHome home(Bytes(100));
  MeteredSlice first, second;
  FleetSlices slices;
  slices.slices = {&first, &second};
  for (int gpu = 0; gpu < 2; ++gpu) {
    slices.specs.push_back({.link = LinkId(gpu), .memory = gib(1)});
    slices.links.push_back({.bytes_per_second = 1e9});
  }
  ManualClock clock{seconds(1000)};
  start(home, {.load_ahead = false, .clock = &clock}, std::move(slices));
  for (int i = 0; i < 6; ++i) {
    const int seen = first.looks;
    if (i > 0) {
      first.bytes += 200'000'000;
      first.busy += seconds(2).count;
    }
    clock.advance(seconds(3));
    ASSERT_TRUE(comes([&] { return first.looks > seen; }));
  }
  ASSERT_TRUE(fleet_->submit(request(1)).ok());
  ASSERT_TRUE(comes([&] { return first.attached + second.attached > 0; }));
  EXPECT_EQ(second.attached, 1) << "without that it would be the first";
  fleet_.reset();
}

}  // namespace
}  // namespace causeway::fleet::expectation_test
