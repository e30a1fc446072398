// A clock that jumps, back or far ahead: a fleet loses nothing, and serves on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/random.h"
#include "base/testing/temporary_directory.h"
#include "fleet/fleet_core.h"
#include "fleet/local_fleet.h"
#include "fleet/steady_time.h"
#include "fleet/testing/idle_slice.h"
#include "fleet/testing/snapshot.h"

namespace causeway::fleet::clock_jump_test {
namespace {

using ::testing::HasSubstr;

constexpr Nanos kYear = seconds(std::int64_t{366} * 86'400);

TEST(SteadyTime, GoesOnWhereItsClockJumpsBack) {
  SteadyTime time;
  EXPECT_EQ(time.at(seconds(100)), seconds(100));
  EXPECT_EQ(time.at(seconds(40)), seconds(100)) << "how long that took is not known";
  EXPECT_EQ(time.at(seconds(45)), seconds(105));
  EXPECT_EQ(time.skew(), seconds(60));
  EXPECT_EQ(time.at(seconds(45) + kYear), seconds(105) + kYear);
  EXPECT_EQ(time.at(seconds(45)), seconds(105) + kYear);
}

// A FleetCore whose loader and slices do at once what it says; requests run until they are ended.
class PromptFleet {
 public:
  explicit PromptFleet(int models) {
    FleetSpec spec;
    for (int i = 0; i < models; ++i) spec.models.push_back({.name = "m" + std::to_string(i)});
    spec.slices.resize(2, {.models_max = 1});
    core_ = std::make_unique<FleetCore>(std::move(spec), FleetOptions{.room_timeout = seconds(1)},
                                        make_placement(PlacementKind::kBandwidth));
  }
  void tell(const Event& event) {
    std::vector<Event> answers = {event};
    while (!answers.empty()) {
      std::vector<Event> next;
      for (const Event& answer : answers) {
        for (const Action& action : core_->on_event(answer, now)) take(action, next);
      }
      answers = std::move(next);
    }
    const Status sound = core_->check_integrity();
    ASSERT_TRUE(sound.ok()) << sound.error().message;
  }
  void ask(std::int64_t request, std::int64_t model) {
    open.insert(request);
    tell(RequestArrived{RequestId(request), ModelId(model), {}, now});
  }
  void end(std::int64_t request) {
    running.erase(request);
    open.erase(request);
    tell(RequestEnded{RequestId(request)});
  }
  // As a loop does, which looks now and then, and at next_wakeup().
  bool wake() {
    tell(Woken{});
    const auto at = core_->next_wakeup();
    if (!at) return false;
    EXPECT_LE(*at - now, seconds(1)) << "no limit is longer, by the clock as it is now";
    now = std::max(now, *at);
    tell(Woken{});
    return true;
  }

  Nanos now = seconds(1000);
  std::set<std::int64_t> open, running;  // asked and not ended; of these, on a slice
  std::map<std::int64_t, std::string> refused;

 private:
  void take(const Action& action, std::vector<Event>& next) {
    if (const auto* route = std::get_if<Route>(&action)) running.insert(route->request.value);
    if (const auto* refuse = std::get_if<Refuse>(&action)) {
      EXPECT_EQ(open.erase(refuse->request.value), 1u) << "a request ends once";
      refused[refuse->request.value] = refuse->error.message;
    }
    if (const auto* one = std::get_if<Measure>(&action)) {
      next.emplace_back(Measured{
          one->model, HostRoom{.needed = Bytes(1), .used = Bytes(0), .budget = Bytes(100)}});
    }
    if (const auto* one = std::get_if<Load>(&action)) {
      next.emplace_back(LoadEnded{one->model, Bytes(0)});
    }
    if (const auto* one = std::get_if<Unload>(&action)) {
      next.emplace_back(UnloadEnded{one->model, {}});
    }
    if (const auto* one = std::get_if<Drop>(&action)) next.emplace_back(DropEnded{one->model});
  }

  std::unique_ptr<FleetCore> core_;
};

// Both slices are taken by models with requests, so that a third waits.
class CoreJumpTest : public ::testing::Test {
 protected:
  CoreJumpTest() {
    fleet.ask(1, 0);
    fleet.ask(2, 1);
    fleet.ask(3, 2);
    EXPECT_EQ(fleet.running, (std::set<std::int64_t>{1, 2}));
    EXPECT_TRUE(fleet.refused.empty());
  }
  PromptFleet fleet{3};
};

TEST_F(CoreJumpTest, WhatWaitsIsRefusedInTimeAfterAJumpBack) {
  fleet.now -= seconds(900);
  fleet.tell(Woken{});
  EXPECT_TRUE(fleet.refused.empty());
  ASSERT_TRUE(fleet.wake());
  EXPECT_THAT(fleet.refused[3], HasSubstr("no slice has a place"));
  EXPECT_LE(fleet.now, seconds(101)) << "not when the clock is where it was";
  EXPECT_EQ(fleet.running, (std::set<std::int64_t>{1, 2})) << "what runs goes on";
}

TEST_F(CoreJumpTest, WhatWaitsIsRefusedWithAReasonAfterAJumpAhead) {
  fleet.now += kYear * 100;
  fleet.tell(Woken{});
  EXPECT_THAT(fleet.refused[3], HasSubstr("try again later"));
  EXPECT_EQ(fleet.running, (std::set<std::int64_t>{1, 2})) << "what runs goes on";
  fleet.end(1);
  fleet.ask(4, 2);
  EXPECT_TRUE(fleet.running.contains(4)) << "it serves on";
}

TEST_F(CoreJumpTest, APlaceThatComesFreeIsTakenAfterAJumpBack) {
  fleet.now -= seconds(900);
  fleet.end(2);
  EXPECT_TRUE(fleet.running.contains(3));
  EXPECT_TRUE(fleet.refused.empty());
}

TEST(FleetCoreClock, NothingIsLostHoweverItJumps) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    PromptFleet fleet(4);
    std::int64_t asked = 0;
    for (int i = 0; i < 200 && !::testing::Test::HasFailure(); ++i) {
      const std::int64_t way = random.below(10);
      if (way == 0) fleet.now = std::max(Nanos(0), fleet.now - seconds(random.between(0, 2000)));
      if (way == 1) fleet.now += seconds(random.between(0, 100'000'000));
      if (way == 2) fleet.now += millis(random.between(0, 500));
      if (way == 3) fleet.wake();
      if (way >= 4 && way < 8) fleet.ask(++asked, random.below(4));
      if (way >= 8 && !fleet.running.empty()) fleet.end(*fleet.running.begin());
    }
    while (!fleet.running.empty()) fleet.end(*fleet.running.begin());
    for (int i = 0; i < 100 && !fleet.open.empty(); ++i) {
      if (!fleet.running.empty()) {
        fleet.end(*fleet.running.begin());
      } else if (!fleet.wake()) {
        break;
      }
    }
    ASSERT_TRUE(fleet.open.empty()) << "seed " << seed << ": a request has no end";
  }
}

class EndsSink final : public engine::OutputSink {
 public:
  void on_outputs(std::vector<request::Output> outputs) override {
    const std::scoped_lock lock(mutex_);
    for (auto& output : outputs) ends_[output.request.value].push_back(std::move(output));
    changed_.notify_all();
  }
  // The only end of a request.
  request::Output wait(std::int64_t id) {
    std::unique_lock lock(mutex_);
    const bool came =
        changed_.wait_for(lock, std::chrono::seconds(20), [&] { return ends_.contains(id); });
    EXPECT_TRUE(came) << "request " << id;
    if (!came) return {};
    EXPECT_EQ(ends_.at(id).size(), 1u);
    return ends_.at(id).front();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, std::vector<request::Output>> ends_;
};

// Room for one model.
class SmallHome final : public FleetHome {
 public:
  Result<HostRoom> room_for(const CatalogueEntry&, const ModelSource&) override {
    return HostRoom{.needed = Bytes(10), .used = Bytes(10 * there_), .budget = Bytes(15)};
  }
  Status load(const CatalogueEntry&, const ModelSource&, const LoadWatch&) override {
    ++there_;
    return {};
  }
  void unload(ModelId) override { --there_; }

 private:
  std::atomic<int> there_ = 0;
};

class LoopJumpTest : public ::testing::Test {
 protected:
  LoopJumpTest() {
    testing::write_snapshot(folder_.path());
    std::vector<CatalogueModel> models;
    for (int i = 0; i < 2; ++i) {
      const ModelSource source{"m" + std::to_string(i), folder_.path()};
      models.push_back({load_entry(ModelId(i), source, {}).value(), source});
    }
    FleetSlices slices;
    slices.slices = {&slice_};
    fleet_ = LocalFleet::start(std::move(models),
                               {.load_ahead = false, .room_timeout = seconds(5), .clock = &clock_},
                               home_, std::move(slices), sink_)
                 .value();
    // One runs, and the other's model finds no room beside it.
    EXPECT_TRUE(fleet_->submit(request(1, 0)).ok());
    EXPECT_TRUE(fleet_->wait_until_loaded(seconds(20)));
    EXPECT_TRUE(fleet_->submit(request(2, 1)).ok());
  }
  request::Request request(std::int64_t id, std::int64_t model) const {
    request::Request request;
    request.id = RequestId(id);
    request.model = ModelId(model);
    request.prompt = {1};
    request.arrival = clock_.now();
    return request;
  }
  void end(std::int64_t id) {
    request::Output output;
    output.request = RequestId(id);
    output.finished = true;
    sink_.on_outputs({output});
  }
  // Until the loop has nothing under way: it measures before it waits for room.
  void settle() {
    const RealClock real;
    const Nanos until = real.now() + millis(200);
    while (real.now() < until) std::this_thread::yield();
  }

  ManualClock clock_{seconds(100'000)};
  TemporaryDirectory folder_;
  EndsSink ends_;
  SerialSink sink_{ends_};
  SmallHome home_;
  testing::IdleSlice slice_;
  std::unique_ptr<LocalFleet> fleet_;
};

TEST_F(LoopJumpTest, WhatWaitsEndsInTimeAfterAJumpBack) {
  settle();
  clock_.advance(-seconds(90'000));
  settle();
  clock_.advance(seconds(6));
  const request::Output refused = ends_.wait(2);
  EXPECT_EQ(refused.reason, request::FinishReason::kError);
  EXPECT_THAT(refused.error, HasSubstr("try again later"));
  EXPECT_GE(refused.held, Nanos(0));
  EXPECT_EQ(fleet_->status(ModelId(0)).state, ModelState::kActive);
  end(1);
  EXPECT_EQ(ends_.wait(1).reason, request::FinishReason::kStop);
}

TEST_F(LoopJumpTest, ItServesOnAfterAJumpAhead) {
  settle();
  clock_.advance(kYear * 10);
  EXPECT_THAT(ends_.wait(2).error, HasSubstr("try again later"));
  EXPECT_EQ(fleet_->status(ModelId(0)).state, ModelState::kActive) << "what runs goes on";
  ASSERT_TRUE(fleet_->submit(request(3, 0)).ok());
  for (const std::int64_t id : {1, 3}) end(id);
  for (const std::int64_t id : {1, 3})
    EXPECT_EQ(ends_.wait(id).reason, request::FinishReason::kStop);
  ASSERT_TRUE(fleet_->submit(request(4, 1)).ok());
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  end(4);
  EXPECT_EQ(ends_.wait(4).reason, request::FinishReason::kStop) << "the other model is loaded now";
}

}  // namespace
}  // namespace causeway::fleet::clock_jump_test
