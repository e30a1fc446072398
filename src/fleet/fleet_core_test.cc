#include "fleet/fleet_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace causeway::fleet::fleet_core_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What was done, in words: "route 3 1" is request 3 to slice 1.
std::string in_words(const Action& action) {
  const auto text = [](std::int64_t n) { return std::to_string(n); };
  if (const auto* one = std::get_if<Route>(&action)) {
    return "route " + text(one->request.value) + " " + text(one->slice.value);
  }
  if (const auto* one = std::get_if<CancelOn>(&action)) {
    return "cancel " + text(one->request.value) + " " + text(one->slice.value);
  }
  if (const auto* one = std::get_if<Withdraw>(&action)) {
    return "withdraw " + text(one->request.value) + " " + text(one->slice.value);
  }
  if (const auto* one = std::get_if<Refuse>(&action)) {
    const bool cancelled = one->reason == request::FinishReason::kCancelled;
    return (cancelled ? "cancelled " : "refuse ") + text(one->request.value);
  }
  if (const auto* one = std::get_if<Measure>(&action)) return "measure " + text(one->model.value);
  if (const auto* one = std::get_if<Load>(&action)) {
    return "load " + text(one->model.value) + " " + text(one->slice.value);
  }
  if (const auto* one = std::get_if<Unload>(&action)) {
    std::string words = one->drop ? "unload and drop " : "unload ";
    words += text(one->model.value);
    for (const SliceId slice : one->slices) words += " " + text(slice.value);
    return words;
  }
  if (const auto* one = std::get_if<Resize>(&action)) {
    std::string words = "resize";
    for (const SliceId slice : one->closing) words += " " + text(slice.value);
    return words;
  }
  return "drop " + text(std::get<Drop>(action).model.value);
}

class FleetCoreTest : public ::testing::Test {
 protected:
  void start(int models, int slices, const FleetOptions& options = {.loads_max = 4},
             PlacementKind kind = PlacementKind::kBandwidth) {
    spec_.models.resize(static_cast<std::size_t>(models));
    for (std::size_t i = 0; i < spec_.models.size(); ++i) {
      spec_.models[i].name = "m" + std::to_string(i);
    }
    spec_.slices.resize(static_cast<std::size_t>(slices));
    for (SliceSpec& slice : spec_.slices) slice.models_max = places_;
    core_ = std::make_unique<FleetCore>(spec_, options, make_placement(kind));
  }

  // What an event leads to, in words, separated by "; ".
  std::string on(const Event& event) {
    actions_ = core_->on_event(event, now_);
    const Status whole = core_->check_integrity();
    EXPECT_TRUE(whole.ok()) << whole.error().message;
    std::string words;
    std::erase_if(actions_,
                  [](const Action& action) { return std::holds_alternative<LoadFailed>(action); });
    for (const Action& action : actions_) words += (words.empty() ? "" : "; ") + in_words(action);
    return words;
  }
  std::string ask(std::int64_t request, std::int64_t model) {
    return on(RequestArrived{RequestId(request), ModelId(model), {}, now_});
  }
  std::string end(std::int64_t request) { return on(RequestEnded{RequestId(request)}); }
  std::string measured(std::int64_t model) {
    return on(Measured{ModelId(model), HostRoom{Bytes(10), core_->host_used(), budget_}});
  }
  std::string loaded(std::int64_t model) { return on(LoadEnded{ModelId(model), Bytes(0)}); }
  std::string unloaded(std::int64_t model) { return on(UnloadEnded{ModelId(model), {}}); }
  // A model is made ready, and the request that asked for it is served.
  void serve(std::int64_t request, std::int64_t model) {
    ASSERT_EQ(ask(request, model), "measure " + std::to_string(model));
    ASSERT_THAT(measured(model), HasSubstr("load"));
    ASSERT_THAT(loaded(model), HasSubstr("route"));
    ASSERT_EQ(end(request), "");
  }
  std::string wait(Nanos time) {
    now_ += time;
    return on(Woken{});
  }
  ModelPhase phase(std::int64_t model) { return core_->model(ModelId(model)).phase; }
  Error refusal() { return std::get<Refuse>(actions_.at(0)).error; }

  std::int64_t places_ = 1;  // before start()
  Bytes budget_ = Bytes(1000);
  FleetSpec spec_ = {};
  Nanos now_;
  std::unique_ptr<FleetCore> core_;
  std::vector<Action> actions_;
};

TEST_F(FleetCoreTest, AReadyModelsSliceServesItsRequests) {
  start(2, 2);
  EXPECT_EQ(ask(1, 0), "measure 0");
  EXPECT_EQ(ask(2, 0), "") << "one load for both";
  EXPECT_EQ(measured(0), "load 0 0");
  EXPECT_EQ(loaded(0), "route 1 0; route 2 0");
  EXPECT_EQ(ask(3, 0), "route 3 0");
  EXPECT_EQ(ask(4, 1), "measure 1");
  EXPECT_EQ(measured(1), "load 1 1") << "an idle slice";
  EXPECT_EQ(core_->model(ModelId(0)).running, 3);
}

TEST_F(FleetCoreTest, AnIdleModelGivesWayAndStaysInHostMemory) {
  start(2, 1);
  serve(1, 0);
  EXPECT_EQ(ask(2, 1), "measure 1");
  EXPECT_EQ(measured(1), "unload 0 0");
  EXPECT_EQ(unloaded(0), "load 1 0");
  EXPECT_EQ(phase(0), ModelPhase::kHome);
  loaded(1);
  end(2);
  EXPECT_EQ(ask(3, 0), "unload 1 0") << "its size is known: nothing is measured";
  EXPECT_EQ(unloaded(1), "load 0 0");
}

TEST_F(FleetCoreTest, FullHostMemoryDropsWhatIsOnNoSlice) {
  budget_ = Bytes(25);
  start(3, 1);
  serve(1, 0);
  ask(2, 1);
  measured(1);
  unloaded(0);
  loaded(1);
  end(2);
  EXPECT_EQ(ask(3, 2), "measure 2");
  now_ += seconds(1);
  EXPECT_EQ(measured(2), "drop 0; unload 1 0") << "20 of 25 bytes are taken, 10 needed";
  EXPECT_EQ(unloaded(1), "") << "its memory is not there yet";
  EXPECT_EQ(on(DropEnded{ModelId(0)}), "load 2 0");
}

TEST_F(FleetCoreTest, RequestsForAModelThatLeavesHaveItLoadedAgain) {
  start(2, 1);
  serve(1, 0);
  ask(2, 1);
  measured(1);
  EXPECT_EQ(ask(3, 0), "");
  EXPECT_EQ(unloaded(0), "load 1 0");
  EXPECT_EQ(loaded(1), "route 2 0");
  EXPECT_EQ(end(2), "unload 1 0");
  EXPECT_EQ(unloaded(1), "load 0 0");
  EXPECT_EQ(loaded(0), "route 3 0");
}

TEST_F(FleetCoreTest, WithoutAPlaceARequestIsRefusedInTime) {
  start(2, 1, {.loads_max = 4, .room_timeout = millis(300)});
  serve(1, 0);
  ask(2, 0);
  ask(3, 1);
  EXPECT_EQ(measured(1), "");
  EXPECT_EQ(core_->next_wakeup(), millis(300));
  EXPECT_EQ(wait(millis(299)), "");
  EXPECT_EQ(wait(millis(1)), "refuse 3");
  EXPECT_EQ(refusal().code, ErrorCode::kUnavailable);
  EXPECT_THAT(refusal().message, HasSubstr("m1"));
  EXPECT_EQ(core_->next_wakeup(), std::nullopt);
}

TEST_F(FleetCoreTest, TimeWithoutAPlaceIsNotCountedWhileNothingCouldBeLoaded) {
  places_ = 2;
  start(4, 1, {.loads_max = 1});
  serve(1, 0);
  ask(2, 1);
  measured(1);
  EXPECT_EQ(loaded(1), "route 2 0");
  ask(3, 2);
  EXPECT_EQ(measured(2), "unload 0 0");
  EXPECT_EQ(ask(4, 3), "measure 3");
  EXPECT_EQ(measured(3), "");
  EXPECT_EQ(unloaded(0), "load 2 0");
  EXPECT_EQ(wait(seconds(60)), "") << "the load of another takes long";
  EXPECT_EQ(loaded(2), "route 3 0");
  EXPECT_EQ(wait(millis(999)), "");
  EXPECT_EQ(wait(millis(1)), "refuse 4");
}

TEST_F(FleetCoreTest, AModelWithRequestsIsDrainedForOneThatWaits) {
  start(2, 1, {.loads_max = 4, .room_timeout = seconds(10), .drain_after = seconds(2)});
  serve(1, 0);
  ask(2, 0);
  ask(3, 1);
  measured(1);
  EXPECT_EQ(core_->next_wakeup(), seconds(2));
  EXPECT_EQ(wait(seconds(2)), "");
  EXPECT_EQ(phase(0), ModelPhase::kDraining);
  EXPECT_EQ(ask(4, 0), "") << "held, so that it ends";
  EXPECT_EQ(end(2), "unload 0 0");
  EXPECT_EQ(unloaded(0), "load 1 0");
  EXPECT_EQ(loaded(1), "route 3 0");
  EXPECT_EQ(wait(seconds(2)), "") << "and now the other one is drained";
  EXPECT_EQ(end(3), "unload 1 0");
  EXPECT_EQ(unloaded(1), "load 0 0");
  EXPECT_EQ(loaded(0), "route 4 0");
  EXPECT_EQ(core_->counters().drains, 2);
}

TEST_F(FleetCoreTest, WhatDrainsServesOnWhenTheTakerIsCancelled) {
  start(2, 1, {.loads_max = 4, .room_timeout = seconds(10), .drain_after = seconds(2)});
  serve(1, 0);
  ask(2, 0);
  ask(3, 1);
  measured(1);
  wait(seconds(2));
  ask(4, 0);
  EXPECT_EQ(on(RequestCancelled{RequestId(3)}), "cancelled 3; route 4 0");
  EXPECT_EQ(phase(0), ModelPhase::kReady);
  EXPECT_EQ(core_->model(ModelId(0)).running, 2);
}

TEST_F(FleetCoreTest, AFailedLoadEndsItsRequestsAndIsTriedAgain) {
  start(1, 1);
  ask(1, 0);
  ask(2, 0);
  measured(0);
  EXPECT_EQ(on(LoadEnded{ModelId(0), corrupt("truncated")}), "refuse 1; refuse 2");
  EXPECT_THAT(refusal().message, HasSubstr("'m0' could not be loaded: truncated"));
  EXPECT_EQ(core_->model(ModelId(0)).last_error, "truncated");
  EXPECT_EQ(ask(3, 0), "measure 0");
  EXPECT_EQ(on(Measured{ModelId(0), unsupported("no such layers")}), "refuse 3");
}

TEST_F(FleetCoreTest, WhatDoesNotLetGoServesOn) {
  start(2, 1);
  serve(1, 0);
  ask(2, 1);
  EXPECT_EQ(measured(1), "unload 0 0");
  EXPECT_EQ(ask(3, 0), "");
  EXPECT_EQ(on(UnloadEnded{ModelId(0), unavailable("busy")}), "route 3 0; refuse 2");
}

TEST_F(FleetCoreTest, CancelsOfHeldAndRoutedRequests) {
  start(1, 1);
  ask(1, 0);
  ask(2, 0);
  measured(0);
  EXPECT_EQ(on(RequestCancelled{RequestId(1)}), "cancelled 1");
  EXPECT_EQ(on(RequestCancelled{RequestId(1)}), "") << "it is gone";
  EXPECT_EQ(loaded(0), "route 2 0");
  EXPECT_EQ(on(RequestCancelled{RequestId(2)}), "cancel 2 0");
  EXPECT_EQ(end(2), "");
  EXPECT_EQ(end(2), "");
}

TEST_F(FleetCoreTest, AnIdInUseIsRefusedAndTheFirstGoesOn) {
  start(1, 1);
  ask(1, 0);
  EXPECT_EQ(ask(1, 0), "refuse 1");
  EXPECT_EQ(refusal().code, ErrorCode::kInvalidArgument);
  measured(0);
  EXPECT_EQ(loaded(0), "route 1 0");
}

TEST_F(FleetCoreTest, TheQueueIsBounded) {
  start(2, 1, {.waiting_max = 2});
  ask(1, 0);
  ask(2, 1);
  EXPECT_EQ(ask(3, 0), "refuse 3");
  EXPECT_EQ(refusal().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(core_->waiting(), 2);
}

TEST_F(FleetCoreTest, AHerdIsOneLoadAtATime) {
  start(10, 4, {.waiting_max = 1000, .loads_max = 2});
  std::string all;
  for (int id = 0; id < 100; ++id) all += ask(id, id % 10) + " ";
  EXPECT_EQ(std::count(all.begin(), all.end(), 'm'), 2) << all;
}

TEST_F(FleetCoreTest, TheOneThatLagsFirstIsPlacedFirst) {
  start(3, 2, {.loads_max = 1});
  serve(1, 0);
  ask(2, 1);
  ask(3, 0);
  request::Slo urgent;
  urgent.ttft = millis(100);
  ask(5, 1);
  EXPECT_EQ(on(RequestArrived{RequestId(4), ModelId(2), urgent, now_}), "");
  EXPECT_EQ(measured(1), "measure 2") << "the place is kept for the one that is late";
  EXPECT_EQ(measured(2), "load 2 1");
}

TEST_F(FleetCoreTest, ALostSlicesModelsAreServedElsewhere) {
  start(2, 2);
  serve(1, 0);
  EXPECT_EQ(on(SliceLost{SliceId(0)}), "");
  EXPECT_EQ(phase(0), ModelPhase::kHome);
  EXPECT_EQ(ask(3, 0), "load 0 1");
  EXPECT_EQ(loaded(0), "route 3 1");
  EXPECT_EQ(core_->model(ModelId(0)).running, 1);
}

TEST_F(FleetCoreTest, RequestsOfALostSliceGoOnElsewhereBeforeThoseThatCameLater) {
  start(2, 2);
  serve(1, 0);
  for (int id = 2; id < 6; ++id) EXPECT_EQ(ask(id, 0), "route " + std::to_string(id) + " 0");
  end(3);
  on(RequestCancelled{RequestId(4)});
  EXPECT_EQ(on(SliceLost{SliceId(0)}), "cancelled 4; load 0 1") << "what was cancelled does not";
  EXPECT_EQ(ask(6, 0), "");
  EXPECT_EQ(end(5), "") << "it had ended before";
  EXPECT_EQ(loaded(0), "route 2 1; route 6 1");
  EXPECT_EQ(core_->counters().resumed, 1);
  EXPECT_EQ(core_->waiting(), 0);
}

TEST_F(FleetCoreTest, ARequestThatLosesItsSliceEachTimeEndsAndOneThatWaitsGoesOn) {
  start(1, 1, {.resumes_max = 2});
  serve(1, 0);
  ask(2, 0);
  ask(3, 0);
  const SliceLost lost{SliceId(0), {RequestId(2)}};
  for (int time = 0; time < 2; ++time) {
    EXPECT_EQ(on(lost), "");
    EXPECT_EQ(on(SliceReturned{SliceId(0)}), "load 0 0");
    EXPECT_EQ(loaded(0), "route 2 0; route 3 0");
  }
  EXPECT_EQ(on(SliceLost{SliceId(0)}), "") << "neither was in the step";
  EXPECT_EQ(on(SliceReturned{SliceId(0)}), "load 0 0");
  EXPECT_EQ(loaded(0), "route 2 0; route 3 0");
  EXPECT_EQ(on(lost), "refuse 2");
  EXPECT_THAT(refusal().message, HasSubstr("was lost, as were 2 before it"));
}

TEST_F(FleetCoreTest, WithoutASliceAllWaitForOneToReturnTheSameTime) {
  places_ = 2;
  start(2, 1,
        {.room_timeout = seconds(1), .resume_timeout = seconds(60), .return_timeout = seconds(10)});
  serve(1, 0);
  serve(2, 1);
  ask(3, 0);
  EXPECT_EQ(on(SliceLost{SliceId(0)}), "");
  EXPECT_EQ(wait(seconds(9)), "") << "longer than for room";
  EXPECT_EQ(ask(4, 1), "");
  EXPECT_EQ(core_->next_wakeup(), seconds(10));
  EXPECT_EQ(wait(seconds(1)), "refuse 3; refuse 4");
  EXPECT_THAT(refusal().message, HasSubstr("none has come back within 10 s"));
  EXPECT_EQ(ask(5, 0), "refuse 5") << "until one is back";
  on(SliceReturned{SliceId(0)});
  EXPECT_EQ(ask(6, 0), "load 0 0");
}

TEST_F(FleetCoreTest, WhenASliceIsBackTheLongestWaitedForIsLoadedFirst) {
  places_ = 3;
  start(3, 1, {.loads_max = 1, .resume_timeout = seconds(60), .return_timeout = seconds(60)});
  for (int model = 0; model < 3; ++model) serve(model, model);
  on(SliceLost{SliceId(0)});
  for (const int model : {1, 2, 0}) {
    EXPECT_EQ(ask(10 + model, model), "");
    wait(seconds(1));
  }
  EXPECT_EQ(on(SliceReturned{SliceId(0)}), "load 1 0");
  EXPECT_THAT(loaded(1), HasSubstr("load 2 0"));
  EXPECT_THAT(loaded(2), HasSubstr("load 0 0"));
}

TEST_F(FleetCoreTest, WhatCannotGoOnInTimeEnds) {
  start(1, 2, {.resume_timeout = seconds(5)});
  serve(1, 0);
  ask(2, 0);
  EXPECT_EQ(on(SliceLost{SliceId(0)}), "load 0 1");
  EXPECT_EQ(ask(3, 0), "");
  EXPECT_EQ(core_->next_wakeup(), seconds(5));
  EXPECT_EQ(wait(seconds(5)), "refuse 2");
  EXPECT_THAT(refusal().message, HasSubstr("within 5 s"));
  EXPECT_EQ(loaded(0), "route 3 1") << "one that came since waits as ever";
}

TEST_F(FleetCoreTest, WhileTheLoaderIsStalledOnlyWhatIsReadyIsServed) {
  start(3, 2, {.loads_max = 1});
  serve(1, 0);
  EXPECT_EQ(ask(2, 1), "measure 1");
  EXPECT_EQ(ask(3, 2), "");
  EXPECT_EQ(on(LoaderStalled{unavailable("nothing moves")}), "refuse 2; refuse 3");
  EXPECT_EQ(refusal().message, "nothing moves");
  EXPECT_EQ(ask(4, 2), "refuse 4");
  EXPECT_EQ(ask(5, 0), "route 5 0");
  EXPECT_EQ(on(SliceLost{SliceId(0)}), "refuse 5") << "to go on it would have to be loaded";
  EXPECT_EQ(measured(1), "") << "it goes on after all";
  EXPECT_EQ(ask(6, 1), "measure 1");
}

TEST_F(FleetCoreTest, SlicesThatChangeDrainFirst) {
  start(2, 1);
  serve(1, 0);
  EXPECT_EQ(ask(2, 0), "route 2 0");
  EXPECT_EQ(on(ResizeWanted{{SliceId(0)}, seconds(3)}), "");
  EXPECT_TRUE(core_->resizing());
  EXPECT_EQ(phase(0), ModelPhase::kClosing);
  EXPECT_EQ(core_->next_wakeup(), now_ + seconds(3));
  EXPECT_EQ(ask(3, 0), "") << "what comes is held";
  EXPECT_EQ(ask(4, 1), "") << "and nothing is loaded";
  EXPECT_EQ(on(ResizeWanted{{SliceId(0)}, seconds(3)}), "") << "it changes already";
  EXPECT_EQ(end(2), "resize 0");
  EXPECT_EQ(wait(seconds(30)), "") << "they come";
  const SliceSpec half{.models_max = 1};
  EXPECT_EQ(on(SlicesChanged{{{SliceId(0), half}, {SliceId(1), half}}}), "measure 1; load 0 0");
  EXPECT_FALSE(core_->resizing());
  EXPECT_EQ(loaded(0), "route 3 0");
  EXPECT_EQ(measured(1), "load 1 1");
  EXPECT_EQ(loaded(1), "route 4 1");
  EXPECT_EQ(core_->counters().withdrawn, 0);
}

TEST_F(FleetCoreTest, WhatDoesNotEndInTimeGoesOnOnTheNewSlices) {
  start(1, 2, {.resumes_max = 0});
  serve(1, 0);
  ask(2, 0);
  ask(3, 0);
  on(ResizeWanted{{SliceId(0), SliceId(1)}, seconds(3)});
  on(RequestCancelled{RequestId(3)});
  EXPECT_EQ(wait(seconds(2)), "");
  EXPECT_EQ(wait(seconds(1)), "resize 0 1; cancelled 3");
  EXPECT_EQ(ask(4, 0), "");
  EXPECT_EQ(on(SlicesChanged{{{SliceId(1), {}}}}), "load 0 1");
  EXPECT_EQ(loaded(0), "route 2 1; route 4 1") << "in order, and however often: it is no loss";
  EXPECT_EQ(core_->counters().withdrawn, 1);
}

TEST_F(FleetCoreTest, OtherSlicesServeOnMeanwhile) {
  places_ = 0;
  start(1, 2, {.moves = true});
  serve(1, 0);
  on(SliceLost{SliceId(0)});
  EXPECT_EQ(ask(2, 0), "load 0 1");
  loaded(0);
  on(SliceReturned{SliceId(0)});
  EXPECT_EQ(core_->model(ModelId(0)).slice, SliceId(1));
  EXPECT_EQ(on(ResizeWanted{{SliceId(0)}, seconds(3)}), "resize 0") << "nothing runs there";
  EXPECT_EQ(ask(3, 0), "route 3 1") << "others serve on";
  EXPECT_EQ(on(SlicesChanged{}), "");
  EXPECT_EQ(ask(4, 0), "route 4 1");
}

TEST_F(FleetCoreTest, SlicesDoNotChangeWhileSomethingIsLoaded) {
  start(2, 1);
  EXPECT_EQ(ask(1, 0), "measure 0");
  EXPECT_EQ(on(ResizeWanted{{SliceId(0)}, seconds(3)}), "");
  EXPECT_FALSE(core_->resizing());
  measured(0);
  EXPECT_EQ(loaded(0), "route 1 0");
  on(ResizeWanted{{SliceId(0)}, seconds(3)});
  EXPECT_TRUE(core_->resizing());
}

TEST_F(FleetCoreTest, WithoutNewSlicesRequestsEnd) {
  start(1, 1, {.return_timeout = Nanos(0)});
  serve(1, 0);
  on(ResizeWanted{{SliceId(0)}, seconds(3)});
  EXPECT_EQ(ask(2, 0), "");
  EXPECT_EQ(on(SlicesChanged{}), "refuse 2");
  EXPECT_THAT(refusal().message, HasSubstr("all slices were lost"));
}

TEST_F(FleetCoreTest, ASliceThatIsLostWhileItDrainsIsClosedAtOnce) {
  start(1, 1);
  serve(1, 0);
  ask(2, 0);
  on(ResizeWanted{{SliceId(0)}, seconds(3)});
  EXPECT_EQ(on(SliceLost{SliceId(0)}), "resize 0");
  EXPECT_EQ(on(SlicesChanged{{{SliceId(0), {}}}}), "load 0 0");
  EXPECT_EQ(loaded(0), "route 2 0");
}

TEST_F(FleetCoreTest, ASliceLostWhileAModelLoads) {
  start(1, 2);
  ask(1, 0);
  EXPECT_EQ(measured(0), "load 0 0");
  EXPECT_FALSE(core_->load_is_undone(ModelId(0)));
  on(SliceLost{SliceId(0)});
  on(SliceReturned{SliceId(0)});
  EXPECT_TRUE(core_->load_is_undone(ModelId(0))) << "nothing may be attached there for it";
  EXPECT_EQ(loaded(0), "load 0 0") << "the slice has returned empty: it is loaded there again";
  EXPECT_FALSE(core_->load_is_undone(ModelId(0)));
  EXPECT_EQ(loaded(0), "route 1 0");
}

TEST_F(FleetCoreTest, TheInitialActiveSetIsByRateAndKeepsWithinTheLink) {
  places_ = 8;
  spec_.models.resize(4);
  for (std::size_t i = 0; i < 4; ++i) {
    spec_.models[i].weights = Bytes(40);
    spec_.models[i].slo.tpot = seconds(1);
    spec_.models[i].rate = static_cast<double>(i);
  }
  spec_.slices.resize(1);
  spec_.slices[0].memory = Bytes(1);
  spec_.slices[0].link = LinkId(0);
  spec_.links = {{.bytes_per_second = 100}};
  start(4, 1, {.loads_max = 1});
  EXPECT_EQ(on(ModelWanted{ModelId(0)}), "measure 0");
  for (int i = 1; i < 4; ++i) on(ModelWanted{ModelId(i)});
  const auto stream = [&](int model) { return on(LoadEnded{ModelId(model), Bytes(39)}); };
  EXPECT_EQ(measured(0), "measure 3") << "those that are asked for most come first";
  EXPECT_EQ(measured(3), "load 3 0");
  EXPECT_EQ(stream(3), "measure 2");
  EXPECT_EQ(measured(2), "load 2 0");
  EXPECT_EQ(stream(2), "measure 1");
  EXPECT_EQ(measured(1), "") << "a third does not fit the link";
  EXPECT_EQ(phase(0), ModelPhase::kCold);
  EXPECT_EQ(ask(1, 1), "measure 1");
  EXPECT_EQ(measured(1), "unload 2 0") << "but for a request one gives way";
}

// Two GPUs with a link each. What is asked for most comes first, and where less is.
TEST_F(FleetCoreTest, ModelsAreSpreadOverGpusByHeat) {
  places_ = 0;
  spec_.models.resize(4);
  for (const auto& [model, rate] : {std::pair{0, 1.0}, {1, 9.0}, {2, 2.0}, {3, 8.0}}) {
    ModelSpec& spec = spec_.models[static_cast<std::size_t>(model)];
    spec.weights = Bytes(40);
    spec.slo.tpot = seconds(1);
    spec.rate = rate;
  }
  spec_.slices.resize(2);
  for (int gpu = 0; gpu < 2; ++gpu) {
    SliceSpec& slice = spec_.slices[static_cast<std::size_t>(gpu)];
    slice.memory = Bytes(1000);
    slice.memory_bytes_per_second = 100;
    slice.link = LinkId(gpu);
    spec_.links.push_back({.bytes_per_second = 100});
  }
  start(4, 2, {.loads_max = 4, .moves = true});
  for (int model = 0; model < 4; ++model) on(ModelWanted{ModelId(model)});
  std::string placed;
  for (const int model : {1, 3, 2, 0}) placed += measured(model) + "; ";
  EXPECT_EQ(placed, "load 1 0; load 3 1; load 2 0; load 0 1; ");
}

TEST_F(FleetCoreTest, BestEffortPredictsItsTpot) {
  spec_.models.resize(1);
  spec_.models[0].weights = Bytes(300);
  spec_.models[0].slo.tpot = seconds(1);
  spec_.slices.resize(1);
  spec_.slices[0].memory = Bytes(100);
  spec_.slices[0].link = LinkId(0);
  spec_.links = {{.bytes_per_second = 100}};
  start(1, 1);
  ask(1, 0);
  EXPECT_EQ(measured(0), "load 0 0");
  EXPECT_EQ(core_->counters().best_effort, 1);
  const auto actions = core_->on_event(LoadEnded{ModelId(0), Bytes(200)}, now_);
  EXPECT_EQ(core_->predicted_tpot(ModelId(0)), seconds(2));
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(std::get<Route>(actions[0]).predicted_tpot, seconds(2)) << "who asks is told";
}

TEST_F(FleetCoreTest, ARequestWhoseTargetsAreKeptHearsOfNoTpot) {
  spec_.models.resize(1);
  spec_.models[0].weights = Bytes(100);
  spec_.models[0].slo.tpot = seconds(1);
  spec_.slices.resize(1);
  spec_.slices[0].link = LinkId(0);
  spec_.links = {{.bytes_per_second = 100}};
  start(1, 1);
  ask(1, 0);
  EXPECT_EQ(measured(0), "load 0 0");
  const auto actions = core_->on_event(LoadEnded{ModelId(0), Bytes(100)}, now_);
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(std::get<Route>(actions[0]).predicted_tpot, Nanos(0)) << "the link is just enough";
  EXPECT_EQ(core_->predicted_tpot(ModelId(0)), seconds(1));
}

TEST_F(FleetCoreTest, StopEndsWhatIsHeld) {
  start(2, 1);
  ask(1, 0);
  measured(0);
  ask(2, 1);
  EXPECT_EQ(on(Stopped{}), "cancelled 1; cancelled 2");
  EXPECT_EQ(ask(3, 0), "refuse 3");
  EXPECT_EQ(refusal().code, ErrorCode::kUnavailable);
  EXPECT_EQ(loaded(0), "");
  EXPECT_EQ(measured(1), "");
  EXPECT_FALSE(core_->loads_pending());
}

// Models that change slices: 0 and 1 are ready, both on slice 0; slice 1 is empty, 2 is cold.
class MovingModelsTest : public FleetCoreTest {
 protected:
  MovingModelsTest() {
    places_ = 0;
    start(3, 2, {.loads_max = 1, .moves = true});
    for (const int model : {0, 1}) {
      ask(model, model);
      measured(model);
      EXPECT_EQ(loaded(model), "route " + std::to_string(model) + " 0");
      end(model);
    }
  }
  std::int64_t slice(std::int64_t model) { return core_->model(ModelId(model)).slice.value; }
};

TEST_F(MovingModelsTest, StayWhereTheyAreWhileNobodyElseIsServedThere) {
  EXPECT_EQ(ask(10, 0), "route 10 0");
  EXPECT_EQ(ask(11, 0), "route 11 0") << "its slice is busy with itself";
  EXPECT_EQ(core_->counters().moves, 0);
}

TEST_F(MovingModelsTest, GoToAnIdleSliceAndStayAttachedWhereTheyWere) {
  ask(10, 0);
  EXPECT_EQ(ask(11, 1), "load 1 1");
  EXPECT_EQ(ask(12, 1), "") << "held behind the first";
  EXPECT_EQ(loaded(1), "route 11 1; route 12 1");
  EXPECT_EQ(core_->counters().moves, 1);
  for (const int request : {10, 11, 12}) end(request);
  EXPECT_EQ(ask(13, 1), "route 13 1") << "it stays where its weights may still be cached";
  EXPECT_EQ(ask(14, 0), "route 14 0");
  end(13);
  end(14);
  ask(15, 1);
  EXPECT_EQ(slice(1), 1);
}

TEST_F(MovingModelsTest, ChangeAtOnceToASliceWhereTheyAreAttached) {
  ask(10, 0);
  ask(11, 1);
  loaded(1);
  end(10);
  end(11);
  EXPECT_EQ(ask(20, 2), "measure 2");
  EXPECT_EQ(measured(2), "load 2 0");
  EXPECT_EQ(loaded(2), "route 20 0");
  EXPECT_EQ(ask(21, 0), "load 0 1");
  EXPECT_EQ(loaded(0), "route 21 1");
  end(20);
  EXPECT_EQ(ask(22, 1), "route 22 0") << "slice 1 is busy, and it is attached to slice 0";
}

TEST_F(MovingModelsTest, AreServedWhereTheyAreWhileSomethingElseIsLoaded) {
  ask(10, 0);
  EXPECT_EQ(ask(11, 2), "measure 2");
  EXPECT_EQ(ask(12, 1), "route 12 0");
  EXPECT_EQ(measured(2), "load 2 1") << "where nobody is served";
}

TEST_F(MovingModelsTest, AreServedWhereTheyWereIfTheOtherSliceCannotTakeThem) {
  ask(10, 0);
  EXPECT_EQ(ask(11, 1), "load 1 1");
  EXPECT_EQ(on(LoadEnded{ModelId(1), exhausted("the slice is too small")}), "route 11 0");
  EXPECT_EQ(phase(1), ModelPhase::kReady);
  end(11);
  EXPECT_EQ(ask(12, 1), "load 1 1") << "it is tried again";
  EXPECT_EQ(on(LoadEnded{ModelId(1), corrupt("a device that says strange things")}), "route 12 0");
}

TEST_F(MovingModelsTest, AreServedByWhatIsLeftWhenASliceIsLost) {
  ask(10, 0);
  ask(11, 1);
  loaded(1);
  EXPECT_EQ(on(SliceLost{SliceId(1)}), "route 11 0") << "it is attached there still";
  EXPECT_EQ(phase(1), ModelPhase::kReady);
  EXPECT_EQ(slice(1), 0);
  EXPECT_EQ(ask(12, 1), "route 12 0");
  EXPECT_EQ(on(SliceLost{SliceId(0)}), "");
  EXPECT_EQ(phase(0), ModelPhase::kWaiting) << "for one to return";
}

TEST_F(MovingModelsTest, LeaveEverySliceWithHostMemory) {
  ask(10, 0);
  ask(11, 1);
  loaded(1);
  end(11);
  budget_ = Bytes(20);
  EXPECT_EQ(ask(12, 2), "measure 2");
  EXPECT_EQ(measured(2), "unload and drop 1 0 1") << "the slice that serves it is left last";
  EXPECT_EQ(on(UnloadEnded{ModelId(1), {}}), "load 2 1");
}

// Where a model was before what serves there now (ServerlessLLM's): 0 and 1 are ready on slice 0.
class MigrationTest : public FleetCoreTest {
 protected:
  void start_with(Bytes weights_of_1) {
    places_ = 0;
    spec_.models.resize(3);
    for (ModelSpec& model : spec_.models) model.weights = Bytes(10);
    spec_.models[1].weights = weights_of_1;
    start(3, 3, {.loads_max = 1, .moves = true}, PlacementKind::kLocality);
    for (const int model : {0, 1}) serve(model, model);
  }
  // 0 and 1 are ready on slice 1, where 1 runs 21; it was on slice 0 before, which is idle.
  void start_behind_1() {
    start_with(Bytes(10));
    EXPECT_EQ(ask(10, 1), "route 10 0");
    EXPECT_EQ(ask(11, 0), "load 0 1") << "either has to bring its weights: the one that begins";
    EXPECT_EQ(loaded(0), "route 11 1");
    EXPECT_EQ(end(10) + end(11), "");
    EXPECT_EQ(ask(20, 2), "measure 2");
    EXPECT_EQ(measured(2), "load 2 0");
    EXPECT_EQ(loaded(2), "route 20 0");
    EXPECT_EQ(ask(21, 1), "load 1 1");
    EXPECT_EQ(loaded(1), "route 21 1");
    EXPECT_EQ(end(20), "");
    EXPECT_EQ(core_->counters().migrations, 0);
  }
  std::string given_back(std::int64_t request) { return on(RequestWithdrawn{RequestId(request)}); }
  std::int64_t slice(std::int64_t model) { return core_->model(ModelId(model)).slice.value; }
};

TEST_F(MigrationTest, WhatRunsGoesBackToWhereItWas) {
  start_behind_1();
  EXPECT_EQ(ask(22, 0), "withdraw 21 1; route 22 1");
  EXPECT_EQ(phase(1), ModelPhase::kMigrating);
  EXPECT_EQ(ask(23, 1), "") << "it is held behind the other";
  EXPECT_EQ(given_back(21), "route 21 0; route 23 0");
  EXPECT_EQ(slice(1), 0);
  EXPECT_EQ(core_->counters().migrations, 1);
  EXPECT_EQ(core_->counters().migrated, 1);
}

TEST_F(MigrationTest, WhatEndsMeanwhileHasEnded) {
  start_behind_1();
  ask(22, 0);
  EXPECT_EQ(end(21), "");
  EXPECT_EQ(phase(1), ModelPhase::kReady);
  EXPECT_EQ(slice(1), 0);
}

TEST_F(MigrationTest, WhatIsCancelledMeanwhileEnds) {
  start_behind_1();
  ask(22, 0);
  EXPECT_EQ(on(RequestCancelled{RequestId(21)}), "cancel 21 1");
  EXPECT_EQ(given_back(21), "cancelled 21");
  EXPECT_EQ(slice(1), 0);
}

TEST_F(MigrationTest, ItStaysWhenTheOtherSliceIsLost) {
  start_behind_1();
  ask(22, 0);
  EXPECT_EQ(ask(23, 1), "");
  EXPECT_EQ(on(SliceLost{SliceId(0)}), "route 23 1");
  EXPECT_EQ(phase(1), ModelPhase::kReady);
  EXPECT_EQ(given_back(21), "route 21 1") << "for nothing";
}

TEST_F(MigrationTest, ItGoesOnElsewhereWhenItsOwnSliceIsLost) {
  start_behind_1();
  ask(22, 0);
  EXPECT_EQ(on(SliceLost{SliceId(1)}), "route 22 0; route 21 0");
  EXPECT_EQ(slice(1), 0);
  EXPECT_EQ(core_->counters().migrated, 0);
}

TEST_F(MigrationTest, ALargerModelHasASmallerOneGoToAnySliceThatIsIdle) {
  start_with(Bytes(20));
  EXPECT_EQ(ask(20, 0), "route 20 0");
  EXPECT_EQ(ask(21, 1), "withdraw 20 0; route 21 0");
  EXPECT_EQ(given_back(20), "load 0 1");
  EXPECT_EQ(loaded(0), "route 20 1");
}

TEST_F(MigrationTest, WhereNoSliceIsIdleModelsTakeTurns) {
  start_with(Bytes(20));
  on(SliceLost{SliceId(1)});
  on(SliceLost{SliceId(2)});
  EXPECT_EQ(ask(20, 0), "route 20 0");
  EXPECT_EQ(ask(21, 1), "route 21 0");
}

TEST_F(FleetCoreTest, WhatOneSliceCannotTakeGoesToAnother) {
  start(1, 2);
  EXPECT_EQ(ask(1, 0), "measure 0");
  EXPECT_EQ(measured(0), "load 0 0");
  EXPECT_EQ(on(LoadEnded{ModelId(0), exhausted("the slice is too small")}), "measure 0");
  EXPECT_EQ(measured(0), "load 0 1");
  EXPECT_EQ(on(LoadEnded{ModelId(0), exhausted("this one, too")}), "refuse 1");
  EXPECT_THAT(refusal().message, HasSubstr("this one, too"));
  EXPECT_EQ(ask(2, 0), "measure 0") << "it is tried again";
  EXPECT_THAT(measured(0), HasSubstr("load 0"));
}

}  // namespace
}  // namespace causeway::fleet::fleet_core_test
