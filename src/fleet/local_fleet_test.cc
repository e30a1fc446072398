#include "fleet/local_fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <thread>

#include "base/clock.h"
#include "base/random.h"
#include "base/testing/temporary_directory.h"
#include "engine/engine.h"
#include "fleet/testing/snapshot.h"

namespace causeway::fleet::local_fleet_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Answers every sampling entry with token 1, at once, or when it is let go.
class InstantExecutor final : public engine::StepExecutor {
 public:
  const Capabilities& capabilities() const override { return capabilities_; }
  Status submit(request::Batch batch, weights::StepWeights) override {
    result_ = request::StepResult();
    result_->step = batch.step;
    for (const auto& entry : batch.entries) {
      if (entry.samples) result_->sampled.push_back({entry.request, {1, 0.0f, {}}});
    }
    return {};
  }
  std::optional<request::StepResult> wait(Nanos timeout) override {
    std::unique_lock lock(mutex_);
    const auto free = [this] { return !held_ && steps_left_ > 0; };
    if (!changed_.wait_for(lock, std::chrono::nanoseconds(timeout.count), free)) return {};
    --steps_left_;
    return std::exchange(result_, {});
  }
  Status health() const override {
    return lost_ ? Status(Error{ErrorCode::kDevice, "the GPU fell off the bus"}) : Status();
  }
  // After so many steps none ends any more.
  void hold_after(std::int64_t steps) {
    const std::scoped_lock lock(mutex_);
    steps_left_ = steps;
    changed_.notify_all();
  }
  void lose() { lost_ = true; }
  void hold(bool held) {
    const std::scoped_lock lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }

 private:
  Capabilities capabilities_;
  std::optional<request::StepResult> result_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  std::int64_t steps_left_ = INT64_MAX;
  std::atomic<bool> lost_ = false;
};

class CollectingSink final : public engine::OutputSink {
 public:
  void on_outputs(std::vector<request::Output> outputs) override {
    const std::scoped_lock lock(mutex_);
    for (auto& output : outputs) {
      tokens_[output.request] += output.tokens.size();
      if (output.finished) finished_[output.request].push_back(std::move(output));
    }
    changed_.notify_all();
  }
  bool wait_for_tokens(RequestId id, std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return tokens_[id] >= count; });
  }
  std::size_t tokens(RequestId id) {
    const std::scoped_lock lock(mutex_);
    return tokens_[id];
  }
  // The finished output; fails the test when none comes.
  request::Output wait(RequestId id) {
    std::unique_lock lock(mutex_);
    const bool came =
        changed_.wait_for(lock, std::chrono::seconds(20), [&] { return finished_.contains(id); });
    EXPECT_TRUE(came);
    return came ? finished_[id].front() : request::Output();
  }
  std::size_t times_finished(RequestId id) {
    const std::scoped_lock lock(mutex_);
    return finished_[id].size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<RequestId, std::vector<request::Output>> finished_;
  std::map<RequestId, std::size_t> tokens_;
};

// Loads when the test says so, and as it says. Every model takes 1000 bytes.
class GatedHome final : public FleetHome {
 public:
  Result<HostRoom> room_for(const CatalogueEntry&, const ModelSource&) override {
    const std::scoped_lock lock(mutex_);
    return HostRoom{.needed = kModelBytes,
                    .used = kModelBytes * static_cast<std::int64_t>(loaded_.size()),
                    .budget = budget_};
  }
  Status load(const CatalogueEntry& entry, const ModelSource&, const LoadWatch& watch) override {
    watch.progress(40);
    std::unique_lock lock(mutex_);
    ++attempts_;
    changed_.notify_all();
    if (throws_) throw std::runtime_error("a bad day");
    while (!open_ && (deaf_ || !watch.cancelled()))
      changed_.wait_for(lock, std::chrono::milliseconds(5));
    if (!failure_.empty()) return corrupt(failure_);
    if (watch.cancelled()) return Error{ErrorCode::kCancelled, "cancelled"};
    loaded_.push_back(entry.id);
    EXPECT_LE(kModelBytes * static_cast<std::int64_t>(loaded_.size()), budget_);
    return {};
  }
  void unload(ModelId model) override {
    std::unique_lock lock(mutex_);
    ++unloads_;
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::seconds(20), [this] { return !holds_unload_; });
    EXPECT_EQ(std::erase(loaded_, model), 1u);
  }

  void open(std::string failure = "") {
    const std::scoped_lock lock(mutex_);
    failure_ = std::move(failure);
    open_ = true;
    changed_.notify_all();
  }
  void set_budget(Bytes budget) {
    const std::scoped_lock lock(mutex_);
    budget_ = budget;
  }
  void shut() {
    const std::scoped_lock lock(mutex_);
    open_ = false;
  }
  void set_throws(bool throws) {
    const std::scoped_lock lock(mutex_);
    throws_ = throws;
  }
  // A load that does not notice that it is cancelled.
  void set_deaf() {
    const std::scoped_lock lock(mutex_);
    deaf_ = true;
  }
  void hold_unload(bool held) {
    const std::scoped_lock lock(mutex_);
    holds_unload_ = held;
    changed_.notify_all();
  }
  bool wait_for_attempts(int count) { return wait_for(attempts_, count); }
  bool wait_for_unloads(int count) { return wait_for(unloads_, count); }
  std::vector<ModelId> loaded() {
    const std::scoped_lock lock(mutex_);
    return loaded_;
  }

 private:
  bool wait_for(const int& counter, int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return counter >= count; });
  }

  static constexpr Bytes kModelBytes = Bytes(1000);
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  bool deaf_ = false;
  bool throws_ = false;
  bool holds_unload_ = false;
  int attempts_ = 0;
  int unloads_ = 0;
  Bytes budget_ = Bytes(100'000);
  std::string failure_;
  std::vector<ModelId> loaded_;  // in the order of their loads
};

// An engine whose device is lost when the test says so.
class TestSlice final : public FleetSlice {
 public:
  TestSlice(const Clock& clock, engine::OutputSink& sink) {
    engine::EngineOptions options;
    options.core.frames = 64;
    options.requests_max = 2;
    engine_ = engine::Engine::start(options, clock, executor_, sink).value();
  }

  Status submit(request::Request request) override {
    ++submitted_;
    return engine_->submit(std::move(request));
  }
  void cancel(RequestId request) override { engine_->cancel(request); }
  request::Observation observe() const override {
    request::Observation seen = engine_->observe();
    if (lost_) seen.lost = "the test has taken it away";
    return seen;
  }
  request::Observation observe(ModelId model) const override { return engine_->observe(model); }
  std::vector<std::pair<ModelId, request::Observation>> observe_models() const override {
    return engine_->observe_models();
  }
  Result<AttachedModel> attach(const CatalogueEntry& entry, const ModelSource&, bool) override {
    if (too_small_) return exhausted("the slice is too small");
    CAUSEWAY_TRY(engine_->add_model(entry.id, {Tokens(16), entry.max_model_len, entry.vocab}));
    ++attached_;
    return AttachedModel{};
  }
  Status detach(ModelId model, Nanos timeout) override {
    CAUSEWAY_TRY(engine_->remove_model(model, timeout));
    --attached_;
    return {};
  }
  std::vector<RequestId> suspects() const override { return engine_->suspects(); }
  Bytes link_bytes() const override { return Bytes(77); }

  engine::Engine& engine() { return *engine_; }
  InstantExecutor& executor() { return executor_; }
  void lose() { lost_ = true; }
  void be_too_small() { too_small_ = true; }
  int submitted() const { return submitted_; }
  int attached() const { return attached_; }

 private:
  InstantExecutor executor_;
  std::unique_ptr<engine::Engine> engine_;
  std::atomic<bool> lost_ = false, too_small_ = false;
  std::atomic<int> submitted_ = 0, attached_ = 0;
};

class LocalFleetTest : public ::testing::Test {
 protected:
  LocalFleetTest() { add_slice(); }
  void start(bool load_ahead, int models = 2) {
    testing::write_snapshot(folder_.path());
    std::vector<CatalogueModel> catalogue;
    for (int i = 0; i < models; ++i) {
      const ModelSource source{"m" + std::to_string(i), folder_.path()};
      catalogue.push_back({load_entry(ModelId(i), source, {}).value(), source, i == pinned_});
    }
    FleetSlices slices;
    for (const auto& slice : slices_) slices.slices.push_back(slice.get());
    fleet_ = LocalFleet::start(std::move(catalogue),
                               {.load_ahead = load_ahead,
                                .waiting_for_load_max = 3,
                                .room_timeout = millis(300),
                                .stop_timeout = stop_timeout_,
                                .stall_timeout = stall_timeout_},
                               home_, std::move(slices), sink_)
                 .value();
  }
  void add_slice() { slices_.push_back(std::make_unique<TestSlice>(clock_, sink_)); }

  request::Request ask(std::int64_t id, std::int64_t model = 0) {
    request::Request request;
    request.id = RequestId(id);
    request.model = ModelId(model);
    request.prompt = {1, 2, 3};
    request.max_tokens = Tokens(2);
    request.arrival = clock_.now();
    return request;
  }

  // One more request of the model, to its end.
  request::Output served(std::int64_t id, std::int64_t model) {
    EXPECT_TRUE(fleet_->submit(ask(id, model)).ok());
    request::Output output = collected_.wait(RequestId(id));
    // The engine tells of the end, and the loader of the load, a little later than of the tokens.
    const Nanos limit = clock_.now() + seconds(5);
    const auto busy = [&] {
      return state(model) == ModelState::kActive || state(model) == ModelState::kLoading;
    };
    while (busy() && clock_.now() < limit) std::this_thread::yield();
    return output;
  }
  ModelState state(std::int64_t model) { return fleet_->status(ModelId(model)).state; }

  int pinned_ = -1;  // before start()
  Nanos stop_timeout_ = seconds(10);
  Nanos stall_timeout_ = seconds(100);
  TemporaryDirectory folder_;
  RealClock clock_;
  CollectingSink collected_;
  SerialSink sink_{collected_};
  GatedHome home_;
  std::vector<std::unique_ptr<TestSlice>> slices_;
  std::unique_ptr<LocalFleet> fleet_;
};

TEST_F(LocalFleetTest, LoadsAheadAndServes) {
  start(/*load_ahead=*/true);
  EXPECT_EQ(fleet_->status(ModelId(1)).state, ModelState::kLoading);
  home_.open();
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  EXPECT_EQ(fleet_->status(ModelId(1)).state, ModelState::kReady);
  EXPECT_EQ(fleet_->status(ModelId(1)).host_bytes, Bytes(1000));
  EXPECT_EQ(fleet_->observe().link_bytes, Bytes(77));
  ASSERT_TRUE(fleet_->submit(ask(1, 1)).ok());
  EXPECT_EQ(collected_.wait(RequestId(1)).reason, request::FinishReason::kLength);
}

TEST_F(LocalFleetTest, RequestsWaitForTheirModel) {
  start(/*load_ahead=*/false);
  EXPECT_EQ(fleet_->status(ModelId(0)).state, ModelState::kUnloaded);
  ASSERT_TRUE(fleet_->submit(ask(1)).ok());
  ASSERT_TRUE(fleet_->submit(ask(2)).ok());
  EXPECT_EQ(fleet_->status(ModelId(0)).state, ModelState::kLoading);
  EXPECT_EQ(fleet_->observe().requests_waiting, 2);
  EXPECT_EQ(fleet_->status(ModelId(0)).requests_waiting, 2);
  ASSERT_TRUE(home_.wait_for_attempts(1));
  EXPECT_EQ(fleet_->status(ModelId(0)).load_percent, 40);
  EXPECT_EQ(fleet_->status(ModelId(1)).load_percent, -1);
  home_.open();
  EXPECT_EQ(collected_.wait(RequestId(1)).reason, request::FinishReason::kLength);
  EXPECT_EQ(collected_.wait(RequestId(2)).reason, request::FinishReason::kLength);
  EXPECT_EQ(fleet_->status(ModelId(1)).state, ModelState::kUnloaded) << "only what is asked for";
}

TEST_F(LocalFleetTest, OutputsTellHowLongTheyWereHeld) {
  start(/*load_ahead=*/false);
  ASSERT_TRUE(fleet_->submit(ask(1)).ok());
  ASSERT_TRUE(home_.wait_for_attempts(1));
  const Nanos began = clock_.now();
  while (clock_.now() < began + millis(30)) std::this_thread::yield();
  home_.open();
  const request::Output output = collected_.wait(RequestId(1));
  EXPECT_GE(output.held, millis(30));
  EXPECT_LE(output.held, output.queued);
  EXPECT_EQ(served(2, 0).held, Nanos(0)) << "its model was there";
  home_.shut();
  ASSERT_TRUE(fleet_->submit(ask(3, 1)).ok());
  ASSERT_TRUE(home_.wait_for_attempts(2));
  home_.open("a broken file");
  EXPECT_GT(collected_.wait(RequestId(3)).held, Nanos(0)) << "until its end";
}

TEST_F(LocalFleetTest, FailedLoadEndsItsRequestsAndMayBeTriedAgain) {
  start(/*load_ahead=*/false);
  ASSERT_TRUE(fleet_->submit(ask(1)).ok());
  home_.open("model.safetensors: truncated");
  const auto output = collected_.wait(RequestId(1));
  EXPECT_EQ(output.reason, request::FinishReason::kError);
  EXPECT_THAT(output.error, HasSubstr("truncated"));
  EXPECT_THAT(fleet_->status(ModelId(0)).last_error, HasSubstr("truncated"));
  EXPECT_EQ(fleet_->status(ModelId(0)).loads_failed, 1);
  home_.open("");
  ASSERT_TRUE(fleet_->submit(ask(2)).ok());
  EXPECT_EQ(collected_.wait(RequestId(2)).reason, request::FinishReason::kLength);
}

TEST_F(LocalFleetTest, CancelWhileWaitingForTheModel) {
  start(/*load_ahead=*/false);
  ASSERT_TRUE(fleet_->submit(ask(1)).ok());
  fleet_->cancel(RequestId(1));
  EXPECT_EQ(collected_.wait(RequestId(1)).reason, request::FinishReason::kCancelled);
  home_.open();
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  EXPECT_EQ(collected_.times_finished(RequestId(1)), 1u);
}

TEST_F(LocalFleetTest, WaitingPlacesAreBounded) {
  start(/*load_ahead=*/false);
  for (int id = 0; id < 3; ++id) ASSERT_TRUE(fleet_->submit(ask(id)).ok());
  EXPECT_EQ(fleet_->submit(ask(3)).error().code, ErrorCode::kResourceExhausted);
}

TEST_F(LocalFleetTest, WhatTheEngineRefusesAfterALoadIsRefusedAsItSays) {
  start(/*load_ahead=*/false);
  request::Request long_one = ask(0);
  long_one.max_tokens = Tokens(100'000);
  ASSERT_TRUE(fleet_->submit(long_one).ok());
  ASSERT_TRUE(fleet_->submit(ask(1)).ok());
  ASSERT_TRUE(fleet_->submit(ask(2)).ok());
  slices_[0]->executor().hold(true);
  home_.open();
  EXPECT_EQ(collected_.wait(RequestId(0)).code, ErrorCode::kInvalidArgument);
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  // Two fill the queue; those that waited for another model find that out late.
  ASSERT_TRUE(fleet_->submit(ask(3, 1)).ok());
  const auto refused = collected_.wait(RequestId(3));
  EXPECT_EQ(refused.reason, request::FinishReason::kError);
  EXPECT_EQ(refused.code, ErrorCode::kResourceExhausted);
  slices_[0]->executor().hold(false);
  EXPECT_EQ(collected_.wait(RequestId(2)).reason, request::FinishReason::kLength);
}

TEST_F(LocalFleetTest, AFullPoolUnloadsWhatIsCheapestToBringBack) {
  home_.set_budget(Bytes(2000));
  home_.open();
  start(/*load_ahead=*/false, 3);
  for (int id = 0; id < 3; ++id) served(id, 0);
  served(3, 1);
  EXPECT_EQ(served(4, 2).reason, request::FinishReason::kLength);
  EXPECT_THAT(home_.loaded(), ElementsAre(ModelId(0), ModelId(2)));
  EXPECT_EQ(state(1), ModelState::kUnloaded);
  EXPECT_EQ(fleet_->status(ModelId(1)).host_bytes, Bytes(0));
  EXPECT_EQ(served(5, 1).reason, request::FinishReason::kLength) << "it is loaded again";
  EXPECT_THAT(home_.loaded(), ElementsAre(ModelId(0), ModelId(1)));
}

TEST_F(LocalFleetTest, ModelsWithRequestsStay) {
  home_.set_budget(Bytes(1500));
  home_.open();
  start(/*load_ahead=*/false);
  served(0, 0);
  slices_[0]->executor().hold(true);
  ASSERT_TRUE(fleet_->submit(ask(1, 0)).ok());
  const auto refused = served(2, 1);
  EXPECT_EQ(refused.reason, request::FinishReason::kError);
  EXPECT_EQ(refused.code, ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error, HasSubstr("needs 0 KiB"));
  EXPECT_THAT(home_.loaded(), ElementsAre(ModelId(0)));
  slices_[0]->executor().hold(false);
  EXPECT_EQ(collected_.wait(RequestId(1)).reason, request::FinishReason::kLength);
  EXPECT_EQ(served(3, 1).reason, request::FinishReason::kLength);
  EXPECT_THAT(home_.loaded(), ElementsAre(ModelId(1)));
}

TEST_F(LocalFleetTest, PinnedModelsAreLoadedFirstAndStay) {
  pinned_ = 1;
  home_.set_budget(Bytes(1000));
  home_.open();
  start(/*load_ahead=*/true);
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  EXPECT_EQ(state(1), ModelState::kReady);
  EXPECT_EQ(served(0, 0).code, ErrorCode::kUnavailable);
  EXPECT_EQ(served(1, 1).reason, request::FinishReason::kLength);
}

TEST_F(LocalFleetTest, WhatDoesNotFitAheadIsLoadedOnDemand) {
  home_.set_budget(Bytes(2500));
  home_.open();
  start(/*load_ahead=*/true, 4);
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  EXPECT_THAT(home_.loaded(), ElementsAre(ModelId(0), ModelId(1)));
  EXPECT_EQ(state(3), ModelState::kUnloaded);
  EXPECT_EQ(fleet_->status(ModelId(3)).last_error, "");
  EXPECT_EQ(served(0, 3).reason, request::FinishReason::kLength);
  EXPECT_THAT(home_.loaded(), ElementsAre(ModelId(1), ModelId(3)));
}

TEST_F(LocalFleetTest, RequestsComeBeforeWhatIsLoadedAhead) {
  start(/*load_ahead=*/true, 4);
  ASSERT_TRUE(home_.wait_for_attempts(1));
  ASSERT_TRUE(fleet_->submit(ask(0, 3)).ok());
  home_.open();
  EXPECT_EQ(collected_.wait(RequestId(0)).reason, request::FinishReason::kLength);
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  EXPECT_THAT(home_.loaded(), ElementsAre(ModelId(0), ModelId(3), ModelId(1), ModelId(2)));
}

TEST_F(LocalFleetTest, AModelLargerThanThePoolFailsAlone) {
  home_.set_budget(Bytes(999));
  home_.open();
  start(/*load_ahead=*/true, 1);
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  EXPECT_THAT(fleet_->status(ModelId(0)).last_error, HasSubstr("more than the pool's"));
  EXPECT_EQ(served(0, 0).code, ErrorCode::kDevice) << "trying again later does not help";
}

TEST_F(LocalFleetTest, ARequestForAModelThatGoesHasItLoadedAgain) {
  home_.set_budget(Bytes(1000));
  home_.open();
  start(/*load_ahead=*/false);
  served(0, 0);
  home_.hold_unload(true);
  ASSERT_TRUE(fleet_->submit(ask(1, 1)).ok());
  ASSERT_TRUE(home_.wait_for_unloads(1));
  ASSERT_TRUE(fleet_->submit(ask(2, 0)).ok());
  EXPECT_EQ(state(0), ModelState::kLoading);
  home_.hold_unload(false);
  EXPECT_EQ(collected_.wait(RequestId(1)).reason, request::FinishReason::kLength);
  EXPECT_EQ(collected_.wait(RequestId(2)).reason, request::FinishReason::kLength);
  EXPECT_THAT(home_.loaded(), ElementsAre(ModelId(0)));
}

TEST_F(LocalFleetTest, ModelsComeAndGoUnderLoad) {
  home_.set_budget(Bytes(1000));
  home_.open();
  start(/*load_ahead=*/true, 6);
  Random random(5);
  int answered = 0;
  for (int id = 0; id < 300; ++id) {
    const auto model = static_cast<std::int64_t>(random.below(6));
    answered += served(id, model).reason == request::FinishReason::kLength;
    ASSERT_EQ(collected_.times_finished(RequestId(id)), 1u);
  }
  EXPECT_EQ(answered, 300);
}

TEST_F(LocalFleetTest, ALoadThatDoesNotEndIsLeft) {
  stop_timeout_ = millis(50);
  home_.set_deaf();
  start(/*load_ahead=*/false);
  ASSERT_TRUE(fleet_->submit(ask(1)).ok());
  ASSERT_TRUE(home_.wait_for_attempts(1));
  EXPECT_FALSE(fleet_->stop());
  EXPECT_EQ(collected_.wait(RequestId(1)).reason, request::FinishReason::kCancelled);
  home_.open();  // so that the fleet can end
}

TEST_F(LocalFleetTest, StopEndsALoadAndWhatWaitsForIt) {
  start(/*load_ahead=*/false);
  ASSERT_TRUE(fleet_->submit(ask(1)).ok());
  ASSERT_TRUE(home_.wait_for_attempts(1));
  fleet_->stop();
  const auto reason = collected_.wait(RequestId(1)).reason;
  EXPECT_TRUE(reason == request::FinishReason::kError ||
              reason == request::FinishReason::kCancelled);
  EXPECT_EQ(collected_.times_finished(RequestId(1)), 1u);
  EXPECT_EQ(fleet_->submit(ask(2)).error().code, ErrorCode::kUnavailable);
}

TEST_F(LocalFleetTest, NamesAreUnique) {
  start(/*load_ahead=*/false, 1);
  EXPECT_NE(fleet_->find("m0"), nullptr);
  EXPECT_EQ(fleet_->find("m1"), nullptr);
  std::vector<CatalogueModel> twins;
  for (int i = 0; i < 2; ++i) {
    const ModelSource source{"twin", folder_.path()};
    twins.push_back({load_entry(ModelId(i), source, {}).value(), source});
  }
  EXPECT_EQ(LocalFleet::start(std::move(twins), {}, home_, {{slices_[0].get()}, {}, {}}, sink_)
                .error()
                .code,
            ErrorCode::kInvalidArgument);
}

TEST_F(LocalFleetTest, AModelThatIsAskedForGoesWhereNobodyElseIsServed) {
  add_slice();
  home_.open();
  start(/*load_ahead=*/true);
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  for (const auto& slice : slices_) slice->executor().hold(true);
  // Wherever they were put at first, each gets a slice of its own.
  ASSERT_TRUE(fleet_->submit(ask(0, 0)).ok());
  ASSERT_TRUE(fleet_->submit(ask(1, 1)).ok());
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  EXPECT_EQ(slices_[0]->submitted(), 1);
  EXPECT_EQ(slices_[1]->submitted(), 1);
  for (const auto& slice : slices_) slice->executor().hold(false);
  for (int id = 0; id < 2; ++id) {
    EXPECT_EQ(collected_.wait(RequestId(id)).reason, request::FinishReason::kLength);
  }
  EXPECT_EQ(fleet_->observe().link_bytes, Bytes(154));
}

TEST_F(LocalFleetTest, WhatASliceCannotTakeGoesToAnother) {
  add_slice();
  slices_[0]->be_too_small();
  home_.open();
  start(/*load_ahead=*/false, 1);
  EXPECT_EQ(served(0, 0).reason, request::FinishReason::kLength);
  EXPECT_EQ(slices_[1]->submitted(), 1);
  EXPECT_THAT(home_.loaded(), ElementsAre(ModelId(0)));
}

TEST_F(LocalFleetTest, TheModelsOfALostSliceMoveToAnother) {
  add_slice();
  home_.open();
  start(/*load_ahead=*/true, 4);
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  slices_[0]->lose();
  EXPECT_EQ(fleet_->observe().lost, "") << "the other one serves on";
  // Until it is noticed, requests may end with an error of the lost slice; this one only looks it.
  const Nanos limit = clock_.now() + seconds(10);
  int id = 0;
  for (int model = 0; model < 4; ++model) {
    int before = -1;
    do {
      before = slices_[0]->submitted();
      ASSERT_EQ(served(id++, model).reason, request::FinishReason::kLength);
    } while (slices_[0]->submitted() != before && clock_.now() < limit);
    EXPECT_EQ(slices_[0]->submitted(), before) << "model " << model;
  }
  EXPECT_EQ(slices_[1]->attached(), 4);
  slices_[1]->lose();
  EXPECT_NE(fleet_->observe().lost, "");
}

TEST_F(LocalFleetTest, TheRequestsOfALostDeviceGoOnOnAnother) {
  add_slice();
  home_.open();
  start(/*load_ahead=*/true, 1);
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  const int there = slices_[0]->attached() > 0 ? 0 : 1;
  TestSlice& dying = *slices_[static_cast<std::size_t>(there)];
  TestSlice& other = *slices_[static_cast<std::size_t>(1 - there)];
  dying.executor().hold_after(5);
  request::Request answering = ask(1), waiting = ask(2);
  answering.max_tokens = Tokens(12);
  ASSERT_TRUE(fleet_->submit(answering).ok());
  ASSERT_TRUE(collected_.wait_for_tokens(RequestId(1), 5));
  ASSERT_TRUE(fleet_->submit(waiting).ok());
  dying.executor().lose();
  EXPECT_EQ(collected_.wait(RequestId(1)).reason, request::FinishReason::kLength);
  EXPECT_EQ(collected_.wait(RequestId(2)).reason, request::FinishReason::kLength);
  EXPECT_EQ(collected_.tokens(RequestId(1)), 12u);
  EXPECT_EQ(collected_.tokens(RequestId(2)), 2u);
  EXPECT_EQ(collected_.times_finished(RequestId(1)), 1u);
  EXPECT_EQ(other.submitted(), 2);
  EXPECT_EQ(fleet_->observe().requests_resumed, 2);
  dying.executor().hold_after(1);  // or its engine would wait for the step
}

TEST_F(LocalFleetTest, TheRequestsOfTheLastLostDeviceEnd) {
  home_.open();
  start(/*load_ahead=*/true, 1);
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  slices_[0]->executor().hold(true);
  ASSERT_TRUE(fleet_->submit(ask(1)).ok());
  slices_[0]->executor().lose();
  EXPECT_EQ(collected_.wait(RequestId(1)).error, "the GPU fell off the bus");
  slices_[0]->executor().hold(false);
}

TEST_F(LocalFleetTest, WhereNoSliceIsLeftRequestsDoNotWaitForOne) {
  add_slice();
  home_.open();
  start(/*load_ahead=*/true, 1);
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  for (const auto& slice : slices_) slice->executor().hold(true);
  request::Request request = ask(1);
  request.max_tokens = Tokens(50);  // a slice may give a token before it finds out
  ASSERT_TRUE(fleet_->submit(request).ok());
  for (const auto& slice : slices_) slice->executor().lose();
  for (const auto& slice : slices_) slice->executor().hold(false);
  const request::Output end = collected_.wait(RequestId(1));
  EXPECT_EQ(end.code, ErrorCode::kUnavailable);
  EXPECT_THAT(end.error, HasSubstr("lost"));
}

TEST_F(LocalFleetTest, ALoaderWithoutASignOfLifeHoldsNobody) {
  stall_timeout_ = millis(100);
  home_.open();
  start(/*load_ahead=*/false, 3);
  ASSERT_EQ(served(0, 0).reason, request::FinishReason::kLength);
  home_.shut();
  home_.set_deaf();
  ASSERT_TRUE(fleet_->submit(ask(1, 1)).ok());
  ASSERT_TRUE(home_.wait_for_attempts(2));
  ASSERT_TRUE(fleet_->submit(ask(2, 2)).ok());
  for (const int id : {1, 2}) {
    const request::Output end = collected_.wait(RequestId(id));
    EXPECT_EQ(end.code, ErrorCode::kUnavailable);
    EXPECT_THAT(end.error, HasSubstr("loading m1 has shown no sign of life for 1"));
  }
  EXPECT_EQ(fleet_->submit(ask(3, 2)).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(served(4, 0).reason, request::FinishReason::kLength) << "what is loaded is served";
  home_.open();
  const Nanos limit = clock_.now() + seconds(20);
  while (!fleet_->submit(ask(5, 2)).ok() && clock_.now() < limit) std::this_thread::yield();
  EXPECT_EQ(collected_.wait(RequestId(5)).reason, request::FinishReason::kLength);
}

TEST_F(LocalFleetTest, ALongLoadThatIsAliveIsWaitedFor) {
  stall_timeout_ = millis(200);
  start(/*load_ahead=*/false, 1);
  ASSERT_TRUE(fleet_->submit(ask(1)).ok());
  const Nanos until = clock_.now() + millis(500);
  while (clock_.now() < until) std::this_thread::yield();
  EXPECT_EQ(state(0), ModelState::kLoading);
  EXPECT_EQ(fleet_->observe().requests_waiting, 1);
  home_.open();
  EXPECT_EQ(collected_.wait(RequestId(1)).reason, request::FinishReason::kLength);
}

TEST_F(LocalFleetTest, WhatALoaderThrowsIsAnError) {
  home_.set_throws(true);
  home_.open();
  start(/*load_ahead=*/false, 1);
  ASSERT_TRUE(fleet_->submit(ask(1)).ok());
  EXPECT_THAT(collected_.wait(RequestId(1)).error, HasSubstr("an exception: a bad day"));
  home_.set_throws(false);
  EXPECT_EQ(served(2, 0).reason, request::FinishReason::kLength);
}

TEST_F(LocalFleetTest, AModelThatIsUnloadedLeavesEverySlice) {
  add_slice();
  home_.set_budget(Bytes(2000));
  home_.open();
  start(/*load_ahead=*/false, 3);
  for (const auto& slice : slices_) slice->executor().hold(true);
  ASSERT_TRUE(fleet_->submit(ask(0, 0)).ok());
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  ASSERT_TRUE(fleet_->submit(ask(1, 1)).ok());
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  for (const auto& slice : slices_) slice->executor().hold(false);
  collected_.wait(RequestId(0));
  collected_.wait(RequestId(1));
  // Both have had a slice of their own; the third needs the room of one.
  EXPECT_EQ(served(2, 2).reason, request::FinishReason::kLength);
  EXPECT_EQ(home_.loaded().size(), 2u);
  EXPECT_EQ(slices_[0]->attached() + slices_[1]->attached(), 2);
}

TEST_F(LocalFleetTest, ModelsMoveBetweenSlicesUnderLoad) {
  add_slice();
  add_slice();
  home_.set_budget(Bytes(4000));
  home_.open();
  start(/*load_ahead=*/true, 6);
  Random random(7);
  std::deque<RequestId> asked;
  int answered = 0;
  const auto wait_for_oldest = [&] {
    answered += collected_.wait(asked.front()).reason == request::FinishReason::kLength;
    EXPECT_EQ(collected_.times_finished(asked.front()), 1u);
    asked.pop_front();
  };
  for (std::int64_t id = 0; id < 400; ++id) {
    if (asked.size() == 3) wait_for_oldest();
    const std::int64_t model = random.below(6);
    // A slice takes two, and has forgotten them a little later than they end.
    const Nanos limit = clock_.now() + seconds(20);
    while (!fleet_->submit(ask(id, model)).ok()) {
      ASSERT_LT(clock_.now(), limit);
      std::this_thread::yield();
    }
    asked.emplace_back(id);
  }
  while (!asked.empty()) wait_for_oldest();
  // Those that find no room, as all that could go have requests, are told so.
  EXPECT_GT(answered, 300);
  for (const auto& slice : slices_) EXPECT_GT(slice->submitted(), 20);
}

TEST_F(LocalFleetTest, AsksEndAsRequestsDo) {
  start(/*load_ahead=*/false);
  const Ask load{.id = RequestId(1), .kind = AskKind::kLoad, .model = ModelId(0)};
  const Ask unload{.id = RequestId(2), .kind = AskKind::kUnload, .model = ModelId(0)};
  ASSERT_TRUE(fleet_->ask(load).ok());
  ASSERT_TRUE(home_.wait_for_attempts(1));
  EXPECT_EQ(fleet_->ask(unload).error().code, ErrorCode::kInvalidArgument) << "it is coming";
  home_.open();
  EXPECT_EQ(collected_.wait(RequestId(1)).reason, request::FinishReason::kStop);
  EXPECT_TRUE(fleet_->status(ModelId(0)).attached);
  ASSERT_TRUE(fleet_->ask({.id = RequestId(3), .kind = AskKind::kPin, .model = ModelId(0)}).ok());
  EXPECT_EQ(collected_.wait(RequestId(3)).reason, request::FinishReason::kStop);
  EXPECT_TRUE(fleet_->status(ModelId(0)).pinned);
  EXPECT_THAT(fleet_->ask(unload).error().message, HasSubstr("pinned"));
  ASSERT_TRUE(fleet_->ask({.id = RequestId(4), .kind = AskKind::kUnpin, .model = ModelId(0)}).ok());
  ASSERT_TRUE(fleet_->ask(unload).ok());
  EXPECT_EQ(collected_.wait(RequestId(2)).reason, request::FinishReason::kStop);
  EXPECT_EQ(state(0), ModelState::kUnloaded);
  EXPECT_EQ(slices_[0]->attached(), 0);
  EXPECT_THAT(home_.loaded(), ElementsAre());
}

TEST_F(LocalFleetTest, SleepKeepsHostMemoryAndAProbeWakesNone) {
  home_.open();
  start(/*load_ahead=*/false);
  EXPECT_EQ(fleet_->probe(ask(1)).error().code, ErrorCode::kUnavailable);
  served(2, 0);
  ASSERT_TRUE(fleet_->probe(ask(3)).ok());
  EXPECT_EQ(collected_.wait(RequestId(3)).reason, request::FinishReason::kLength);
  // The engine tells of the end a little later than of the tokens.
  while (state(0) == ModelState::kActive) std::this_thread::yield();
  ASSERT_TRUE(fleet_->ask({.id = RequestId(4), .kind = AskKind::kSleep, .keeps_home = true}).ok());
  EXPECT_EQ(collected_.wait(RequestId(4)).reason, request::FinishReason::kStop);
  EXPECT_TRUE(fleet_->asleep());
  EXPECT_EQ(slices_[0]->attached(), 0);
  EXPECT_EQ(state(0), ModelState::kReady) << "in host memory";
  EXPECT_FALSE(fleet_->status(ModelId(0)).attached);
  ASSERT_TRUE(fleet_->ask({.id = RequestId(5), .kind = AskKind::kWake}).ok());
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  EXPECT_EQ(slices_[0]->attached(), 1);
  EXPECT_FALSE(fleet_->asleep());
}

TEST_F(LocalFleetTest, AStopEndsAsks) {
  start(/*load_ahead=*/false);
  ASSERT_TRUE(fleet_->ask({.id = RequestId(1), .kind = AskKind::kLoad, .model = ModelId(0)}).ok());
  ASSERT_TRUE(home_.wait_for_attempts(1));
  EXPECT_TRUE(fleet_->stop());
  const auto ended = collected_.wait(RequestId(1));
  EXPECT_EQ(ended.reason, request::FinishReason::kError);
  EXPECT_EQ(ended.code, ErrorCode::kUnavailable);
  EXPECT_EQ(collected_.times_finished(RequestId(1)), 1u);
  EXPECT_FALSE(fleet_->ask({.id = RequestId(2), .kind = AskKind::kWake}).ok());
}

}  // namespace
}  // namespace causeway::fleet::local_fleet_test
