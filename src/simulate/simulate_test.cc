#include "simulate/simulate.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/random.h"
#include "simulate/testing/shapes.h"

namespace causeway::simulate::simulate_test {
namespace {

// About an 8B model in bf16.
ModelShape make_shape(const std::string& name) {
  ModelShape shape;
  shape.name = name;
  shape.weights = Bytes(16'000'000'000);
  shape.weights_always = Bytes(15'000'000'000);
  shape.flops_per_token = 15e9;
  shape.flops_per_context_token = 524'288;
  shape.kv_per_token = Bytes(131'072);
  shape.tokens_per_block = Tokens(32);
  shape.max_model_len = Tokens(8192);
  shape.vocab = 32'000;
  shape.config.layers = 30;
  shape.config.tied_embeddings = true;
  testing::add_groups(32, Bytes(500'000'000), shape);
  return shape;
}

SimulationOptions make_options(int models) {
  SimulationOptions options;
  options.profile = find_profile("h200").value();
  options.kv_memory = gib(40);
  for (int i = 0; i < models; ++i) options.models.push_back(make_shape("m" + std::to_string(i)));
  return options;
}

Workload make_workload(std::int64_t requests, double per_second, std::size_t models) {
  return poisson_workload(
      {.requests = requests, .per_second = per_second, .models = models, .slo = {}});
}

TEST(HardwareProfile, BuiltInOnesAreWellFormed) {
  EXPECT_GE(profile_names().size(), 3u);
  for (const std::string& name : profile_names()) {
    const auto profile = find_profile(name);
    ASSERT_TRUE(profile.ok()) << profile.error().message;
    EXPECT_EQ(profile.value().name, name);
    EXPECT_GT(profile.value().memory, gib(1));
  }
  EXPECT_EQ(find_profile("abacus").error().code, ErrorCode::kNotFound);
}

// C2CServe, Table 2 and §9.5.
TEST(HardwareProfile, SuperchipsDifferAsInThePaper) {
  const HardwareProfile gh200 = find_profile("gh200").value();
  const HardwareProfile gb200 = find_profile("gb200").value();
  const HardwareProfile rubin = find_profile("rubin").value();
  const auto ratio = [](double one, double other) { return one / other; };
  const auto memory = [](const HardwareProfile& profile) {
    return profile.memory_bytes_per_second;
  };
  const auto link = [](const HardwareProfile& profile) { return profile.link_bytes_per_second; };
  EXPECT_NEAR(ratio(memory(gb200), memory(gh200)), 2.0, 0.01);
  EXPECT_NEAR(ratio(memory(rubin), memory(gh200)), 5.5, 0.01);
  EXPECT_NEAR(ratio(link(gb200), link(gh200)), 1.0, 0.01);
  EXPECT_NEAR(ratio(link(rubin), link(gh200)), 2.0, 0.01);
  EXPECT_EQ(gb200.memory, gh200.memory * 2);
  EXPECT_EQ(rubin.memory, gh200.memory * 3);
}

TEST(HardwareProfile, RefusesWhatIsNone) {
  for (const char* json : {"", "[]", "{}", R"({"name": 3})", R"({"name": "x", "description": ""})",
                           R"({"name": "x", "description": "", "tflops": -1,
                               "memory_gb_per_s": 1, "memory_gb": 1, "link_gb_per_s": 1,
                               "step_overhead_us": 1})"}) {
    EXPECT_EQ(parse_profile(json).error().code, ErrorCode::kCorrupt) << json;
  }
}

TEST(CostModel, FollowsTheRoofline) {
  const HardwareProfile h200 = find_profile("h200").value();
  const ModelShape shape = make_shape("m");
  request::Batch decode;
  decode.tokens = {1};
  decode.entries.resize(1);
  decode.entries[0].token_count = 1;
  decode.entries[0].context = 1000;
  const Nanos one = step_duration(work_of(decode, shape), h200);
  // Bound by reading the weights, 15 GB at 4.42 TB/s, and behind it KV; beside these 50 µs and 6.3
  // for each of 30 layers.
  const double kv = 1001 * static_cast<double>(shape.kv_per_token.count) / 3.6e12 * 1e3;
  EXPECT_NEAR(to_millis(one), 3.394 + kv + 0.05 + 0.189, 0.01);
  // Copies make the memory slower, and nothing else.
  const Nanos beside = step_duration(work_of(decode, shape), h200, true);
  EXPECT_NEAR(to_millis(beside - one), (3.394 + kv) * 0.07, 0.01);

  request::Batch prefill;
  prefill.tokens.resize(4096);
  prefill.entries.resize(1);
  prefill.entries[0].token_count = 4096;
  const Nanos many = step_duration(work_of(prefill, shape), h200);
  const double products = 4096 * 15e9 / 770e12 * 1e3;  // the weights are read in their shade
  const double attention = 4096.0 * 4097 / 2 * 524288 / 400e12 * 1e3 + 30 * 4096 * 30e-6;
  EXPECT_NEAR(to_millis(many), products + attention + 0.05 + 30 * 0.04, 0.1)
      << "the kernels of a prompt have borders of their own, and attention a rate";
  EXPECT_NEAR(to_millis(step_duration(work_of(prefill, shape), h200, true) - many), 0, 0.001);
}

// Llama-3.2-3B on an H100, `causeway profile` (fleet-h100.md): 3.15 ms for 64 tokens, 4.12 for 256,
// where computing and reading take the same, 10.93 for 1,024.
TEST(CostModel, PromptsTakeWhatWasMeasured) {
  model::ModelConfig config;
  config.layers = 28;
  config.hidden = 3072;
  config.heads = 24;
  config.kv_heads = 8;
  config.head_dim = 128;
  config.intermediate = 8192;
  config.vocab = 128256;
  config.tied_embeddings = true;
  config.max_position = Tokens(131072);
  const ModelShape shape = shape_of("3b", config, Bytes(4 << 20)).value();
  const HardwareProfile h100 = find_profile("h100").value();
  for (const auto& [tokens, measured] :
       {std::pair{64, 3.15}, {128, 3.41}, {256, 4.12}, {512, 5.78}, {1024, 10.93}, {2048, 22.35}}) {
    request::Batch prefill;
    prefill.tokens.resize(static_cast<std::size_t>(tokens));
    prefill.entries.resize(1);
    prefill.entries[0].token_count = tokens;
    EXPECT_NEAR(to_millis(step_duration(work_of(prefill, shape), h100)) / measured, 1, 0.1)
        << tokens;
  }
}

TEST(CostModel, MixtureOfExpertsReadsTheExpertsThatAreHit) {
  ModelShape shape = make_shape("moe");
  shape.experts = 8;
  shape.experts_per_token = 2;
  shape.expert = Bytes(1'000'000'000);
  request::Batch batch;
  batch.tokens = {1};
  const auto one = static_cast<double>(work_of(batch, shape).weights.count);
  EXPECT_NEAR(one - 15e9, 2e9, 1e6);
  batch.tokens.resize(1000);
  const auto many = static_cast<double>(work_of(batch, shape).weights.count);
  EXPECT_NEAR(many - 15e9, 8e9, 1e6);
}

TEST(CostModel, ExpertsWithoutASlotAreReadAtHome) {
  const HardwareProfile h100 = find_profile("h100").value();
  ModelShape shape = make_shape("moe");
  shape.experts = 8;
  shape.experts_per_token = 2;
  shape.expert = Bytes(1'000'000'000);
  request::Batch batch;
  batch.tokens = {1};
  const Nanos whole = step_duration(work_of(batch, shape), h100);
  weights::ExpertPlan plan;
  plan.experts = 8;
  plan.layers.resize(10);
  plan.slots = 20;  // of 80
  shape.cached.experts = plan;
  EXPECT_NEAR(static_cast<double>(work_of(batch, shape).missed.count), 1.5e9, 1e3);
  const Nanos missing = step_duration(work_of(batch, shape), h100);
  const double expected = 1.5e9 / h100.home_bytes_per_second - 1.5e9 / h100.memory_bytes_per_second;
  EXPECT_NEAR(to_seconds(missing - whole), expected, 1e-5);
  shape.cached.experts->slots = 80;
  EXPECT_EQ(step_duration(work_of(batch, shape), h100), whole);
}

TEST(CostModel, GroupsStandInReadingOrder) {
  model::ModelConfig config;
  config.layers = 2;
  config.hidden = 64;
  config.heads = config.kv_heads = 2;
  config.head_dim = 32;
  config.intermediate = 128;
  config.vocab = 100;
  config.max_position = Tokens(64);
  const auto shape = shape_of("m", config, mib(4));
  ASSERT_TRUE(shape.ok()) << shape.error().message;
  const weights::CachedModel& cached = shape.value().cached;
  EXPECT_EQ(cached.layout_groups, (std::vector{1, 2, 3, 0}));
  EXPECT_TRUE(cached.groups.back().readable_at_home);
  Bytes sum;
  for (const weights::ResidentGroup& group : cached.groups) sum += group.bytes;
  EXPECT_GE(sum, shape.value().weights);  // with what aligns tensors
  EXPECT_LT(sum, shape.value().weights + kib(8));
}

HardwareProfile slow_steps() {
  HardwareProfile profile;
  profile.flops_per_second = profile.memory_bytes_per_second = 1e12;
  profile.attention_bytes_per_second = 1e12;
  profile.step_overhead = millis(2);
  return profile;
}

// Four groups of 1,000 bytes on extents of the same size; a copy takes a millisecond.
struct ColdStart {
  explicit ColdStart(double copy_error_rate, HardwareProfile profile = slow_steps())
      : mover({.bytes_per_second = 1e6,
               .latency = Nanos(0),
               .error_rate = copy_error_rate,
               .extent = Bytes(1000),
               .extents_max = 4},
              clock),
        executor({.profile = profile, .faults = {}, .shadow_frames = 1}, clock, &mover) {
    ModelShape shape;
    shape.vocab = 100;
    std::vector<weights::WeightCommand> commands = {
        {.kind = weights::WeightCommand::Kind::kCommit, .model = ModelId(0), .extents = 4}};
    for (int i = 0; i < 4; ++i) {
      shape.cached.groups.push_back({.offset = Bytes(1000) * i, .bytes = Bytes(1000)});
      shape.cached.layout_groups.push_back(i);
      commands.push_back({.model = ModelId(0), .group = i, .arrival = 1});
    }
    mover.add_model(ModelId(0), shape.cached);
    executor.add_model(ModelId(0), shape, WeightSource::kCache);
    mover.submit(commands);
  }

  // A step of one token, or of a prompt, with those views.
  Status step(std::vector<weights::WeightView> with, int tokens = 1) {
    views = std::move(with);
    request::Batch batch;
    batch.step = StepId(0);
    batch.model = ModelId(0);
    batch.tokens.assign(static_cast<std::size_t>(tokens), 1);
    batch.frames = {FrameId(0)};
    batch.entries.resize(1);
    batch.entries[0].token_count = tokens;
    batch.entries[0].frame_count = 1;
    batch.entries[0].samples = true;
    return executor.submit(batch, views);
  }

  ManualClock clock;
  SimulatedMover mover;
  SimulatedExecutor executor;
  std::vector<weights::WeightView> views;
};

constexpr weights::WeightView kStaged = {.place = weights::WeightPlace::kStaged, .value = 1};
constexpr weights::WeightView kCached = {.place = weights::WeightPlace::kCached};
constexpr weights::WeightView kAtHome = {.place = weights::WeightPlace::kHome};

TEST(SimulatedExecutor, StepsThatNoGraphHoldsAreLaunchedFirst) {
  HardwareProfile profile = slow_steps();
  profile.plain_launch = micros(700);
  ColdStart cold(0, profile);
  cold.clock.set(millis(10));
  ASSERT_TRUE(cold.step({kCached, kCached, kCached, kCached}, /*tokens=*/2).ok());
  EXPECT_EQ(cold.executor.next_event(), micros(10'700));
  cold.clock.set(micros(10'700));
  EXPECT_FALSE(cold.executor.wait(Nanos(0)).has_value()) << "it begins now";
  EXPECT_EQ(cold.executor.next_event(), micros(12'700));
  cold.clock.set(micros(12'700));
  ASSERT_TRUE(cold.executor.wait(Nanos(0)).has_value());
  for (const std::int64_t launch : {700, 700, 0, 0}) {  // the third time there is a graph
    const Nanos begins = cold.clock.now() + micros(launch);
    ASSERT_TRUE(cold.step({kCached, kCached, kCached, kCached}).ok());
    EXPECT_EQ(cold.executor.busy_until(), begins);
    cold.clock.set(begins);
    EXPECT_FALSE(cold.executor.wait(Nanos(0)).has_value());
    cold.clock.set(begins + millis(2));
    EXPECT_TRUE(cold.executor.wait(Nanos(0)).has_value());
  }
}

TEST(SimulatedExecutor, AStepComputesEachGroupAfterItsArrival) {
  ColdStart cold(0);
  cold.clock.set(micros(1500));  // the first group is there; the last arrives at 4 ms
  ASSERT_TRUE(cold.step({kCached, kStaged, kStaged, kStaged}).ok());
  EXPECT_EQ(cold.executor.next_event(), micros(4500));  // a fourth of the 2 ms is left then
  cold.clock.set(micros(4500));
  const auto result = cold.executor.wait(Nanos(0));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->duration, millis(3));
  EXPECT_EQ(result->sampled.at(0).token.token, expected_token(ModelId(0), std::vector{1}, 100));
  EXPECT_EQ(cold.executor.counters().weights_wait, millis(1));
  EXPECT_EQ(cold.executor.violation(), "");
  ASSERT_TRUE(cold.step({}).ok());
  EXPECT_EQ(cold.executor.next_event(), micros(6500));
}

TEST(SimulatedExecutor, AStepOfWhichACopyFailsChoosesWrongTokens) {
  ColdStart cold(1);
  ASSERT_TRUE(cold.step({kStaged, kStaged, kStaged, kStaged}).ok());
  cold.clock.set(seconds(1));
  const auto result = cold.executor.wait(Nanos(0));
  EXPECT_NE(result->sampled.at(0).token.token, expected_token(ModelId(0), std::vector{1}, 100));
  EXPECT_EQ(cold.executor.violation(), "");
}

// A device on which two steps may be in flight, with a model that is always there.
struct TwoAhead {
  TwoAhead()
      : executor({.profile = slow_steps(),
                  .faults = {},
                  .shadow_frames = 1,
                  .tokens_per_block_max = 8,
                  .steps_in_flight_max = 2},
                 clock) {
    ModelShape shape;
    shape.vocab = 100;
    shape.tokens_per_block = Tokens(8);
    executor.add_model(ModelId(0), shape, WeightSource::kMemory);
  }

  // Each step is of the one token that follows.
  Status step(TokenId token) {
    request::Batch batch;
    batch.step = StepId(place);
    batch.model = ModelId(0);
    batch.tokens = {token};
    batch.frames = {FrameId(0)};
    batch.entries.resize(1);
    batch.entries[0].context = place++;
    batch.entries[0].token_count = 1;
    batch.entries[0].frame_count = 1;
    batch.entries[0].samples = true;
    return executor.submit(batch, {});
  }
  TokenId chosen() { return executor.wait(Nanos(0)).value().sampled.at(0).token.token; }

  ManualClock clock;
  SimulatedExecutor executor;
  std::int32_t place = 0;
};

TEST(SimulatedExecutor, AStepKnowsTheTokenOfOneThatEndedUnheard) {
  TwoAhead device;
  const TokenId first = 1, pending = request::pending_token(0);
  ASSERT_TRUE(device.step(first).ok());
  ASSERT_TRUE(device.step(pending).ok());
  device.clock.set(seconds(1));  // the host was paused: both have ended
  const TokenId second = device.chosen();
  EXPECT_EQ(second, expected_token(ModelId(0), std::vector{first}, 100));
  ASSERT_TRUE(device.step(pending).ok());  // of the second step, of which the host has not heard
  const TokenId third = device.chosen();
  EXPECT_EQ(third, expected_token(ModelId(0), std::vector{first, second}, 100));
  device.clock.set(seconds(2));
  EXPECT_EQ(device.chosen(), expected_token(ModelId(0), std::vector{first, second, third}, 100));
  EXPECT_EQ(device.executor.violation(), "");
}

TEST(SimulatedExecutor, FindsStepsThatReadWhatIsNotThere) {
  weights::WeightView other = kStaged;
  other.value = 2;
  for (const auto& view : {kCached, other, kAtHome}) {
    ColdStart cold(0);
    ASSERT_TRUE(cold.step({kStaged, kStaged, kStaged, view}).ok());
    EXPECT_NE(cold.executor.violation(), "");
  }
  ColdStart taken(0);
  taken.clock.set(millis(4));
  ASSERT_TRUE(taken.step({}).ok());
  taken.mover.submit(std::vector<weights::WeightCommand>{
      {.kind = weights::WeightCommand::Kind::kDecommit, .model = ModelId(0), .extents = 1}});
  taken.clock.set(seconds(1));
  (void)taken.executor.wait(Nanos(0));
  EXPECT_NE(taken.executor.violation(), "");
}

TEST(Simulate, CompletesALightLoadWithinItsTargets) {
  const auto report = run(make_options(2), make_workload(200, 2, 2));
  ASSERT_TRUE(report.ok()) << report.error().message;
  const SimulationReport& r = report.value();
  EXPECT_EQ(r.total.completed, 200);
  EXPECT_EQ(r.total.slo_both_met, 200);
  EXPECT_EQ(r.unfinished, 0);
  EXPECT_EQ(r.weights.arrivals, 2);
  EXPECT_EQ(r.models[0].second.completed + r.models[1].second.completed, 200);
  EXPECT_GT(r.total.ttft.percentile(0.01), millis(3).count);
  EXPECT_EQ(r.total.output_tokens, r.engine.generated_tokens);
}

TEST(Simulate, IsTheSameEveryTime) {
  const auto once = run(make_options(3), make_workload(300, 20, 3));
  const auto again = run(make_options(3), make_workload(300, 20, 3));
  ASSERT_TRUE(once.ok() && again.ok());
  EXPECT_EQ(to_json(once.value()), to_json(again.value()));
}

TEST(Simulate, MoreLoadMeansLongerWaits) {
  const auto light = run(make_options(1), make_workload(500, 1, 1));
  const auto heavy = run(make_options(1), make_workload(500, 500, 1));
  ASSERT_TRUE(light.ok() && heavy.ok());
  EXPECT_GT(heavy.value().total.ttft.percentile(0.5), light.value().total.ttft.percentile(0.5));
  EXPECT_GT(heavy.value().total.tpot.percentile(0.5), light.value().total.tpot.percentile(0.5));
  EXPECT_LT(heavy.value().duration, light.value().duration);
}

TEST(Simulate, ModelsThatDoNotFitTogetherAreFetchedAgain) {
  SimulationOptions options = make_options(8);
  options.kv_memory = gib(100);  // leaves room for two of the eight
  const auto report = run(options, make_workload(200, 2, 8));
  ASSERT_TRUE(report.ok());
  EXPECT_GT(report.value().weights.arrivals, 100);
  EXPECT_EQ(report.value().total.completed, 200);
}

TEST(Simulate, AStepBeginsWhileItsWeightsArrive) {
  // A prompt that computes for as long as its model's 16 GB take to arrive.
  Workload workload(1);
  workload[0].prompt = Tokens(8000);
  SimulationOptions options = make_options(1);
  options.profile.flops_per_second = 500e12;
  options.schedule.tokens_per_step_max = 8000;
  Nanos first[2];
  for (const auto start : {engine::StepStart::kJustInTime, engine::StepStart::kAllCached}) {
    options.step_start = start;
    const auto report = run(options, workload);
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report.value().link_bytes.count, 16'000'000'000);
    first[start == engine::StepStart::kAllCached] = report.value().duration;
  }
  EXPECT_NEAR(to_millis(first[0]), 8000 * 15e9 / 500e12 * 1e3 + 291 - 240, 60);
  EXPECT_NEAR(to_millis(first[1]), to_millis(first[0]) + 210, 60);
}

// Two models of 16 GB in memory for one and a half, asked for by turns: layers that stay need not
// come again; a whole model is 291 ms over the link, and as much before that where it is saved.
TEST(Simulate, BaselinesOfASwitchPayForWholeModels) {
  Workload workload(6);
  for (std::size_t i = 0; i < workload.size(); ++i) {
    workload[i].at = seconds(10) * static_cast<std::int64_t>(i);
    workload[i].model = i % 2;
    workload[i].prompt = Tokens(10);
    workload[i].output = Tokens(2);
  }
  SimulationOptions options = make_options(2);
  options.kv_memory = options.profile.memory - gib(24);
  const auto layers = run(options, workload).value();
  options.step_start = engine::StepStart::kAllCached;
  options.whole_models = true;
  const auto reload = run(options, workload).value();
  options.copies_out = true;
  const auto sleep = run(options, workload).value();
  EXPECT_LT(layers.link_bytes, reload.link_bytes);
  EXPECT_EQ(reload.link_bytes.count, 6 * 16'000'000'000);
  EXPECT_EQ(reload.weights_out_bytes, Bytes(0));
  EXPECT_EQ(sleep.link_bytes, reload.link_bytes);
  EXPECT_EQ(sleep.weights_out_bytes.count, 5 * 16'000'000'000) << "the last one stays";
  const auto median = [](const SimulationReport& report) {
    return static_cast<double>(report.total.ttft.percentile(0.5)) * 1e-6;
  };
  EXPECT_LT(median(layers), median(reload) - 100);
  EXPECT_NEAR(median(sleep), median(reload) + 291, 10);

  // Read at home (HybridGEMM): the first token no longer waits for what another model leaves.
  options.step_start = engine::StepStart::kWhenIdle;
  options.reads_at_home = true;
  const auto sleep_home = run(options, workload).value();
  // 16 GB at 51 GB a second, the last of it beside the copy that stays: half of the link each.
  EXPECT_NEAR(median(sleep_home), 338, 10);
  EXPECT_EQ(sleep_home.weights_out_bytes, sleep.weights_out_bytes) << "which it still does";
  EXPECT_EQ(sleep_home.weights.brought, sleep.weights.brought) << "and comes for good";
  EXPECT_GE(sleep_home.device.home_read.count, 5 * 16'000'000'000);
  EXPECT_EQ(sleep_home.link_bytes, sleep_home.weights.brought + sleep_home.device.home_read);
  options.copies_out = false;
  const auto reload_home = run(options, workload).value();
  EXPECT_LE(median(reload_home), median(reload));
  EXPECT_EQ(reload_home.device.home_read, Bytes(0)) << "nothing stands before its copies";
}

TEST(Simulate, WhereTheHomeIsTheMemoryNothingIsBrought) {
  SimulationOptions options = make_options(2);
  options.profile = find_profile("cpu-2core").value();
  options.kv_memory = gib(4);
  const auto report = run(options, make_workload(3, 0.001, 2));
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report.value().total.completed, 3);
  EXPECT_EQ(report.value().weights.arrivals, 0);
  EXPECT_EQ(report.value().link_bytes.count, 0);
}

TEST(Simulate, CopiesThatFailEndRequestsAndAreTriedAgain) {
  SimulationOptions options = make_options(8);
  options.kv_memory = gib(100);
  options.faults = {.copy_error_rate = 0.02};
  const auto report = run(options, make_workload(200, 2, 8));
  ASSERT_TRUE(report.ok());
  const SimulationReport& r = report.value();
  EXPECT_GT(r.weights.failures, 10);
  EXPECT_GT(r.total.errors, 0);
  EXPECT_GT(r.total.completed, 50);
  EXPECT_EQ(r.total.completed + r.total.errors, 200);
}

TEST(Simulate, ScarceMemoryPreemptsAndFaultsAreCounted) {
  SimulationOptions options = make_options(1);
  options.kv_memory = mib(4) * 400;
  options.faults = {.error_rate = 0.001};
  const auto report = run(options, make_workload(400, 100, 1));
  ASSERT_TRUE(report.ok());
  const SimulationReport& r = report.value();
  EXPECT_GT(r.engine.preemptions, 0);
  EXPECT_GT(r.device.faults, 0);
  EXPECT_GT(r.total.errors, 0);
  EXPECT_EQ(r.total.completed + r.total.errors + r.total.refused, 400);
}

TEST(Simulate, AHangIsCutByTheTimeLimit) {
  SimulationOptions options = make_options(1);
  options.faults = {.hang_rate = 1, .hang = seconds(40 * 86'400)};
  const auto report = run(options, make_workload(10, 1, 1));
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report.value().total.completed, 0);
  EXPECT_EQ(report.value().total.errors + report.value().total.refused, 10);
}

TEST(Simulate, RefusesWhatMakesNoSense) {
  EXPECT_FALSE(run(make_options(0), {}).ok());
  SimulationOptions options = make_options(1);
  options.kv_memory = Bytes(5);
  EXPECT_FALSE(run(options, {}).ok());
  options.kv_memory = gib(1000);
  EXPECT_FALSE(run(options, {}).ok());
  EXPECT_FALSE(run(make_options(1), make_workload(9, 1, 4)).ok());
  EXPECT_TRUE(run(make_options(1), {}).ok());
  options = make_options(1);
  options.models[0].layout = {};
  EXPECT_FALSE(run(options, {}).ok());
}

TEST(Simulate, ReportsAsTextAndAsJson) {
  const auto report = run(make_options(2), make_workload(50, 5, 2));
  ASSERT_TRUE(report.ok());
  const std::string text = to_text(report.value());
  EXPECT_NE(text.find("m1"), std::string::npos);
  EXPECT_NE(text.find("TTFT p50"), std::string::npos);
  const auto json = nlohmann::json::parse(to_json(report.value()));
  EXPECT_EQ(json.at("total").at("completed"), 50);
  EXPECT_GT(json.at("models").at("m0").at("ttft").at("p99_ms"), 1.0);
}

TEST(Workload, TracesKeepTheirTimesModelsAndPrompts) {
  request::Trace trace;
  trace.has_arrivals = trace.has_models = trace.has_lengths = true;
  for (int i = 0; i < 6; ++i) {
    request::TraceEntry entry;
    entry.arrival = seconds(i);
    entry.model = i % 2 == 0 ? "even" : "odd";
    entry.prompt = Tokens(600);
    entry.output = Tokens(7);
    entry.block_ids = {42, i};
    trace.entries.push_back(entry);
  }
  const auto workload = trace_workload(trace, {.models = 2, .speed = 2, .slo = {}});
  ASSERT_TRUE(workload.ok());
  EXPECT_EQ(workload.value()[5].at, millis(2500));
  EXPECT_EQ(workload.value()[4].model, workload.value()[0].model);
  EXPECT_NE(workload.value()[1].model, workload.value()[0].model);
  const auto first = prompt_tokens(workload.value()[0], 0, 1000);
  const auto second = prompt_tokens(workload.value()[1], 1, 1000);
  ASSERT_EQ(first.size(), 600u);
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 512, second.begin()));
  EXPECT_NE(first, second);
  EXPECT_FALSE(trace_workload(trace, {.speed = 0, .slo = {}}).ok());
}

TEST(Workload, PromptsAreMadeUpPlaceByPlace) {
  constexpr std::int64_t kBlock = 512, kVocab = 777, kIndex = 9;
  Arrival arrival;
  arrival.prompt_ids.assign(100, 5000);
  arrival.block_ids = {3, 3, 8};
  for (const std::int64_t length : {1, 100, 101, 512, 513, 1536, 2000}) {
    arrival.prompt = Tokens(length);
    const auto tokens = prompt_tokens(arrival, kIndex, kVocab);
    ASSERT_EQ(std::ssize(tokens), length);
    for (std::int64_t i = 0; i < length; ++i) {
      const bool in_block = i < 3 * kBlock;
      const auto block = static_cast<std::size_t>(in_block ? i / kBlock : 0);
      const std::int64_t stream = in_block ? arrival.block_ids[block] * 2 : kIndex * 2 + 1;
      const std::int64_t place = in_block ? i % kBlock : i;
      const std::uint64_t word =
          mix64(mix64(static_cast<std::uint64_t>(stream)) + static_cast<std::uint64_t>(place));
      const std::uint64_t expected = i < 100 ? 5000 % kVocab : word % kVocab;
      EXPECT_EQ(static_cast<std::uint64_t>(tokens[static_cast<std::size_t>(i)]), expected) << i;
    }
  }
}

}  // namespace
}  // namespace causeway::simulate::simulate_test
