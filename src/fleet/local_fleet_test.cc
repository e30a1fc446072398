#include "fleet/local_fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>

#include "base/clock.h"
#include "base/testing/temporary_directory.h"
#include "fleet/testing/snapshot.h"

namespace causeway::fleet {
namespace {

using ::testing::HasSubstr;

// Answers every sampling entry with token 1, at once.
class InstantExecutor final : public engine::StepExecutor {
 public:
  const Capabilities& capabilities() const override { return capabilities_; }
  Status submit(request::Batch batch) override {
    result_ = request::StepResult();
    result_->step = batch.step;
    for (const auto& entry : batch.entries) {
      if (entry.samples) result_->sampled.push_back({entry.request, {1, 0.0f, {}}});
    }
    return {};
  }
  std::optional<request::StepResult> wait(Nanos) override { return std::exchange(result_, {}); }

 private:
  Capabilities capabilities_;
  std::optional<request::StepResult> result_;
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

// Loads when the test says so, and as it says.
class GatedBackend final : public SliceBackend {
 public:
  Result<AttachedModel> attach(const CatalogueEntry& entry, const ModelSource&,
                               const std::function<bool()>& cancelled) override {
    std::unique_lock lock(mutex_);
    ++attempts_;
    changed_.notify_all();
    while (!open_ && !cancelled()) changed_.wait_for(lock, std::chrono::milliseconds(5));
    if (!failure_.empty()) return corrupt(failure_);
    if (cancelled()) return Error{ErrorCode::kCancelled, "cancelled"};
    return AttachedModel{{Tokens(16), entry.max_model_len, entry.vocab}, Bytes(1000)};
  }
  void detach(ModelId) override {}

  void open(std::string failure = "") {
    const std::scoped_lock lock(mutex_);
    failure_ = std::move(failure);
    open_ = true;
    changed_.notify_all();
  }
  bool wait_for_attempts(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return attempts_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int attempts_ = 0;
  std::string failure_;
};

class LocalFleetTest : public ::testing::Test {
 protected:
  void start(bool load_ahead, int models = 2) {
    testing::write_snapshot(folder_.path());
    std::vector<CatalogueModel> catalogue;
    for (int i = 0; i < models; ++i) {
      const ModelSource source{"m" + std::to_string(i), folder_.path()};
      catalogue.push_back({load_entry(ModelId(i), source, {}).value(), source});
    }
    engine::EngineOptions options;
    options.core.frames = 64;
    engine_ = engine::Engine::start(options, clock_, executor_, sink_).value();
    fleet_ = LocalFleet::start(std::move(catalogue),
                               {.load_ahead = load_ahead, .waiting_for_load_max = 3}, *engine_,
                               backend_, sink_)
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
  EXPECT_EQ(fleet_->status(ModelId(1)).bytes, Bytes(1000));
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
