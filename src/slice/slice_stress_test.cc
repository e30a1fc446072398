// Eviction, faults and changes of the catalogue while steps run, on host slices. Made for the
// thread sanitizer, and for long runs:
//
//   CAUSEWAY_STRESS_SECONDS=240 CAUSEWAY_STRESS_SEED=7 slice_test --gtest_filter='*Stress*'
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "base/testing/must.h"
#include "base/testing/rounds.h"
#include "slice/host_slice.h"
#include "slice/testing/checksum_slice.h"
#include "slice/testing/disturbed_stress.h"
#include "slice/testing/small_model.h"
#include "slice/testing/stress.h"
#include "transfer/testing/faulty_device.h"

namespace causeway::slice::slice_stress_test {
namespace {

using testing::Answer;
using testing::Catalogue;
using testing::Crowd;
using testing::Question;
using testing::StressOutcome;
using testing::StressPlan;
using transfer::testing::FaultPlan;
using transfer::testing::FaultyDevice;

constexpr Bytes kExtent = kib(64);

double setting(const char* name, double otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr ? std::strtod(value, nullptr) : otherwise;
}

// Models of several sizes, the head being the embedding or not.
model::ModelConfig config_of(ModelId model) {
  return testing::small_model(2 + model.value % 3, model.value % 2 == 0);
}

void fill(std::span<std::byte> memory, ModelId model) {
  testing::fill_random(memory, static_cast<std::uint64_t>(model.value));
}

class SliceStressTest : public ::testing::Test {
 protected:
  SliceStressTest() {
    plan_.seed = static_cast<std::uint64_t>(setting("CAUSEWAY_STRESS_SEED", 1));
    plan_.length = nanos_from_seconds(setting("CAUSEWAY_STRESS_SECONDS", 2));
    plan_.progress = [](const std::string& line) { std::cout << "  " << line << std::endl; };
    residency_.quantum_min = millis(5);
    residency_.optional_after = {};
    residency_.quantum_factor = 1;
    engine_.core.prefix_caching = false;
    engine_.core.step_start =
        plan_.seed % 2 == 0 ? engine::StepStart::kAtOnce : engine::StepStart::kJustInTime;
  }

  void plan_faults() {
    plan_.disturb = [this](Random& random) {
      testing::disturb(random, faults_, {.quiet = 0.4, .skip_max = 6, .fails = 0.5});
    };
    plan_.calm = [this] { faults_.release(); };
  }
  LinkFront front() {
    return
        [this](device::Device& device) { return std::make_unique<FaultyDevice>(device, faults_); };
  }

  ~SliceStressTest() override { EXPECT_EQ(home_.memory.total_bytes(), Bytes(0)); }

  void run(Slice& slice) {
    const StressOutcome outcome =
        testing::run_stress(plan_, catalogue_, {home_, clock_, slice}, sink_);
    std::cout << "seed " << plan_.seed << ": " << testing::describe(outcome) << std::endl;
    EXPECT_EQ(outcome.wrong, 0);
    EXPECT_GT(outcome.switches, 0);
    EXPECT_GT(outcome.requests, outcome.cancelled + outcome.failed);
    EXPECT_EQ(home_.pool.use().models, 0);
  }

  // One request of a model at a time: its batches are the same whatever goes on, and so are its
  // bits.
  void expect_answers_of(const HostSliceOptions& undisturbed, Machine& machine) {
    const auto slice = must(open_host_slice(undisturbed, machine, sink_), "the slice");
    Crowd crowd(catalogue_, {home_, clock_, *slice});
    known_ = crowd.all_answers(plan_.prompts, plan_.output_max, sink_);
    plan_.expected = [this](const Question& question) { return known_.at(question); };
    plan_.one_of_a_model = true;
  }

  void run_checksums() {
    const auto machine = open_machine();
    const auto device = must(machine->open({.name = "cpu", .arena_bytes = mib(256)}), "the device");
    std::map<ModelId, std::uint64_t> sums;
    for (std::int64_t m = 0; m < catalogue_.models; ++m) sums[ModelId(m)] = sum_of(ModelId(m));
    plan_.expected = [&](const Question& question) {
      Answer answer;
      for (std::int64_t i = 0; i < plan_.output_max; ++i) {
        answer.emplace_back(testing::checksum_token(sums.at(question.model), question.prompt + i),
                            0.0f);
      }
      return answer;
    };
    testing::HostSummer summer;
    const auto slice = must(
        testing::open_checksum_slice(
            {.cache = kib(1536), .residency = residency_, .engine = engine_, .link_front = front()},
            {*machine, *device, summer, sink_}),
        "the slice");
    run(*slice);
  }
  std::unique_ptr<Machine> open_machine() {
    return must(
        Machine::open_host({.links = device::make_link_tree({.link = 400e6, .link_duplex = 800e6}),
                            .extent_bytes = kExtent},
                           {}, home_, clock_),
        "the machine");
  }
  static std::uint64_t sum_of(ModelId model) {
    const auto card = must(model::make_card(config_of(model), DType::kBF16, kib(16)), "a card");
    std::vector<std::byte> memory(to_size(card.layout.bytes));
    fill(memory, model);
    return testing::checksum(weights::PlacedWeights{&card.layout, memory.data()});
  }

  RealClock clock_;
  FaultPlan faults_;
  testing::AnswersSink sink_;
  ModelHome home_{clock_, mib(64)};
  Catalogue catalogue_{.models = 5, .config = config_of, .fill = fill};
  weights::ResidencyOptions residency_;
  engine::EngineOptions engine_;
  StressPlan plan_;
  std::map<Question, Answer> known_;
};

TEST_F(SliceStressTest, EveryByteThatStepsReadIsRight) { run_checksums(); }

TEST_F(SliceStressTest, EveryByteThatStepsReadIsRightWhileCopiesFailAndHang) {
  plan_faults();
  run_checksums();
}

// One wrong byte of any weight changes the answer: the comparison can fail.
TEST_F(SliceStressTest, OneWrongByteChangesEveryToken) {
  const auto card = must(model::make_card(config_of(ModelId(1)), DType::kBF16, kib(16)), "a card");
  std::vector<std::byte> memory(to_size(card.layout.bytes));
  fill(memory, ModelId(1));
  const weights::PlacedWeights weights{&card.layout, memory.data()};
  const std::uint64_t sum = testing::checksum(weights);
  Random random(3);
  for (int i = 0; i < 100; ++i) {
    const auto& groups = card.layout.groups;
    const auto& group = groups[static_cast<std::size_t>(random.below(std::ssize(groups)))];
    std::byte& byte =
        memory[static_cast<std::size_t>(group.offset.count + random.below(group.bytes.count))];
    byte ^= std::byte{1};
    const std::uint64_t other = testing::checksum(weights);
    EXPECT_NE(other, sum);
    EXPECT_NE(testing::checksum_token(other, i), testing::checksum_token(sum, i));
    byte ^= std::byte{1};
  }
}

// Real models, to the bit of the log-probability, before and while copies fail.
TEST_F(SliceStressTest, AnswersAreThoseOfModelsThatAreAllCached) {
  HostSliceOptions options{.kv = mib(4), .kv_frame = kib(16)};
  options.engine = engine_;
  const auto machine = open_machine();
  expect_answers_of(options, *machine);
  plan_faults();
  options.cache = mib(3);
  options.residency = residency_;
  options.link_front = front();
  run(*must(open_host_slice(options, *machine, sink_), "the slice"));
}

// There are frames for one long request or two: a request that lags displaces one that does not.
TEST_F(SliceStressTest, AnswersAreTheSameWhileKvRotates) {
  HostSliceOptions options{.kv = mib(4), .kv_frame = kib(16)};
  options.engine = engine_;
  const auto machine = open_machine();
  plan_.prompts = {3, 110, 200};
  plan_.output_max = 40;
  expect_answers_of(options, *machine);
  options.kv = kib(16) * 24;
  options.engine.core.rotation.frames_share_max = 0.5;
  options.kv_host = {.bytes = mib(16)};
  options.cache = mib(3);
  options.residency = residency_;
  options.engine.core.schedule = {.policy = schedule::PolicyKind::kRotary,
                                  .preemption = schedule::PreemptionKind::kRotate,
                                  .rotation = {.lag = schedule::kLagOfPaper}};
  plan_.any_targets = true;
  const auto slice = must(open_host_slice(options, *machine, sink_), "the slice");
  // Requests of a round may miss each other on a machine that is busy with something else.
  request::Observation seen;
  for (int round = 0; round < 8 && seen.kv_copies.rotation_in == 0; ++round, ++plan_.seed) {
    run(*slice);
    seen = slice->engine().observe();
  }
  EXPECT_TRUE(seen.kv_copies.rotation_in > 0 || kSanitized);
  EXPECT_EQ(seen.kv_copies.failed, 0);
  EXPECT_EQ(seen.preemptions, 0);
  std::cout << seen.kv_copies.rotation_in << " blocks in, " << seen.kv_copies.rotation_out
            << " out, " << seen.kv_copies.eager_out << " early" << std::endl;
}

}  // namespace
}  // namespace causeway::slice::slice_stress_test
