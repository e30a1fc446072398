// Streamed models on the simulated device, alone and beside others.
#include <gtest/gtest.h>

#include "model/model_card.h"
#include "simulate/simulate.h"
#include "simulate/testing/shapes.h"

namespace causeway::simulate::streamed_test {
namespace {

using Kind = weights::WeightCommand::Kind;

constexpr ModelId kStreamed(0), kResident(1);
constexpr std::uint32_t kGroups = 5;

HardwareProfile slow_steps() {
  HardwareProfile profile;
  profile.flops_per_second = 1e12;
  profile.memory_bytes_per_second = 1e6;  // 5,000 bytes: 5 ms
  profile.attention_bytes_per_second = 1e6;
  profile.step_overhead = millis(1);
  return profile;
}

// Four layers and a head of 1,000 bytes each on extents of the same size, of which none stays; a
// ring of two. A copy takes 10 ms, a range 1 ms and the first a second one.
class StreamedSteps : public ::testing::Test {
 protected:
  StreamedSteps()
      : mover_(
            {.bytes_per_second = 1e5, .latency = Nanos(0), .extent = Bytes(1000), .extents_max = 2},
            clock_),
        executor_({.profile = slow_steps(), .faults = {}, .shadow_frames = 4}, clock_, &mover_) {
    shape_.vocab = 100;
    shape_.weights_always = Bytes(5000);
    shape_.config.layers = 4;
    for (int i = 0; i < 6; ++i) {
      const Bytes bytes(1000);
      shape_.layout.groups.push_back(
          {.name = {}, .offset = bytes * i, .bytes = bytes, .tensors = {}});
      shape_.layout.bytes += bytes;
      if (i > 0) shape_.reading.push_back({.group = i});
    }
    shape_.reading.push_back({.group = 0, .readable_at_home = true});
    shape_.cached =
        weights::streamed_model(shape_.layout, shape_.reading,
                                {.extent = Bytes(1000), .budget = Bytes(2000), .ring = Bytes(2000)})
            .value();
    mover_.add_model(kStreamed, shape_.cached);
    executor_.add_model(kStreamed, shape_, WeightSource::kCache);
    executor_.add_model(kResident, small_shape(), WeightSource::kMemory);
    command({.kind = Kind::kCommit,
             .model = kStreamed,
             .first_extent = shape_.cached.stream->ring_first,
             .extents = 2});
    command({.model = kStreamed, .group = 0, .arrival = 1});
  }

  static ModelShape small_shape() {
    ModelShape shape;
    shape.vocab = 100;
    shape.weights_always = Bytes(2000);  // 2 ms, and 1
    return shape;
  }

  void command(const weights::WeightCommand& command) { mover_.submit({&command, 1}); }
  void copy(int group, std::uint32_t pass) {
    command({.kind = Kind::kStream, .model = kStreamed, .group = group, .arrival = pass});
  }

  request::Batch batch(ModelId model, std::int64_t step, std::int64_t frame) {
    request::Batch batch;
    batch.step = StepId(step);
    batch.model = model;
    batch.tokens = {1};
    batch.frames = {FrameId(frame)};
    batch.entries.resize(1);
    batch.entries[0].request = RequestId(step);
    batch.entries[0].token_count = batch.entries[0].frame_count = 1;
    batch.entries[0].samples = true;
    return batch;
  }
  Status step(std::int64_t step, std::uint32_t pass) {
    views_.assign(6, {.place = weights::WeightPlace::kHome});
    for (std::uint32_t i = 0; i < kGroups; ++i) {
      views_[i + 1] = {.place = weights::WeightPlace::kStaged,
                       .ready = mover_.streamed(kStreamed, static_cast<int>(i)),
                       .value = pass,
                       .consumed = mover_.consumed(kStreamed),
                       .consumed_value = (pass - 1) * kGroups + i + 1};
    }
    return executor_.submit(batch(kStreamed, step, 0), views_);
  }
  // Until then, with the groups of a pass copied as their places in the ring become free.
  std::vector<request::StepResult> run_until(Nanos end, std::uint32_t pass) {
    std::vector<request::StepResult> results;
    while (true) {
      for (; copied_ < pass * kGroups && mover_.consumed(kStreamed)->value() + 2 > copied_;
           ++copied_) {
        copy(static_cast<int>(copied_ % kGroups), copied_ / kGroups + 1);
      }
      const auto next = executor_.next_event();
      if (!next || *next > end) break;
      clock_.set(std::max(clock_.now(), *next));
      if (auto result = executor_.wait(Nanos(0))) results.push_back(std::move(*result));
      (void)mover_.poll();
    }
    clock_.set(end);
    return results;
  }

  ManualClock clock_;
  SimulatedMover mover_;
  SimulatedExecutor executor_;
  ModelShape shape_;
  std::vector<weights::WeightView> views_;
  std::uint32_t copied_ = 0;
};

TEST_F(StreamedSteps, ComputeEachRangeWhenItsGroupHasArrived) {
  ASSERT_TRUE(step(1, 1).ok());
  EXPECT_EQ(executor_.next_event(), std::nullopt);  // nothing is on its way
  const auto results = run_until(seconds(1), 1);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].step, StepId(1));
  EXPECT_EQ(results[0].error, "");
  // The third copy waits until the first range has ended, at 12 ms, while the second is under way:
  // the link is busy until the last copy has ended, at 50 ms.
  EXPECT_EQ(results[0].duration, millis(51) - millis(10));
  EXPECT_EQ(results[0].sampled.at(0).token.token, expected_token(kStreamed, std::vector{1}, 100));
  EXPECT_EQ(mover_.consumed(kStreamed)->value(), kGroups);
  EXPECT_EQ(mover_.streamed_bytes(), Bytes(5000));
  EXPECT_EQ(executor_.violation() + mover_.violation(), "");
}

TEST_F(StreamedSteps, LetOthersRunBetweenTheirRangesAndEndInAnyOrder) {
  ASSERT_TRUE(step(1, 1).ok());
  EXPECT_TRUE(run_until(micros(10'500), 1).empty());  // the first range runs
  ASSERT_TRUE(executor_.submit(batch(kResident, 2, 1), {}).ok());
  const auto first = run_until(millis(20), 1);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].step, StepId(2));
  EXPECT_EQ(first[0].duration, millis(3));
  const auto then = run_until(seconds(1), 1);
  ASSERT_EQ(then.size(), 1u);
  EXPECT_EQ(then[0].step, StepId(1));
  EXPECT_EQ(executor_.counters().between_ranges, 1);
  EXPECT_EQ(executor_.violation() + mover_.violation(), "");
}

TEST_F(StreamedSteps, AreEnqueuedTwoRangesAtATime) {
  copied_ = 2;
  copy(0, 1);
  copy(1, 1);
  clock_.set(millis(20));
  ASSERT_TRUE(executor_.submit(batch(kResident, 1, 1), {}).ok());  // until 23 ms
  ASSERT_TRUE(step(2, 1).ok());
  ASSERT_TRUE(executor_.submit(batch(kResident, 1, 1), {}).error().code == ErrorCode::kUnavailable);
  clock_.set(millis(23));
  ASSERT_TRUE(executor_.wait(Nanos(0)).has_value());
  ASSERT_TRUE(executor_.submit(batch(kResident, 3, 1), {}).ok());
  // Behind the two that were enqueued, at 26 ms, and before the third, whose copy ends at 35 ms.
  const auto results = run_until(millis(34), 1);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].step, StepId(3));
  EXPECT_EQ(executor_.item_ends_at(), std::nullopt);
}

TEST_F(StreamedSteps, FindGroupsThatAreOverwrittenTooSoon) {
  copy(0, 1);
  copy(1, 1);
  clock_.set(millis(20));
  ASSERT_TRUE(step(1, 1).ok());
  copy(2, 1);  // over the first, which is read until 22 ms
  clock_.set(millis(22));
  (void)executor_.wait(Nanos(0));
  EXPECT_NE(executor_.violation(), "");
}

TEST_F(StreamedSteps, HearOfACopyThatFailsLikeOfOneThatDoesNot) {
  SimulatedMover failing({.bytes_per_second = 1e5,
                          .latency = Nanos(0),
                          .error_rate = 1,
                          .extent = Bytes(1000),
                          .extents_max = 2},
                         clock_);
  failing.add_model(kStreamed, shape_.cached);
  const weights::WeightCommand stream{
      .kind = Kind::kStream, .model = kStreamed, .group = 0, .arrival = 1};
  failing.submit({&stream, 1});
  EXPECT_EQ(failing.streamed(kStreamed, 0)->value(), 0u);
  clock_.set(millis(10));
  EXPECT_EQ(failing.streamed(kStreamed, 0)->value(), 1u);  // also when it fails
  const auto events = failing.poll();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_TRUE(events[0].streamed);
  EXPECT_EQ(events[0].outcome.error().code, ErrorCode::kDevice);
  EXPECT_EQ(failing.failures(), 1);
  EXPECT_NE(failing.violation(), "");  // no memory was put behind the ring
}

TEST_F(StreamedSteps, SayWhatCommandsBreak) {
  copy(0, 1);
  copy(2, 1);  // the first is on its way to the same place
  EXPECT_NE(mover_.violation(), "");
}

TEST_F(StreamedSteps, KeepTheRingWhileItIsFilled) {
  copy(0, 1);
  command({.kind = Kind::kDecommit,
           .model = kStreamed,
           .first_extent = shape_.cached.stream->ring_first,
           .extents = 1});
  EXPECT_NE(mover_.violation(), "");
}

TEST(SimulatedSemaphore, ShowsWhatIsToComeWhenItsTimeHasCome) {
  ManualClock clock;
  SimulatedSemaphore semaphore(clock);
  semaphore.raise_at(3, millis(5));
  EXPECT_EQ(semaphore.value(), 0u);
  EXPECT_EQ(semaphore.wait(3, seconds(1)).error().code, ErrorCode::kDeadlineExceeded);
  clock.set(millis(5));
  EXPECT_EQ(semaphore.value(), 3u);
  EXPECT_TRUE(semaphore.wait(3, Nanos(0)).ok());
  semaphore.raise(2);
  EXPECT_EQ(semaphore.value(), 3u);
  semaphore.raise(4);
  semaphore.raise_at(5, millis(6));
  EXPECT_EQ(semaphore.value(), 4u);
}

TEST(RingLayout, GroupsThatShareAnExtentDoNotOverwriteEachOther) {
  // Groups of 1,500 bytes on extents of 1,000: neighbours share every third extent. A ring of four.
  weights::WeightLayout layout;
  std::vector<weights::ReadingStep> reading;
  for (int i = 0; i < 4; ++i) {
    layout.groups.push_back(
        {.name = {}, .offset = Bytes(1500) * i, .bytes = Bytes(1500), .tensors = {}});
    layout.bytes += Bytes(1500);
    reading.push_back({.group = i});
  }
  const auto plan = weights::plan_stream(
      layout, reading, {.extent = Bytes(1000), .budget = Bytes(4000), .ring = Bytes(4000)});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const RingLayout ring(*plan, Bytes(1000));
  EXPECT_EQ(ring.overwrites(0), (std::vector{2, 3}));
  EXPECT_EQ(ring.overwrites(1), (std::vector{3}));
  EXPECT_EQ(ring.extents(0).size(), 2u);
  EXPECT_EQ(ring.extents(1).front(), ring.extents(0).back());
}

// A config of Qwen3-32B's shape; half_resident() adds an 8B model.
model::ModelConfig large_config() {
  model::ModelConfig config;
  config.family = model::Family::kQwen3;
  config.hidden = 5120;
  config.intermediate = 25'600;
  config.layers = 64;
  config.heads = 64;
  config.kv_heads = 8;
  config.head_dim = 128;
  config.vocab = 151'936;
  config.max_position = Tokens(8192);
  config.qk_norm = true;
  return config;
}

SimulationOptions half_resident() {
  SimulationOptions options;
  options.profile = find_profile("h200").value();
  options.models = {shape_of("large", large_config(), options.frame).value(),
                    shape_of("small", testing::llama_8b(Tokens(8192)), options.frame).value()};
  options.models[0].max_resident = options.models[0].layout.bytes / 2;
  return options;
}

TEST(SimulateStreamed, ATokenTakesItsBytesOverTheLink) {
  const SimulationOptions options = half_resident();
  const auto report = run(options, fixed_workload({{1, Tokens(128), Tokens(6)}, {}}));
  ASSERT_TRUE(report.ok()) << report.error().message;
  const SimulationReport& r = report.value();
  EXPECT_EQ(r.total.completed, 1);
  EXPECT_EQ(r.device.streamed_steps, 6);
  const ModelShape& large = options.models[0];
  const auto plan = weights::plan_stream(large.layout, large.reading,
                                         {.extent = mib(32), .budget = large.max_resident});
  const auto bytes = static_cast<double>(plan.value().bytes.count);
  EXPECT_NEAR(bytes, 35e9, 2e9);  // half, a ring, and none of the embedding
  // Six passes, and a ring of the one ahead.
  EXPECT_NEAR(static_cast<double>(r.streamed_bytes.count), 6.1 * bytes, 0.1 * bytes);
  EXPECT_NEAR(r.total.tpot.mean() * 1e-9 / (bytes / 55e9), 1.005, 0.01);
  // Its resident groups come first.
  const double first = static_cast<double>(r.weights.brought.count) + bytes;
  EXPECT_NEAR(r.total.ttft.mean() * 1e-9 / (first / 55e9), 1.005, 0.01);
}

TEST(SimulateStreamed, ANeighbourDecodesMeanwhile) {
  const SimulationOptions options = half_resident();
  const auto alone = run(options, fixed_workload({{}, {8, Tokens(512), Tokens(400)}}));
  const auto both =
      run(options, fixed_workload({{1, Tokens(128), Tokens(4)}, {8, Tokens(512), Tokens(400)}}));
  ASSERT_TRUE(alone.ok() && both.ok());
  const auto& before = alone.value().models[1].second;
  const auto& beside = both.value().models[1].second;
  EXPECT_EQ(beside.completed, 8);
  EXPECT_GT(both.value().device.between_ranges, 300);
  // The large model's resident layers take some of the device, copies some of its memory.
  EXPECT_GT(beside.tpot.mean(), 1.02 * before.tpot.mean());
  EXPECT_LT(beside.tpot.mean(), 1.5 * before.tpot.mean());
}

// docs/measurements/streaming-h100.md, `bench stream --resident 0.5`: the neighbour's sequences had
// some 2,400 tokens then. A gap between its tokens is 6.00 ms alone, and 6.71 beside a model whose
// copies slow its memory, and whose ranges take turns with its steps.
TEST(SimulateStreamed, ANeighbourIsAsSlowAsOneOnAGpu) {
  SimulationOptions options = half_resident();
  options.profile = find_profile("h100").value();
  options.kv_memory = gib(20);
  const FixedRequests neighbour = {8, Tokens(2200), Tokens(500)};
  const auto alone = run(options, fixed_workload({{}, neighbour}));
  const auto both = run(options, fixed_workload({{1, Tokens(128), Tokens(6)}, neighbour}));
  ASSERT_TRUE(alone.ok() && both.ok());
  const auto gap = [](const Result<SimulationReport>& report) {
    return static_cast<double>(report.value().models[1].second.tbt.percentile(0.5)) * 1e-6;
  };
  EXPECT_NEAR(gap(alone), 6.00, 0.1 * 6.00);
  EXPECT_NEAR(gap(both), 6.71, 0.1 * 6.71);
  EXPECT_NEAR(gap(both) / gap(alone), 6.71 / 6.00, 0.05);
}

// Qwen3-30B-A3B's shape with 0.28 of its bytes in HBM, uniform routing, took 53.9 ms a token at
// 86f7f40, where 27.7 % of the choices were in HBM and 4 experts were loaded a token.
TEST(SimulateStreamed, ExpertsThatAreMissedCostWhatTheyDoOnAGpu) {
  model::ModelConfig config = large_config();
  config.family = model::Family::kQwen3Moe;
  config.hidden = 2048;
  config.intermediate = 6144;
  config.layers = 48;
  config.heads = 32;
  config.kv_heads = 4;
  config.moe = model::MoeConfig{};
  config.moe->experts = 128;
  config.moe->experts_per_token = 8;
  config.moe->intermediate = 768;
  SimulationOptions options;
  options.profile = find_profile("h100").value();
  options.models = {shape_of("experts", config, options.frame).value()};
  options.models[0].max_resident = Bytes(17'100'000'000);
  const auto report = run(options, fixed_workload({{1, Tokens(128), Tokens(40)}}));
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_NEAR(report.value().total.tpot.mean() * 1e-6, 53.9, 5.4);
}

TEST(SimulateStreamed, WhatExceedsTheCacheIsStreamedBesideOthers) {
  SimulationOptions options = half_resident();
  options.models[0].max_resident = Bytes(0);
  options.kv_memory = options.profile.memory - gib(40);
  const auto report =
      run(options, fixed_workload({{2, Tokens(100), Tokens(3)}, {2, Tokens(100), Tokens(50)}}));
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report.value().total.completed, 4);
  EXPECT_GT(report.value().streamed_bytes, Bytes(20'000'000'000));
}

// A quantum of no time is over when a model has come. It is stepped all the same before it gives
// way, so that its requests end.
TEST(SimulateStreamed, ModelsThatTakeTurnsWithoutQuantaAreEachStepped) {
  SimulationOptions options = half_resident();
  options.models[1] = options.models[0];  // at half of 64 GB there is room for one
  options.models[1].name = "other";
  options.kv_memory = options.profile.memory - gib(40);
  options.residency.quantum_min = {};
  options.residency.quantum_factor = 0;
  options.virtual_time_max = seconds(600);
  const FixedRequests two = {2, Tokens(100), Tokens(5)};
  const auto streamed = run(options, fixed_workload({two, two}));
  ASSERT_TRUE(streamed.ok()) << streamed.error().message;
  EXPECT_EQ(streamed.value().total.completed, 4);
  EXPECT_GE(streamed.value().weights.evictions, 4);

  for (ModelShape& shape : options.models) {
    shape = shape_of(shape.name, testing::llama_8b(Tokens(8192)), options.frame).value();
  }
  options.kv_memory = options.profile.memory - gib(20);
  options.step_start = engine::StepStart::kAllCached;
  const auto resident = run(options, fixed_workload({two, two}));
  ASSERT_TRUE(resident.ok()) << resident.error().message;
  EXPECT_EQ(resident.value().total.completed, 4);
  EXPECT_GE(resident.value().weights.evictions, 4);
}

TEST(SimulateStreamed, CopiesThatFailEndRequestsAndAreTriedAgain) {
  SimulationOptions options = half_resident();
  options.faults = {.copy_error_rate = 0.002};
  const auto report = run(options, poisson_workload({.requests = 200,
                                                     .per_second = 0.5,
                                                     .prompt_mean = Tokens(64),
                                                     .output_mean = Tokens(4),
                                                     .slo = {}}));
  ASSERT_TRUE(report.ok());
  EXPECT_GT(report.value().total.errors, 5);
  EXPECT_GT(report.value().total.completed, 50);
  EXPECT_EQ(report.value().total.completed + report.value().total.errors, 200);
}

TEST(SimulateStreamed, RefusesAModelThatHasNoRoomForARing) {
  SimulationOptions options = half_resident();
  options.models[0].max_resident = mib(64);
  const auto report = run(options, {});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(report.error().message.find("large"), std::string::npos);
}

}  // namespace
}  // namespace causeway::simulate::streamed_test
