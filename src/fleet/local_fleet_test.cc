#include "fleet/local_fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <thread>

#include "base/clock.h"
#include "base/random.h"
#include "base/testing/temporary_directory.h"
#include "fleet/testing/snapshot.h"

namespace causeway::fleet {
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
    const auto free = [this] { return !held_; };
    if (!changed_.wait_for(lock, std::chrono::nanoseconds(timeout.count), free)) return {};
    return std::exchange(result_, {});
  }
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
};

class CollectingSink final : public engine::OutputSink {
 public:
  void on_outputs(std::vector<request::Output> outputs) override {
    const std::scoped_lock lock(mutex_);
    for (auto& output : outputs) {
      if (output.finished) finished_[output.request].push_back(std::move(output));
    }
    changed_.notify_all();
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
};

// Loads when the test says so, and as it says. Every model takes 1000 bytes.
class GatedBackend final : public SliceBackend {
 public:
  Result<HostRoom> room_for(const CatalogueEntry&, const ModelSource&) override {
    const std::scoped_lock lock(mutex_);
    return HostRoom{.needed = kModelBytes,
                    .used = kModelBytes * static_cast<std::int64_t>(attached_.size()),
                    .budget = budget_};
  }
  Result<AttachedModel> attach(const CatalogueEntry& entry, const ModelSource&,
                               const std::function<bool()>& cancelled) override {
    std::unique_lock lock(mutex_);
    ++attempts_;
    changed_.notify_all();
    while (!open_ && (deaf_ || !cancelled())) changed_.wait_for(lock, std::chrono::milliseconds(5));
    if (!failure_.empty()) return corrupt(failure_);
    if (cancelled()) return Error{ErrorCode::kCancelled, "cancelled"};
    attached_.push_back(entry.id);
    EXPECT_LE(kModelBytes * static_cast<std::int64_t>(attached_.size()), budget_);
    return AttachedModel{{Tokens(16), entry.max_model_len, entry.vocab}, kModelBytes};
  }
  void detach(ModelId model) override {
    std::unique_lock lock(mutex_);
    ++detaches_;
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::seconds(20), [this] { return !holds_detach_; });
    EXPECT_EQ(std::erase(attached_, model), 1u);
  }

  Bytes link_bytes() const override { return Bytes(77); }

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
  // A load that does not notice that it is cancelled.
  void set_deaf() {
    const std::scoped_lock lock(mutex_);
    deaf_ = true;
  }
  void hold_detach(bool held) {
    const std::scoped_lock lock(mutex_);
    holds_detach_ = held;
    changed_.notify_all();
  }
  bool wait_for_attempts(int count) { return wait_for(attempts_, count); }
  bool wait_for_detaches(int count) { return wait_for(detaches_, count); }
  std::vector<ModelId> attached() {
    const std::scoped_lock lock(mutex_);
    return attached_;
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
  bool holds_detach_ = false;
  int attempts_ = 0;
  int detaches_ = 0;
  Bytes budget_ = Bytes(100'000);
  std::string failure_;
  std::vector<ModelId> attached_;  // in the order of their loads
};

class LocalFleetTest : public ::testing::Test {
 protected:
  void start(bool load_ahead, int models = 2) {
    testing::write_snapshot(folder_.path());
    std::vector<CatalogueModel> catalogue;
    for (int i = 0; i < models; ++i) {
      const ModelSource source{"m" + std::to_string(i), folder_.path()};
      catalogue.push_back({load_entry(ModelId(i), source, {}).value(), source, i == pinned_});
    }
    engine::EngineOptions options;
    options.core.frames = 64;
    options.requests_max = 2;
    engine_ = engine::Engine::start(options, clock_, executor_, sink_).value();
    fleet_ = LocalFleet::start(std::move(catalogue),
                               {.load_ahead = load_ahead,
                                .waiting_for_load_max = 3,
                                .room_timeout = millis(300),
                                .stop_timeout = stop_timeout_},
                               *engine_, backend_, sink_)
                 .value();
  }

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
  TemporaryDirectory folder_;
  RealClock clock_;
  InstantExecutor executor_;
  CollectingSink collected_;
  SerialSink sink_{collected_};
  GatedBackend backend_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<LocalFleet> fleet_;
};

TEST_F(LocalFleetTest, LoadsAheadAndServes) {
  start(/*load_ahead=*/true);
  EXPECT_EQ(fleet_->status(ModelId(1)).state, ModelState::kLoading);
  backend_.open();
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
  backend_.open();
  EXPECT_EQ(collected_.wait(RequestId(1)).reason, request::FinishReason::kLength);
  EXPECT_EQ(collected_.wait(RequestId(2)).reason, request::FinishReason::kLength);
  EXPECT_EQ(fleet_->status(ModelId(1)).state, ModelState::kUnloaded) << "only what is asked for";
}

TEST_F(LocalFleetTest, FailedLoadEndsItsRequestsAndMayBeTriedAgain) {
  start(/*load_ahead=*/false);
  ASSERT_TRUE(fleet_->submit(ask(1)).ok());
  backend_.open("model.safetensors: truncated");
  const auto output = collected_.wait(RequestId(1));
  EXPECT_EQ(output.reason, request::FinishReason::kError);
  EXPECT_THAT(output.error, HasSubstr("truncated"));
  EXPECT_THAT(fleet_->status(ModelId(0)).last_error, HasSubstr("truncated"));
  backend_.open("");
  ASSERT_TRUE(fleet_->submit(ask(2)).ok());
  EXPECT_EQ(collected_.wait(RequestId(2)).reason, request::FinishReason::kLength);
}

TEST_F(LocalFleetTest, CancelWhileWaitingForTheModel) {
  start(/*load_ahead=*/false);
  ASSERT_TRUE(fleet_->submit(ask(1)).ok());
  fleet_->cancel(RequestId(1));
  EXPECT_EQ(collected_.wait(RequestId(1)).reason, request::FinishReason::kCancelled);
  backend_.open();
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
  executor_.hold(true);
  backend_.open();
  EXPECT_EQ(collected_.wait(RequestId(0)).code, ErrorCode::kInvalidArgument);
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  // Two fill the queue; those that waited for another model find that out late.
  ASSERT_TRUE(fleet_->submit(ask(3, 1)).ok());
  const auto refused = collected_.wait(RequestId(3));
  EXPECT_EQ(refused.reason, request::FinishReason::kError);
  EXPECT_EQ(refused.code, ErrorCode::kResourceExhausted);
  executor_.hold(false);
  EXPECT_EQ(collected_.wait(RequestId(2)).reason, request::FinishReason::kLength);
}

TEST_F(LocalFleetTest, AFullPoolUnloadsWhatIsCheapestToBringBack) {
  backend_.set_budget(Bytes(2000));
  backend_.open();
  start(/*load_ahead=*/false, 3);
  for (int id = 0; id < 3; ++id) served(id, 0);
  served(3, 1);
  EXPECT_EQ(served(4, 2).reason, request::FinishReason::kLength);
  EXPECT_THAT(backend_.attached(), ElementsAre(ModelId(0), ModelId(2)));
  EXPECT_EQ(state(1), ModelState::kUnloaded);
  EXPECT_EQ(fleet_->status(ModelId(1)).host_bytes, Bytes(0));
  EXPECT_EQ(served(5, 1).reason, request::FinishReason::kLength) << "it is loaded again";
  EXPECT_THAT(backend_.attached(), ElementsAre(ModelId(0), ModelId(1)));
}

TEST_F(LocalFleetTest, ModelsWithRequestsStay) {
  backend_.set_budget(Bytes(1500));
  backend_.open();
  start(/*load_ahead=*/false);
  served(0, 0);
  executor_.hold(true);
  ASSERT_TRUE(fleet_->submit(ask(1, 0)).ok());
  const auto refused = served(2, 1);
  EXPECT_EQ(refused.reason, request::FinishReason::kError);
  EXPECT_EQ(refused.code, ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error, HasSubstr("needs 0 KiB"));
  EXPECT_THAT(backend_.attached(), ElementsAre(ModelId(0)));
  executor_.hold(false);
  EXPECT_EQ(collected_.wait(RequestId(1)).reason, request::FinishReason::kLength);
  EXPECT_EQ(served(3, 1).reason, request::FinishReason::kLength);
  EXPECT_THAT(backend_.attached(), ElementsAre(ModelId(1)));
}

TEST_F(LocalFleetTest, PinnedModelsAreLoadedFirstAndStay) {
  pinned_ = 1;
  backend_.set_budget(Bytes(1000));
  backend_.open();
  start(/*load_ahead=*/true);
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  EXPECT_EQ(state(1), ModelState::kReady);
  EXPECT_EQ(served(0, 0).code, ErrorCode::kUnavailable);
  EXPECT_EQ(served(1, 1).reason, request::FinishReason::kLength);
}

TEST_F(LocalFleetTest, WhatDoesNotFitAheadIsLoadedOnDemand) {
  backend_.set_budget(Bytes(2500));
  backend_.open();
  start(/*load_ahead=*/true, 4);
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  EXPECT_THAT(backend_.attached(), ElementsAre(ModelId(0), ModelId(1)));
  EXPECT_EQ(state(3), ModelState::kUnloaded);
  EXPECT_EQ(fleet_->status(ModelId(3)).last_error, "");
  EXPECT_EQ(served(0, 3).reason, request::FinishReason::kLength);
  EXPECT_THAT(backend_.attached(), ElementsAre(ModelId(1), ModelId(3)));
}

TEST_F(LocalFleetTest, RequestsComeBeforeWhatIsLoadedAhead) {
  start(/*load_ahead=*/true, 4);
  ASSERT_TRUE(backend_.wait_for_attempts(1));
  ASSERT_TRUE(fleet_->submit(ask(0, 3)).ok());
  backend_.open();
  EXPECT_EQ(collected_.wait(RequestId(0)).reason, request::FinishReason::kLength);
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  EXPECT_THAT(backend_.attached(), ElementsAre(ModelId(0), ModelId(3), ModelId(1), ModelId(2)));
}

TEST_F(LocalFleetTest, AModelLargerThanThePoolFailsAlone) {
  backend_.set_budget(Bytes(999));
  backend_.open();
  start(/*load_ahead=*/true, 1);
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  EXPECT_THAT(fleet_->status(ModelId(0)).last_error, HasSubstr("more than the pool's"));
  EXPECT_EQ(served(0, 0).code, ErrorCode::kDevice) << "trying again later does not help";
}

TEST_F(LocalFleetTest, ARequestForAModelThatGoesHasItLoadedAgain) {
  backend_.set_budget(Bytes(1000));
  backend_.open();
  start(/*load_ahead=*/false);
  served(0, 0);
  backend_.hold_detach(true);
  ASSERT_TRUE(fleet_->submit(ask(1, 1)).ok());
  ASSERT_TRUE(backend_.wait_for_detaches(1));
  ASSERT_TRUE(fleet_->submit(ask(2, 0)).ok());
  EXPECT_EQ(state(0), ModelState::kLoading);
  backend_.hold_detach(false);
  EXPECT_EQ(collected_.wait(RequestId(1)).reason, request::FinishReason::kLength);
  EXPECT_EQ(collected_.wait(RequestId(2)).reason, request::FinishReason::kLength);
  EXPECT_THAT(backend_.attached(), ElementsAre(ModelId(0)));
}

TEST_F(LocalFleetTest, ModelsComeAndGoUnderLoad) {
  backend_.set_budget(Bytes(1000));
  backend_.open();
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
  backend_.set_deaf();
  start(/*load_ahead=*/false);
  ASSERT_TRUE(fleet_->submit(ask(1)).ok());
  ASSERT_TRUE(backend_.wait_for_attempts(1));
  EXPECT_FALSE(fleet_->stop());
  EXPECT_EQ(collected_.wait(RequestId(1)).reason, request::FinishReason::kCancelled);
  backend_.open();  // so that the fleet can end
}

TEST_F(LocalFleetTest, StopEndsALoadAndWhatWaitsForIt) {
  start(/*load_ahead=*/false);
  ASSERT_TRUE(fleet_->submit(ask(1)).ok());
  ASSERT_TRUE(backend_.wait_for_attempts(1));
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
  EXPECT_EQ(LocalFleet::start(std::move(twins), {}, *engine_, backend_, sink_).error().code,
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace causeway::fleet
