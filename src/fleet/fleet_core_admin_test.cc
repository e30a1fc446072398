// What the operator asks of a FleetCore.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fleet/fleet_core.h"

namespace causeway::fleet::fleet_core_admin_test {
namespace {

using ::testing::HasSubstr;

std::string text(std::int64_t n) { return std::to_string(n); }

// What was done, in words.
std::string in_words(const Action& action) {
  if (const auto* one = std::get_if<Answered>(&action)) {
    return (one->result.ok() ? "done " : "not ") + text(one->ask.value);
  }
  if (const auto* one = std::get_if<Route>(&action)) return "route " + text(one->request.value);
  if (const auto* one = std::get_if<Refuse>(&action)) return "refuse " + text(one->request.value);
  if (const auto* one = std::get_if<Measure>(&action)) return "measure " + text(one->model.value);
  if (const auto* one = std::get_if<Load>(&action)) return "load " + text(one->model.value);
  if (const auto* one = std::get_if<Drop>(&action)) return "drop " + text(one->model.value);
  if (const auto* one = std::get_if<Unload>(&action)) {
    return (one->drop ? "unload and drop " : "unload ") + text(one->model.value);
  }
  if (const auto* one = std::get_if<ModelRemoved>(&action)) {
    return "removed " + text(one->model.value);
  }
  if (const auto* one = std::get_if<ModelKept>(&action)) return "kept " + text(one->model.value);
  if (std::holds_alternative<Reread>(action)) return "read";
  return "other " + text(static_cast<std::int64_t>(action.index()));
}

class FleetAdminTest : public ::testing::Test {
 protected:
  void start(int models, Bytes budget = Bytes(1000)) {
    budget_ = budget;
    FleetSpec spec;
    for (int i = 0; i < models; ++i) spec.models.push_back({.name = "m" + text(i)});
    spec.slices.resize(1);
    core_ = std::make_unique<FleetCore>(spec, FleetOptions{.waiting_max = 3},
                                        make_placement(PlacementKind::kBandwidth));
  }
  std::string on(const Event& event) {
    std::string words;
    for (const Action& action : core_->on_event(event, now_)) {
      if (std::holds_alternative<LoadFailed>(action)) continue;
      words += (words.empty() ? "" : "; ") + in_words(action);
      const auto* answered = std::get_if<Answered>(&action);
      if (answered != nullptr && !answered->result.ok()) error_ = answered->result.error();
    }
    const Status whole = core_->check_integrity();
    EXPECT_TRUE(whole.ok()) << whole.error().message;
    return words;
  }
  std::string ask_load(std::int64_t ask, std::int64_t model) {
    return on(LoadAsked{RequestId(ask), ModelId(model)});
  }
  std::string ask_unload(std::int64_t ask, std::int64_t model, bool keeps_home = false) {
    return on(UnloadAsked{RequestId(ask), ModelId(model), keeps_home});
  }
  std::string ask_pin(std::int64_t ask, std::int64_t model, bool pinned = true) {
    return on(PinAsked{RequestId(ask), ModelId(model), pinned});
  }
  std::string request(std::int64_t id, std::int64_t model) {
    return on(RequestArrived{RequestId(id), ModelId(model), {}, now_});
  }
  std::string measured(std::int64_t model) {
    return on(Measured{ModelId(model), HostRoom{Bytes(10), core_->host_used(), budget_}});
  }
  std::string loaded(std::int64_t model) { return on(LoadEnded{ModelId(model), Bytes(0)}); }
  std::string unloaded(std::int64_t model) { return on(UnloadEnded{ModelId(model), {}}); }
  void load(std::int64_t model) {
    ask_load(1000 + model, model);
    measured(model);
    loaded(model);
    ASSERT_EQ(phase(model), ModelPhase::kReady);
  }
  // The answer to a reload that was asked for under this id.
  std::string reload(std::int64_t ask, std::vector<std::int64_t> gone,
                     std::vector<std::int64_t> found = {}) {
    EXPECT_EQ(on(ReloadAsked{RequestId(ask)}), "read");
    CatalogueNews news;
    for (const std::int64_t model : gone) news.gone.emplace_back(model);
    for (const std::int64_t model : found) {
      news.found.push_back({ModelId(model), {.name = "m" + text(model)}});
    }
    return on(CatalogueRead{std::move(news)});
  }
  ModelPhase phase(std::int64_t model) { return core_->model(ModelId(model)).phase; }

  Nanos now_;
  Bytes budget_;
  std::unique_ptr<FleetCore> core_;
  Error error_;
};

TEST_F(FleetAdminTest, ALoadIsAnsweredWhenTheModelServes) {
  start(2);
  EXPECT_EQ(ask_load(1, 0), "measure 0");
  EXPECT_EQ(ask_load(2, 0), "") << "one load for both";
  EXPECT_EQ(request(3, 0), "");
  EXPECT_EQ(measured(0), "load 0");
  EXPECT_EQ(loaded(0), "done 1; done 2; route 3");
  EXPECT_EQ(ask_load(4, 0), "done 4") << "it is there";
}

TEST_F(FleetAdminTest, OthersGiveWayForALoadThatIsAskedFor) {
  start(2, Bytes(15));
  load(0);
  EXPECT_EQ(ask_load(1, 1), "measure 1");
  EXPECT_EQ(measured(1), "unload and drop 0");
  EXPECT_EQ(unloaded(0), "load 1");
  EXPECT_EQ(loaded(1), "done 1");
}

TEST_F(FleetAdminTest, ALoadThatFailsSaysWhy) {
  start(1);
  ask_load(1, 0);
  measured(0);
  EXPECT_EQ(on(LoadEnded{ModelId(0), corrupt("a broken file")}), "not 1");
  EXPECT_THAT(error_.message, HasSubstr("a broken file"));
  EXPECT_EQ(phase(0), ModelPhase::kCold);
}

TEST_F(FleetAdminTest, ALoadWithoutRoomEndsInTime) {
  start(2, Bytes(15));
  load(0);
  ask_pin(5, 0);
  ask_load(1, 1);
  EXPECT_EQ(measured(1), "");
  now_ = *core_->next_wakeup();
  EXPECT_EQ(on(Woken{}), "not 1");
  EXPECT_EQ(error_.code, ErrorCode::kUnavailable);
}

TEST_F(FleetAdminTest, ALoadMayBeTakenBack) {
  start(1);
  ask_load(1, 0);
  EXPECT_EQ(on(RequestCancelled{RequestId(1)}), "not 1");
  EXPECT_EQ(error_.code, ErrorCode::kCancelled);
  EXPECT_EQ(measured(0), "") << "nobody waits for it";
  EXPECT_EQ(phase(0), ModelPhase::kCold);
}

TEST_F(FleetAdminTest, AnUnloadIsAnsweredWhenTheModelIsGone) {
  start(1);
  load(0);
  EXPECT_EQ(ask_unload(1, 0), "unload and drop 0");
  EXPECT_EQ(ask_unload(2, 0), "") << "both wait for the same";
  EXPECT_EQ(unloaded(0), "done 1; done 2");
  EXPECT_EQ(phase(0), ModelPhase::kCold);
  EXPECT_EQ(core_->host_used(), Bytes(0));
  EXPECT_EQ(ask_unload(3, 0), "done 3") << "it is gone";
}

TEST_F(FleetAdminTest, AModelWithRequestsIsNotUnloaded) {
  start(1);
  request(1, 0);
  EXPECT_EQ(ask_unload(2, 0), "not 2");
  EXPECT_THAT(error_.message, HasSubstr("1 request"));
  EXPECT_EQ(error_.code, ErrorCode::kInvalidArgument);
  measured(0);
  EXPECT_EQ(ask_unload(3, 0), "not 3");
  loaded(0);
  EXPECT_EQ(ask_unload(4, 0), "not 4");
  EXPECT_THAT(error_.message, HasSubstr("it has 1 request"));
  on(RequestEnded{RequestId(1)});
  EXPECT_EQ(ask_unload(5, 0), "unload and drop 0");
}

TEST_F(FleetAdminTest, AModelThatIsBeingLoadedIsNotUnloaded) {
  start(2);
  on(ModelWanted{ModelId(0)});
  on(ModelWanted{ModelId(1)});
  EXPECT_EQ(phase(0), ModelPhase::kMeasuring);
  EXPECT_EQ(ask_unload(1, 0), "not 1");
  EXPECT_THAT(error_.message, HasSubstr("being loaded"));
  EXPECT_EQ(ask_unload(2, 1), "done 2") << "it has not begun";
  EXPECT_EQ(phase(1), ModelPhase::kCold);
}

TEST_F(FleetAdminTest, ARequestThatComesMeanwhileHasItLoadedAgain) {
  start(1);
  load(0);
  ask_unload(1, 0);
  EXPECT_EQ(request(2, 0), "");
  EXPECT_EQ(unloaded(0), "done 1; measure 0");
  measured(0);
  EXPECT_EQ(loaded(0), "route 2");
}

TEST_F(FleetAdminTest, AModelThatDoesNotLetGoServesOn) {
  start(1);
  load(0);
  ask_unload(1, 0);
  EXPECT_EQ(on(UnloadEnded{ModelId(0), unavailable("a step hangs")}), "not 1");
  EXPECT_EQ(error_.message, "a step hangs");
  EXPECT_EQ(request(2, 0), "route 2");
}

TEST_F(FleetAdminTest, PinsHoldAndLetGo) {
  start(1);
  load(0);
  EXPECT_EQ(ask_pin(1, 0), "done 1");
  EXPECT_TRUE(core_->model(ModelId(0)).pinned);
  EXPECT_EQ(ask_unload(2, 0), "not 2");
  EXPECT_THAT(error_.message, HasSubstr("pinned"));
  EXPECT_EQ(ask_pin(3, 0, false), "done 3");
  EXPECT_EQ(ask_unload(4, 0), "unload and drop 0");
  EXPECT_EQ(ask_pin(5, 0), "not 5") << "it is on its way";
  unloaded(0);
  EXPECT_EQ(ask_pin(6, 0), "done 6");
}

TEST_F(FleetAdminTest, AllSleepAndWake) {
  start(4);
  for (const int model : {0, 1, 2}) load(model);
  ask_pin(1, 1);
  request(2, 2);
  EXPECT_EQ(on(SleepAsked{RequestId(3), true}), "unload 0");
  EXPECT_FALSE(core_->asleep());
  EXPECT_EQ(unloaded(0), "done 3");
  EXPECT_EQ(phase(0), ModelPhase::kHome);
  EXPECT_FALSE(core_->asleep()) << "others have requests, or a pin";
  on(RequestEnded{RequestId(2)});
  ask_pin(4, 1, false);
  EXPECT_EQ(on(SleepAsked{RequestId(5), true}), "unload 1; unload 2");
  unloaded(2);
  EXPECT_EQ(unloaded(1), "done 5");
  EXPECT_TRUE(core_->asleep());
  EXPECT_EQ(on(WakeAsked{RequestId(6)}), "done 6; load 0");
  EXPECT_EQ(loaded(0), "load 1");
  EXPECT_EQ(loaded(1), "load 2");
  EXPECT_EQ(loaded(2), "");
  EXPECT_EQ(phase(3), ModelPhase::kCold) << "it has not slept";
}

TEST_F(FleetAdminTest, AllSleepOnceRequestsHaveEnded) {
  start(3);
  load(0);
  load(1);
  request(1, 0);
  request(2, 0);
  request(3, 2);  // whose model is being loaded
  EXPECT_EQ(on(SleepAsked{RequestId(10), true, SleepMode::kWait}), "");
  EXPECT_EQ(request(4, 1), "route 4") << "what comes later is served, and not waited for";
  EXPECT_EQ(on(RequestEnded{RequestId(1)}), "");
  EXPECT_EQ(measured(2), "load 2");
  EXPECT_EQ(loaded(2), "route 3");
  EXPECT_EQ(on(RequestEnded{RequestId(3)}), "");
  EXPECT_FALSE(core_->asleep());
  EXPECT_EQ(on(RequestEnded{RequestId(2)}), "unload 0; unload 2");
  unloaded(0);
  EXPECT_EQ(unloaded(2), "done 10");
  EXPECT_EQ(phase(1), ModelPhase::kReady) << "it has requests";
}

TEST_F(FleetAdminTest, AllSleepAtOnceOnceRequestsAreCancelled) {
  start(3);
  load(0);
  ask_load(5, 1);
  request(1, 0);
  request(2, 2);  // which waits for the loader
  EXPECT_EQ(on(SleepAsked{RequestId(10), false, SleepMode::kAbort}), "other 1; refuse 2");
  EXPECT_EQ(measured(1), "load 1") << "a load is no request";
  EXPECT_EQ(on(RequestEnded{RequestId(1)}), "unload and drop 0") << "its slice has let it go";
  EXPECT_EQ(unloaded(0), "done 10");
  EXPECT_EQ(loaded(1), "done 5");
}

TEST_F(FleetAdminTest, AllSleepOnceARequestHasFoundNoRoom) {
  start(2, Bytes(15));
  load(0);
  ask_pin(5, 0);
  request(1, 1);
  EXPECT_EQ(measured(1), "");
  EXPECT_EQ(on(SleepAsked{RequestId(10), true, SleepMode::kWait}), "");
  now_ = *core_->next_wakeup();
  EXPECT_EQ(on(Woken{}), "refuse 1; done 10") << "at once, not at what happens next";
}

TEST_F(FleetAdminTest, AnAskToSleepThatWaitsEnds) {
  start(2);
  load(0);
  request(1, 0);
  for (const std::int64_t ask : {10, 11, 12}) {
    EXPECT_EQ(on(SleepAsked{RequestId(ask), true, SleepMode::kWait}), "");
  }
  EXPECT_EQ(on(SleepAsked{RequestId(12), true, SleepMode::kWait}), "not 12") << "it is there";
  EXPECT_EQ(on(RequestCancelled{RequestId(10)}), "not 10");
  EXPECT_EQ(error_.code, ErrorCode::kCancelled);
  const std::string stalled = on(LoaderStalled{unavailable("nothing moves")});
  EXPECT_THAT(stalled, ::testing::AllOf(HasSubstr("not 11"), HasSubstr("not 12")));
  EXPECT_EQ(on(RequestEnded{RequestId(1)}), "") << "nobody has all sleep any more";
  EXPECT_EQ(phase(0), ModelPhase::kReady);
}

TEST_F(FleetAdminTest, AStopAnswersWhoWaitsToSleep) {
  start(1);
  load(0);
  request(1, 0);
  EXPECT_EQ(on(SleepAsked{RequestId(10), true, SleepMode::kWait}), "");
  EXPECT_EQ(on(Stopped{}), "not 10");
}

TEST_F(FleetAdminTest, DeepSleepLeavesHostMemory) {
  start(2);
  load(0);
  load(1);
  ask_unload(1, 1, /*keeps_home=*/true);
  EXPECT_EQ(unloaded(1), "done 1");
  EXPECT_EQ(on(SleepAsked{RequestId(2), false}), "unload and drop 0; drop 1");
  unloaded(0);
  EXPECT_EQ(on(DropEnded{ModelId(1)}), "done 2");
  EXPECT_EQ(core_->host_used(), Bytes(0));
  EXPECT_TRUE(core_->asleep());
}

TEST_F(FleetAdminTest, AStopAnswersAll) {
  start(2);
  load(0);
  ask_unload(1, 0);
  ask_load(2, 1);
  EXPECT_THAT(on(Stopped{}), ::testing::AllOf(HasSubstr("not 1"), HasSubstr("not 2")));
  EXPECT_EQ(unloaded(0), "");
  for (const Event& late : std::vector<Event>{
           LoadAsked{RequestId(3), ModelId(0)}, UnloadAsked{RequestId(3), ModelId(0)},
           PinAsked{RequestId(3), ModelId(0), true}, SleepAsked{RequestId(3)},
           WakeAsked{RequestId(3)}, ReloadAsked{RequestId(3)}}) {
    EXPECT_EQ(on(late), "not 3");
  }
}

TEST_F(FleetAdminTest, AStalledLoaderAnswersAll) {
  start(2);
  load(0);
  ask_unload(1, 0);
  EXPECT_EQ(on(LoaderStalled{unavailable("nothing moves")}), "not 1");
  EXPECT_EQ(ask_load(2, 1), "not 2");
  EXPECT_EQ(error_.message, "nothing moves");
  EXPECT_EQ(unloaded(0), "") << "it has gone after all";
  EXPECT_EQ(ask_load(3, 1), "measure 1");
}

TEST_F(FleetAdminTest, AsksHaveIdsOfTheirOwn) {
  start(1);
  request(1, 0);
  EXPECT_EQ(ask_load(1, 0), "not 1");
  EXPECT_EQ(on(RequestCancelled{RequestId(1)}), "refuse 1") << "the request goes on";
}

TEST_F(FleetAdminTest, AProbeWakesNoModel) {
  start(1);
  const RequestArrived probe{RequestId(1), ModelId(0), {}, now_, /*only_ready=*/true};
  EXPECT_EQ(on(probe), "refuse 1");
  EXPECT_EQ(phase(0), ModelPhase::kCold);
  load(0);
  EXPECT_EQ(on(probe), "route 1");
}

TEST_F(FleetAdminTest, AReloadAddsAndRemoves) {
  start(3);
  load(0);
  load(1);
  ask_unload(1, 1, /*keeps_home=*/true);
  unloaded(1);
  EXPECT_EQ(reload(2, {0, 1, 2}, {3}),
            "removed 0; unload and drop 0; removed 1; drop 1; removed 2");
  EXPECT_EQ(unloaded(0), "");
  EXPECT_EQ(on(DropEnded{ModelId(1)}), "done 2") << "when all have left host memory";
  EXPECT_EQ(core_->host_used(), Bytes(0));
  EXPECT_EQ(core_->models(), 4);
  EXPECT_EQ(request(4, 3), "measure 3") << "a new model is served";
  measured(3);
  EXPECT_EQ(loaded(3), "route 4");
  EXPECT_EQ(reload(5, {}, {0}), "done 5");
  EXPECT_EQ(request(6, 0), "measure 0") << "and one that is back";
}

TEST_F(FleetAdminTest, WhatWasRemovedIsNotServed) {
  start(2);
  load(0);
  EXPECT_EQ(reload(1, {0}), "removed 0; unload and drop 0");
  EXPECT_EQ(request(2, 0), "refuse 2") << "while it leaves";
  EXPECT_EQ(ask_load(3, 0), "not 3");
  EXPECT_EQ(error_.code, ErrorCode::kNotFound);
  EXPECT_EQ(ask_pin(4, 0), "not 4");
  EXPECT_EQ(ask_unload(5, 0), "not 5");
  EXPECT_EQ(on(ModelWanted{ModelId(0)}), "");
  EXPECT_EQ(unloaded(0), "done 1");
  EXPECT_EQ(request(6, 0), "refuse 6");
  EXPECT_EQ(on(WakeAsked{RequestId(7)}), "done 7");
  EXPECT_EQ(phase(0), ModelPhase::kCold);
}

TEST_F(FleetAdminTest, WhatIsInUseIsKept) {
  start(4);
  load(0);
  request(1, 0);
  ask_pin(2, 1);
  ask_load(3, 2);
  EXPECT_EQ(reload(4, {0, 1, 2, 3}), "kept 0; kept 1; kept 2; removed 3; done 4");
  EXPECT_EQ(on(RequestEnded{RequestId(1)}), "");
  EXPECT_EQ(request(5, 0), "route 5") << "it is served on";
}

TEST_F(FleetAdminTest, ASliceThatDoesNotLetGoKeepsItsModel) {
  start(1);
  load(0);
  EXPECT_EQ(reload(1, {0}), "removed 0; unload and drop 0");
  EXPECT_EQ(on(UnloadEnded{ModelId(0), unavailable("it holds on")}), "kept 0; not 1");
  EXPECT_EQ(request(2, 0), "route 2");
}

TEST_F(FleetAdminTest, OneReloadAtATime) {
  start(1);
  EXPECT_EQ(on(ReloadAsked{RequestId(1)}), "read");
  EXPECT_EQ(on(ReloadAsked{RequestId(2)}), "not 2");
  EXPECT_EQ(error_.code, ErrorCode::kUnavailable);
  EXPECT_EQ(on(RequestCancelled{RequestId(1)}), "not 1");
  EXPECT_EQ(on(ReloadAsked{RequestId(3)}), "not 3") << "it is still being read";
  EXPECT_EQ(on(CatalogueRead{CatalogueNews{{}, {ModelId(0)}}}), "removed 0");
  EXPECT_EQ(on(ReloadAsked{RequestId(4)}), "read");
  EXPECT_EQ(on(LoaderStalled{unavailable("nothing moves")}), "not 4");
  EXPECT_EQ(on(CatalogueRead{unavailable("no folder")}), "");
  EXPECT_EQ(on(ReloadAsked{RequestId(5)}), "read");
  EXPECT_EQ(on(CatalogueRead{unavailable("no folder")}), "not 5");
  EXPECT_EQ(error_.message, "no folder");
}

}  // namespace
}  // namespace causeway::fleet::fleet_core_admin_test
