#include "engine/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <thread>

#include "engine/testing/collecting_sink.h"
#include "engine/testing/fake_executor.h"

namespace causeway::engine::engine_test {
namespace {

using request::FinishReason;

constexpr ModelId kModel(1);
constexpr ModelFacts kFacts{.tokens_per_block = Tokens(4), .max_model_len = Tokens(4096)};

request::Request make_request(std::int64_t id, std::int64_t output) {
  request::Request request;
  request.id = RequestId(id);
  request.model = kModel;
  request.prompt = {1, 2, 3};
  request.max_tokens = Tokens(output);
  return request;
}

class EngineThread : public ::testing::Test {
 protected:
  void start(std::int64_t requests_max = 64, Nanos step_timeout = seconds(60)) {
    EngineOptions options;
    options.core.frames = 2048;
    options.core.step_timeout = step_timeout;
    options.requests_max = requests_max;
    auto started = Engine::start(options, clock_, executor_, sink_);
    ASSERT_TRUE(started.ok());
    engine_ = std::move(started).value();
    ASSERT_TRUE(engine_->add_model(kModel, kFacts).ok());
  }
  ErrorCode refusal(request::Request request) {
    const Status taken = engine_->submit(std::move(request));
    return taken.ok() ? ErrorCode::kIo : taken.error().code;
  }

  RealClock clock_;
  FakeExecutor executor_;
  CollectingSink sink_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineThread, AnswersManyThreads) {
  start(1000);
  constexpr int kThreads = 4;
  constexpr int kEach = 50;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < kEach; ++i) {
        EXPECT_TRUE(engine_->submit(make_request(t * kEach + i, 1 + i % 7)).ok());
        engine_->observe();
        engine_->observe_models();
        if (i % 10 == 9) engine_->cancel(RequestId(t * kEach + i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(sink_.wait_for_ends(kThreads * kEach));
  for (int id = 0; id < kThreads * kEach; ++id) {
    const Collected got = sink_.of(RequestId(id));
    EXPECT_EQ(got.ends, 1);
    if (got.end->reason != FinishReason::kCancelled) {
      EXPECT_EQ(got.tokens.size(), static_cast<std::size_t>(1 + id % kEach % 7));
    }
  }
  EXPECT_EQ(engine_->observe_models().at(0).first, kModel);
}

TEST_F(EngineThread, RefusesWhenFull) {
  start(3);
  executor_.hold();
  for (int id = 0; id < 3; ++id) ASSERT_TRUE(engine_->submit(make_request(id, 2)).ok());
  EXPECT_EQ(refusal(make_request(3, 2)), ErrorCode::kResourceExhausted);
  executor_.release();
  ASSERT_TRUE(sink_.wait_for_ends(3));
}

TEST_F(EngineThread, RefusesAnIdInUseAndAModelUnknown) {
  start();
  executor_.hold();
  ASSERT_TRUE(engine_->submit(make_request(1, 2)).ok());
  EXPECT_EQ(refusal(make_request(1, 2)), ErrorCode::kInvalidArgument);
  request::Request stranger = make_request(2, 2);
  stranger.model = ModelId(99);
  EXPECT_EQ(refusal(std::move(stranger)), ErrorCode::kInvalidArgument);
  executor_.release();
  ASSERT_TRUE(sink_.wait_for_ends(1));
}

TEST_F(EngineThread, CancelsWhileAStepRuns) {
  start();
  executor_.hold();
  ASSERT_TRUE(engine_->submit(make_request(1, 4000)).ok());
  while (executor_.steps() == 0) std::this_thread::yield();
  engine_->cancel(RequestId(1));
  ASSERT_TRUE(sink_.wait_for_ends(1));  // although the step is still held
  EXPECT_EQ(sink_.of(RequestId(1)).end->reason, FinishReason::kCancelled);
  executor_.release();
}

TEST_F(EngineThread, DrainsWithinItsGraceAndCancelsTheRest) {
  start();
  ASSERT_TRUE(engine_->submit(make_request(1, 20)).ok());
  engine_->stop(seconds(20));
  EXPECT_EQ(sink_.of(RequestId(1)).end->reason, FinishReason::kLength);
  EXPECT_EQ(refusal(make_request(2, 2)), ErrorCode::kUnavailable);
  engine_->stop(seconds(20));

  start();
  executor_.hold();
  ASSERT_TRUE(engine_->submit(make_request(3, 20)).ok());
  while (!engine_->observe().requests_running) std::this_thread::yield();
  std::thread stopper([this] { engine_->stop(millis(20)); });
  ASSERT_TRUE(sink_.wait_for_ends(2));
  executor_.release();
  stopper.join();
  EXPECT_EQ(sink_.of(RequestId(3)).end->reason, FinishReason::kCancelled);
}

TEST_F(EngineThread, ADeviceThatHangsWhileItStopsIsKnownAfterwards) {
  start(64, millis(50));
  executor_.hold();
  ASSERT_TRUE(engine_->submit(make_request(1, 20)).ok());
  while (executor_.steps() == 0) std::this_thread::yield();
  engine_->stop(Nanos(0));
  EXPECT_TRUE(engine_->observe().hung);
  executor_.release();
}

TEST_F(EngineThread, StopsAlthoughTheDeviceHangs) {
  start(64, millis(50));
  executor_.hold();
  ASSERT_TRUE(engine_->submit(make_request(1, 20)).ok());
  ASSERT_TRUE(sink_.wait_for_ends(1));
  EXPECT_EQ(sink_.of(RequestId(1)).end->reason, FinishReason::kError);
  for (int id = 2; refusal(make_request(id, 2)) != ErrorCode::kUnavailable; ++id) {
    ASSERT_LT(id, 10'000);  // observe() may lag by an iteration
    std::this_thread::yield();
  }
  engine_->stop(seconds(20));
  executor_.release();
}

TEST_F(EngineThread, AModelIsRemovedOnceItsRequestsHaveEnded) {
  start();
  EXPECT_EQ(engine_->remove_model(ModelId(9), seconds(1)).error().code, ErrorCode::kNotFound);
  executor_.hold();
  ASSERT_TRUE(engine_->submit(make_request(1, 3)).ok());
  const Status early = engine_->remove_model(kModel, millis(20));
  ASSERT_FALSE(early.ok());
  EXPECT_EQ(early.error().code, ErrorCode::kDeadlineExceeded);
  ASSERT_TRUE(engine_->submit(make_request(2, 3)).ok());  // it serves on
  executor_.release();
  ASSERT_TRUE(engine_->remove_model(kModel, seconds(20)).ok());
  EXPECT_EQ(sink_.ends(), 2);
  EXPECT_EQ(refusal(make_request(3, 3)), ErrorCode::kInvalidArgument);
  ASSERT_TRUE(engine_->add_model(kModel, kFacts).ok());
  ASSERT_TRUE(engine_->submit(make_request(4, 3)).ok());
  ASSERT_TRUE(sink_.wait_for_ends(3));
}

TEST_F(EngineThread, ModelsComeAndGoUnderLoad) {
  start(1000);
  std::thread mover([this] {
    for (int i = 0; i < 30; ++i) {
      ASSERT_TRUE(engine_->add_model(ModelId(2), kFacts).ok());
      request::Request request = make_request(10'000 + i, 3);
      request.model = ModelId(2);
      ASSERT_TRUE(engine_->submit(std::move(request)).ok());
      ASSERT_TRUE(engine_->remove_model(ModelId(2), seconds(20)).ok());
    }
  });
  for (int id = 0; id < 200; ++id) ASSERT_TRUE(engine_->submit(make_request(id, 5)).ok());
  mover.join();
  ASSERT_TRUE(sink_.wait_for_ends(230));
}

TEST(Engine, RefusesOptionsThatMakeNoSense) {
  RealClock clock;
  FakeExecutor executor;
  CollectingSink sink;
  EngineOptions options;
  EXPECT_FALSE(Engine::start(options, clock, executor, sink).ok());
  options.core.frames = 4;
  options.requests_max = 0;
  EXPECT_FALSE(Engine::start(options, clock, executor, sink).ok());
}

TEST_F(EngineThread, ALostDeviceEndsEveryRequestAndRefusesMore) {
  start();
  executor_.hold();
  ASSERT_TRUE(engine_->submit(make_request(1, 50)).ok());
  while (executor_.steps() == 0) std::this_thread::yield();
  ASSERT_TRUE(engine_->submit(make_request(2, 50)).ok());  // no part of the step
  executor_.lose("the GPU is lost: planted");
  executor_.release();
  ASSERT_TRUE(sink_.wait_for_ends(2));
  for (const std::int64_t id : {1, 2}) {
    const auto ended = sink_.of(RequestId(id)).end;
    EXPECT_EQ(ended->reason, FinishReason::kError);
    EXPECT_EQ(ended->error, "the GPU is lost: planted");
  }
  while (engine_->observe().lost.empty()) std::this_thread::yield();
  EXPECT_EQ(engine_->observe().lost, "the GPU is lost: planted");
  EXPECT_EQ(engine_->suspects(), std::vector{RequestId(1)});
  EXPECT_FALSE(engine_->observe().hung);
  const Status refused = engine_->submit(make_request(3, 1));
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(refused.error().message, "the GPU is lost: planted");
  engine_->stop(seconds(10));
  EXPECT_EQ(engine_->observe().frames_used, 0);
}

// The driver does this when its queue is full and the device takes nothing more.
class BlockingExecutor final : public StepExecutor {
 public:
  explicit BlockingExecutor(Nanos step_timeout) : capabilities_{.step_timeout = step_timeout} {}
  const Capabilities& capabilities() const override { return capabilities_; }
  Status submit(request::Batch, weights::StepWeights) override {
    blocked_.count_down();
    freed_.wait();
    return Error{ErrorCode::kDevice, "freed by the test"};
  }
  std::optional<request::StepResult> wait(Nanos) override { return std::nullopt; }
  void wait_until_blocked() { blocked_.wait(); }
  void free() { freed_.count_down(); }

 private:
  const Capabilities capabilities_;
  std::latch blocked_{1};
  std::latch freed_{1};
};

// Warms up for ever, or in three pieces.
class WarmingExecutor final : public StepExecutor {
 public:
  explicit WarmingExecutor(bool ends) : ends_(ends) {}
  const Capabilities& capabilities() const override { return inner_.capabilities(); }
  Status submit(request::Batch batch, weights::StepWeights weights) override {
    EXPECT_FALSE(warms_);
    return inner_.submit(std::move(batch), weights);
  }
  std::optional<request::StepResult> wait(Nanos timeout) override { return inner_.wait(timeout); }
  bool warm_up(ModelId model, const std::function<bool()>& stop) override {
    EXPECT_EQ(model, kModel);
    EXPECT_FALSE(gone_) << "a model that was removed";
    warms_ = true;
    while (!stop() && !(ends_ && pieces_ == 3)) ++pieces_;
    warms_ = false;
    return ends_ && pieces_ == 3;
  }
  std::int64_t pieces() const { return pieces_; }
  void gone() { gone_ = true; }

 private:
  const bool ends_;
  FakeExecutor inner_;
  std::atomic<std::int64_t> pieces_ = 0;
  std::atomic<bool> warms_ = false, gone_ = false;
};

class WarmEngine : public ::testing::Test {
 protected:
  void start(WarmingExecutor& executor) {
    EngineOptions options;
    options.core.frames = 64;
    options.may_warm_up = [this] { return quiet_.load(); };
    engine_ = Engine::start(options, clock_, executor, sink_).value();
    ASSERT_TRUE(engine_->add_model(kModel, kFacts).ok());
  }

  const RealClock clock_;
  CollectingSink sink_;
  std::atomic<bool> quiet_ = true;
  std::unique_ptr<Engine> engine_;
};

TEST_F(WarmEngine, WarmsUpWhileItIsIdleAndMay) {
  WarmingExecutor executor(true);
  quiet_ = false;
  start(executor);
  ASSERT_TRUE(engine_->submit(make_request(1, 5)).ok());
  ASSERT_TRUE(sink_.wait_for_ends(1));
  EXPECT_EQ(executor.pieces(), 0);
  quiet_ = true;
  const Nanos start = clock_.now();
  while (executor.pieces() < 3 && clock_.now() - start < seconds(20)) std::this_thread::yield();
  EXPECT_EQ(executor.pieces(), 3);
  engine_->stop(Nanos(0));
  EXPECT_EQ(executor.pieces(), 3) << "it had been done";
  engine_.reset();
}

TEST_F(WarmEngine, WhoeverAsksForSomethingInterruptsIt) {
  WarmingExecutor executor(false);
  start(executor);
  for (std::int64_t id = 1; id <= 3; ++id) {
    const std::int64_t before = executor.pieces();
    while (executor.pieces() == before) std::this_thread::yield();
    ASSERT_TRUE(engine_->submit(make_request(id, 5)).ok());
    ASSERT_TRUE(sink_.wait_for_ends(static_cast<int>(id)));
  }
  ASSERT_TRUE(engine_->remove_model(kModel, seconds(20)).ok());
  executor.gone();
  engine_->stop(seconds(20));
  engine_.reset();
}

// An engine whose loop the driver holds with one request.
class HeldEngine : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(engine->add_model(kModel, kFacts).ok());
    ASSERT_TRUE(engine->submit(make_request(1, 5)).ok());
    executor.wait_until_blocked();
  }
  static EngineOptions options() {
    EngineOptions options;
    options.core.frames = 16;
    return options;
  }

  const RealClock clock;
  BlockingExecutor executor{millis(50)};
  CollectingSink sink;
  const std::unique_ptr<Engine> engine = Engine::start(options(), clock, executor, sink).value();
};

TEST_F(HeldEngine, IsSeenToHang) {
  const Nanos start = clock.now();
  while (!engine->observe().hung && clock.now() - start < seconds(20)) std::this_thread::yield();
  EXPECT_TRUE(engine->observe().hung);
  executor.free();
  ASSERT_TRUE(sink.wait_for_ends(1));
  while (engine->observe().hung && clock.now() - start < seconds(40)) std::this_thread::yield();
  EXPECT_FALSE(engine->observe().hung);  // asleep is not held
}

TEST_F(HeldEngine, IsLeftWhenItStops) {
  auto stopped = std::async(std::launch::async, [&] { engine->stop(Nanos(0)); });
  EXPECT_EQ(stopped.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_TRUE(engine->observe().hung);
  executor.free();
  stopped.wait();
  EXPECT_TRUE(sink.wait_for_ends(1));  // by the loop, which ends now
}

}  // namespace
}  // namespace causeway::engine::engine_test
