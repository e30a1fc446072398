// A GPU that is whole, in halves, or divided by what is asked of it.
#include "simulate/gpu_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "base/testing/rounds.h"
#include "model/random_model.h"
#include "simulate/fleet_simulation.h"
#include "simulate/testing/shapes.h"

namespace causeway::simulate::gpu_parts_test {
namespace {

FleetSimulationOptions gpu_in(int parts, bool resizes = false) {
  FleetSimulationOptions options;
  options.slice.profile = find_profile("h100").value();
  options.slice.kv_memory = gib(20);
  for (const char* name : {"decodes", "prompts"}) {
    options.slice.models.push_back(
        shape_of(name, testing::llama_8b(Tokens(16'384)), options.slice.frame).value());
  }
  options.models_max = 0;
  options.fleet.moves = true;
  options.fleet.waiting_max = 100'000;
  options.fleet.room_timeout = seconds(60);
  options.keep_requests = true;
  options.gpu_parts = GpuPartsOptions{.gpu = kH100Parts, .parts = parts};
  if (resizes) options.gpu_parts->resizes = slice::LayoutRules();
  return options;
}

// As `--slices 4x32` divides it: into units of a coarser split.
constexpr slice::SliceGpu kIn32 = {.processors = 132, .unit = 32, .units = 4};

struct Stream {
  std::size_t model = 0;
  Nanos from, to;
  double rate = 0;
  Tokens prompt, output;
  Nanos tpot;
};

void add(const Stream& stream, Workload& workload) {
  const double span = to_seconds(stream.to - stream.from);
  Workload arrivals = poisson_workload({.requests = static_cast<std::int64_t>(span * stream.rate),
                                        .per_second = stream.rate,
                                        .slo = {}});
  for (Arrival& arrival : arrivals) {
    arrival.at += stream.from;
    arrival.model = stream.model;
    arrival.prompt = stream.prompt;
    arrival.output = stream.output;
    arrival.slo = {.ttft = seconds(5), .tpot = stream.tpot};
    workload.push_back(arrival);
  }
}

// For a minute one model is asked for more than half of the GPU computes. Then it is asked less, by
// short answers that are to keep 12 ms between tokens, while the other has prompts of 8,192
// tokens.
Workload demand_that_moves() {
  Workload workload;
  add({0, Nanos(0), seconds(60), 30, Tokens(512), Tokens(24), millis(12)}, workload);
  add({0, seconds(60), seconds(240), 8, Tokens(128), Tokens(24), millis(12)}, workload);
  add({1, seconds(60), seconds(240), 1.3, Tokens(8192), Tokens(16), millis(100)}, workload);
  std::stable_sort(workload.begin(), workload.end(),
                   [](const Arrival& a, const Arrival& b) { return a.at < b.at; });
  return workload;
}

double attained(const FleetSimulationReport& report) {
  const LatencyReport& total = report.serving.total;
  return static_cast<double>(total.slo_both_met) / static_cast<double>(total.requests);
}

TEST(GpuParts, APartReadsMoreThanItsShareOfTheProcessors) {
  const HardwareProfile whole = find_profile("h100").value();
  const HardwareProfile half = part_of(whole, kH100Parts, 2);
  EXPECT_NEAR(half.flops_per_second / whole.flops_per_second, 56.0 / 132, 1e-9);
  EXPECT_NEAR(half.memory_bytes_per_second / whole.memory_bytes_per_second, 0.805, 1e-9);
  EXPECT_EQ(half.memory, whole.memory / 2);
  EXPECT_EQ(part_of(whole, kH100Parts, 1).name, whole.name);
  const HardwareProfile quarter = part_of(whole, kH100Parts, 4);
  EXPECT_NEAR(quarter.flops_per_second / whole.flops_per_second, 24.0 / 132, 1e-9);
  EXPECT_NEAR(quarter.memory_bytes_per_second / whole.memory_bytes_per_second, 0.41, 1e-9);
  EXPECT_EQ(quarter.name, "h100, 24 SMs");
}

TEST(GpuParts, AWholeGpuIsAsItWas) {
  const HardwareProfile gpu = find_profile("h200").value();
  const HardwareProfile whole = part_of(gpu, hopper_parts(), 1);
  EXPECT_EQ(whole.layer_overhead, gpu.layer_overhead);
  EXPECT_EQ(whole.prompt_layer_overhead, gpu.prompt_layer_overhead);
  EXPECT_EQ(whole.link_bytes_per_second, gpu.link_bytes_per_second);
  EXPECT_EQ(whole.attention_bytes_per_second, gpu.attention_bytes_per_second);
}

TEST(GpuParts, OnlyPartsOfACoarserSplitHaveItsRates) {
  const HardwareProfile gpu = find_profile("h200").value();
  EXPECT_EQ(part_of(gpu, kIn32, 4).layer_overhead, gpu.parts.coarse.layer_overhead);
  EXPECT_EQ(part_of(gpu, kH100Parts, 4).layer_overhead, gpu.parts.fine.layer_overhead) << "24 SMs";
  const HardwareProfile half = part_of(gpu, kH100Parts, 2);
  EXPECT_GT(half.layer_overhead, gpu.layer_overhead);
  EXPECT_LT(half.layer_overhead, gpu.parts.fine.layer_overhead) << "between it and the whole GPU";
  EXPECT_EQ(half.link_bytes_per_second, gpu.parts.link_bytes_per_second);
}

TEST(GpuParts, AProfileWithoutThemHasPartsAsTheGpu) {
  HardwareProfile gpu = find_profile("h200").value();
  gpu.parts = {};
  const HardwareProfile part = part_of(gpu, kIn32, 4);
  EXPECT_EQ(part.layer_overhead, gpu.layer_overhead);
  EXPECT_EQ(part.prompt_layer_overhead, gpu.prompt_layer_overhead);
  EXPECT_EQ(part.link_bytes_per_second, gpu.link_bytes_per_second);
  EXPECT_NEAR(part.attention_bytes_per_second / gpu.attention_bytes_per_second, 32.0 / 132, 1e-9);
}

// Short of bandwidth all get a quarter of it; one alone reads more, and computes less than that.
TEST(GpuParts, FourPartsAreSlowerForPromptsAndFasterForTokensThanQuarters) {
  Workload workload;
  add({0, Nanos(0), seconds(20), 1, Tokens(1000), Tokens(50), millis(100)}, workload);
  FleetSimulationOptions quarters = gpu_in(1);
  quarters.gpu_parts.reset();
  quarters.slices = 4;
  quarters.slice.profile = slice_of(quarters.slice.profile, 4);
  quarters.slice.kv_memory = gib(2);
  FleetSimulationOptions in_parts = gpu_in(4);
  in_parts.slice.kv_memory = gib(8);
  const auto parts = run_fleet(in_parts, workload).value();
  const auto equal = run_fleet(quarters, workload).value();
  EXPECT_EQ(parts.slices, 4);
  EXPECT_EQ(parts.serving.total.completed, std::ssize(workload));
  const auto p50 = [](const Histogram& times) { return to_seconds(Nanos(times.percentile(0.5))); };
  const LatencyReport &of_parts = parts.serving.total, &of_equal = equal.serving.total;
  EXPECT_GT(p50(of_parts.ttft), 1.1 * p50(of_equal.ttft));
  EXPECT_LT(p50(of_parts.tpot), 0.7 * p50(of_equal.tpot));
}

// Shapes of tests/e2e/neighbours_cost.py.
ModelShape shape_of_layers(model::Family family, std::int64_t hidden, std::int64_t intermediate,
                           std::int64_t heads, std::int64_t head_dim, std::int64_t layers) {
  model::ModelConfig config = model::random_model_config(family);
  config.hidden = hidden;
  config.intermediate = intermediate;
  config.heads = heads;
  config.kv_heads = 8;
  config.head_dim = head_dim;
  config.layers = layers;
  config.vocab = 8192;
  config.max_position = Tokens(4096);
  config.tied_embeddings = true;
  return shape_of("", config, mib(4)).value();
}

// What one slice of an H200 in 4x32 was measured to take, in ms: docs/measurements/fleet-h200.md.
// A token's time is the mean of 1,000, on average 250 tokens behind the prompt; beside others it
// is the mean of what was measured while they decode and while they compute prompts.
TEST(GpuParts, StepsTakeWhatWasMeasuredOnAnH200) {
  struct Measured {
    double at_100, at_800, at_2400;       // tokens of context, alone
    double beside_1, beside_2, beside_3;  // with 800
    double prompt_800;                    // a prompt of so many tokens
  };
  const std::pair<ModelShape, Measured> all[] = {
      {shape_of_layers(model::Family::kQwen3, 1024, 3072, 16, 128, 24),
       {0.656, 0.748, 0.980, 0.809, 0.885, 1.008, 7.284}},
      {shape_of_layers(model::Family::kLlama, 2048, 8192, 32, 64, 10),
       {0.665, 0.690, 0.772, 0.799, 0.906, 1.030, 7.326}}};
  const HardwareProfile gpu = find_profile("h200").value();
  const HardwareProfile part = part_of(gpu, kIn32, 4);
  for (const auto& [shape, measured] : all) {
    const auto token = [&](double context, int others) {
      SharedMemory memory(gpu.memory_bytes_per_second, gpu.parts.neighbour_slowdown);
      for (int other = 1; other <= others; ++other) memory.use(other, 0.9e12);
      HardwareProfile left = part;
      left.memory_bytes_per_second = memory.granted(0, part.memory_bytes_per_second);
      left.attention_bytes_per_second *=
          left.memory_bytes_per_second / part.memory_bytes_per_second;
      StepTokens one{.tokens = 1};
      one.add(1, context + 250);
      return to_seconds(step_duration(work_of(one, shape), left)) * 1e3;
    };
    const auto near = [](double simulated, double seen, double within = 0.08) {
      EXPECT_NEAR(simulated / seen, 1, within) << simulated << " for " << seen << " ms";
    };
    near(token(100, 0), measured.at_100);
    near(token(800, 0), measured.at_800);
    near(token(2400, 0), measured.at_2400);
    near(token(800, 1), measured.beside_1);
    near(token(800, 2), measured.beside_2);
    near(token(800, 3), measured.beside_3);
    StepTokens prompt{.tokens = 800};
    prompt.add(800, 0);
    const Nanos step = step_duration(work_of(prompt, shape), part);
    const Nanos first = part.request_path + part.plain_launch + step;
    near(to_seconds(first) * 1e3, measured.prompt_800, 0.15);
  }
}

TEST(SharedMemory, GivesEachItsOwnAsLongAsTheOthersLeaveIt) {
  SharedMemory memory(100);
  EXPECT_EQ(memory.granted(0, 89), 89);
  memory.use(0, 89);
  EXPECT_EQ(memory.granted(0, 89), 89) << "itself does not count";
  EXPECT_EQ(memory.granted(1, 89), 50);
  memory.use(0, 20);
  EXPECT_EQ(memory.granted(1, 89), 80);
  memory.use(0, 0);
  EXPECT_EQ(memory.granted(1, 89), 89);
}

TEST(SharedMemory, EachThatReadsMakesReadsSlower) {
  SharedMemory memory(100, 0.2);
  EXPECT_EQ(memory.granted(0, 60), 60);
  memory.use(1, 1);
  EXPECT_EQ(memory.granted(0, 60), 50) << "however little the other reads";
  EXPECT_EQ(memory.granted(1, 60), 60) << "itself does not count";
  memory.use(2, 1);
  EXPECT_NEAR(memory.granted(0, 70), 50, 1e-9);
  memory.use(2, 80);
  EXPECT_NEAR(memory.granted(0, 60), 100.0 / 3, 1e-9) << "what is left is less than that";
}

// docs/measurements/fleet-h100.md: between tokens of 8 that decode, 52.7 ms beside prompts of 8,192
// on the whole GPU, and 7.5 on a half. (Prompts are computed 2,048 tokens at a time.)
TEST(GpuParts, ADecodingModelIsNotHeldUpByPromptsOnTheOtherHalf) {
  Workload workload;
  add({0, Nanos(0), seconds(20), 5, Tokens(300), Tokens(250), millis(100)}, workload);
  add({1, Nanos(0), seconds(20), 4, Tokens(8192), Tokens(16), millis(100)}, workload);
  std::stable_sort(workload.begin(), workload.end(),
                   [](const Arrival& a, const Arrival& b) { return a.at < b.at; });
  const auto tpot = [&](int parts) {
    const auto report = run_fleet(gpu_in(parts), workload);
    EXPECT_TRUE(report.ok());
    return static_cast<double>(report.value().serving.models[0].second.tpot.percentile(0.5)) * 1e-6;
  };
  EXPECT_GT(tpot(1), 40);
  EXPECT_NEAR(tpot(2), 7.5, 1.5);
}

TEST(GpuParts, AreChosenByWhatIsAsked) {
  if (kSanitized) GTEST_SKIP() << "needs a build without sanitizers: figures of one thread";
  const Workload workload = demand_that_moves();
  const auto whole = run_fleet(gpu_in(1), workload).value();
  const auto halves = run_fleet(gpu_in(2), workload).value();
  const auto chosen = run_fleet(gpu_in(1, true), workload).value();
  for (const FleetSimulationReport* report : {&whole, &halves, &chosen}) {
    EXPECT_EQ(report->serving.total.completed, std::ssize(workload));
    std::cout << report->slices << " slices at the end, " << report->fleet.resizes
              << " changes: " << 100 * attained(*report) << " % keep both targets\n";
  }
  EXPECT_EQ(chosen.fleet.resizes, 1);
  EXPECT_EQ(chosen.slices, 2);
  EXPECT_GT(attained(chosen), attained(whole) + 0.05);
  EXPECT_GT(attained(chosen), attained(halves) + 0.05);
  // Every answer is as long as it was asked for, whatever slices it came from.
  for (std::size_t i = 0; i < workload.size(); ++i) {
    ASSERT_EQ(std::ssize(chosen.requests[i].token_times), workload[i].output.count);
  }
}

// Parts that change every few seconds, whatever is asked, and drain for a tenth of a second.
TEST(GpuParts, RequestsGoOnWhereTheirPartsAreClosed) {
  FleetSimulationOptions options = gpu_in(1, true);
  options.gpu_parts->resizes = slice::LayoutRules{.gain = -1, .lasting = {}, .apart = seconds(3)};
  options.gpu_parts->drain_max = millis(100);
  std::int64_t withdrawn = 0;
  for (std::uint64_t seed = 1; seed <= rounds<std::uint64_t>(10); ++seed) {
    const Workload workload = poisson_workload({.requests = 300,
                                                .per_second = 8,
                                                .models = 2,
                                                .prompt_mean = Tokens(800),
                                                .output_mean = Tokens(200),
                                                .slo = {},
                                                .seed = seed});
    const auto report = run_fleet(options, workload).value();
    EXPECT_GT(report.fleet.resizes, 4) << "seed " << seed;
    withdrawn += report.fleet.withdrawn;
    EXPECT_EQ(report.serving.total.completed, 300) << "seed " << seed;
    for (std::size_t i = 0; i < workload.size(); ++i) {
      const ServedRequest& served = report.requests[i];
      ASSERT_EQ(std::ssize(served.token_times), workload[i].output.count) << "seed " << seed;
      ASSERT_TRUE(std::is_sorted(served.token_times.begin(), served.token_times.end()));
    }
  }
  EXPECT_GT(withdrawn, rounds(50));
}

TEST(GpuParts, TheSameDemandGivesTheSameReport) {
  if (kSanitized) GTEST_SKIP() << "needs a build without sanitizers: figures of one thread";
  const Workload workload = demand_that_moves();
  const auto text = [&] { return to_json(run_fleet(gpu_in(1, true), workload).value()); };
  EXPECT_EQ(text(), text());
}

TEST(GpuParts, RefusesWhatIsNotOneMachineInWholeUnits) {
  FleetSimulationOptions options = gpu_in(1);
  options.machines = 2;
  EXPECT_FALSE(run_fleet(options, {}).ok());
  options = gpu_in(16);
  EXPECT_FALSE(run_fleet(options, {}).ok()) << "it has 15 units";
  options = gpu_in(3, true);
  EXPECT_FALSE(run_fleet(options, {}).ok()) << "what decides knows halves alone";
  options = gpu_in(2);
  options.gpu_parts->gpu.units = 1;
  EXPECT_FALSE(run_fleet(options, {}).ok());
}

}  // namespace
}  // namespace causeway::simulate::gpu_parts_test
