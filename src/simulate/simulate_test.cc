#include "simulate/simulate.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace causeway::simulate {
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
  const Nanos one = step_duration(work_of(decode, shape), Bytes(0), h200);
  // Bound by reading the weights: 15 GB at 4.6 TB/s.
  EXPECT_NEAR(to_millis(one), 3.26 + 0.3, 0.1);
  const Nanos cold = step_duration(work_of(decode, shape), shape.weights, h200);
  EXPECT_NEAR(to_millis(cold), 291, 2);  // 16 GB at 55 GB/s

  request::Batch prefill;
  prefill.tokens.resize(4096);
  prefill.entries.resize(1);
  prefill.entries[0].token_count = 4096;
  const Nanos many = step_duration(work_of(prefill, shape), Bytes(0), h200);
  EXPECT_NEAR(to_millis(many), (4096 * 15e9 + 4096.0 * 4097 / 2 * 524288) / 780e12 * 1e3 + 0.3, 1);
}

TEST(CostModel, MixtureOfExpertsReadsTheExpertsThatAreHit) {
  ModelShape shape = make_shape("moe");
  shape.experts = 8;
  shape.experts_per_token = 2;
  shape.expert = Bytes(1'000'000'000);
  request::Batch batch;
  batch.tokens = {1};
  const double one = work_of(batch, shape).memory_bytes;
  EXPECT_NEAR(one - 15e9, 2e9, 1e6);
  batch.tokens.resize(1000);
  EXPECT_NEAR(work_of(batch, shape).memory_bytes - 15e9, 8e9, 1e6);
}

TEST(SimulatedExecutor, AModelTooLargeForItsRoomIsStreamedWithTheExpertsThatAStepHits) {
  ModelShape shape = make_shape("moe");
  shape.weights = Bytes(24'000'000'000);
  shape.experts = 8;
  shape.experts_per_token = 2;
  shape.expert = Bytes(1'000'000'000);
  for (const auto& [tokens, gigabytes] : {std::pair(1, 17.0), std::pair(1000, 23.0)}) {
    ManualClock clock;
    const HardwareProfile h200 = find_profile("h200").value();
    SimulatedExecutor executor({.profile = h200, .weight_memory = gib(8), .faults = {}}, clock);
    executor.add_model(ModelId(0), shape);
    request::Batch batch;
    batch.step = StepId(0);
    batch.model = ModelId(0);
    batch.tokens.assign(static_cast<std::size_t>(tokens), 1);
    batch.frames = {FrameId(0)};
    batch.entries.resize(1);
    batch.entries[0].token_count = tokens;
    batch.entries[0].frame_count = 1;
    const StepWork work = work_of(batch, shape);
    ASSERT_TRUE(executor.submit(batch).ok());
    EXPECT_EQ(executor.counters().link_bytes, work.weights);
    EXPECT_NEAR(static_cast<double>(work.weights.count), gigabytes * 1e9, 1e6);
    EXPECT_GE(to_millis(*executor.ends_at()), gigabytes / 55 * 1e3);  // 55 GB/s
  }
}

TEST(Simulate, CompletesALightLoadWithinItsTargets) {
  const auto report = run(make_options(2), make_workload(200, 2, 2));
  ASSERT_TRUE(report.ok()) << report.error().message;
  const SimulationReport& r = report.value();
  EXPECT_EQ(r.total.completed, 200);
  EXPECT_EQ(r.total.slo_both_met, 200);
  EXPECT_EQ(r.unfinished, 0);
  EXPECT_EQ(r.device.model_loads, 2);
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
  EXPECT_GT(report.value().device.model_loads, 100);
  EXPECT_EQ(report.value().total.completed, 200);
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

}  // namespace
}  // namespace causeway::simulate
