// KV that rotates between a GPU's frames and host memory: answers are to the bit those of a slice
// where nothing moves. First at every step (testing/rotating_executor.h), one request after the
// other; then as the engine rotates, for more requests than the frames hold.
//
//   cuda_rotation_gpu_test [--seed S] [--rounds N] [--stress-seconds N]
//
// Exit status 77: no GPU.
#include <cuda_runtime.h>

#include <cstdio>
#include <map>
#include <vector>

#include "base/random.h"
#include "base/testing/arguments.h"
#include "base/testing/must.h"
#include "slice/cuda_slice.h"
#include "slice/testing/bf16_models.h"
#include "slice/testing/rotating_executor.h"
#include "slice/testing/stress.h"

namespace causeway::slice {
namespace {

using testing::Answer;
using testing::AnswersSink;
using testing::Catalogue;
using testing::Crowd;
using testing::Question;
using testing::RotatingExecutor;

constexpr std::int64_t kModels = 3;
constexpr Bytes kFrame = mib(4);
constexpr Bytes kKv = mib(512);  // 128 frames
constexpr std::int64_t kPrompts[] = {3, 200, 900};
constexpr std::int64_t kOutput = 12;
constexpr std::int64_t kStressModels = 6;
constexpr std::int64_t kStressOutput = 60;
constexpr Bytes kStressFrame = mib(1);
constexpr Bytes kStressKv = mib(40);
constexpr std::int64_t kStressPrompts[] = {3, 500, 900};

Catalogue catalogue() { return testing::bf16_catalogue(kModels, false); }

// One step in flight: the front has to see the end of a step before it copies what that wrote.
std::unique_ptr<Slice> open(Machine& machine, AnswersSink& sink, RotatingExecutor::Seen* seen) {
  CudaSliceOptions options{.kv = kKv, .kv_frame = kFrame};
  options.engine.core.steps_in_flight_max = 1;
  options.engine.core.prefix_caching = false;
  options.engine.core.schedule = {.tokens_per_step_max = 512, .running_max = 16};
  if (seen != nullptr) {
    options.kv_host = {.bytes = kKv + kFrame, .late_max = seconds(20)};
    options.executor_front = [seen](engine::StepExecutor& inner) {
      return std::make_unique<RotatingExecutor>(inner, TwinId(kKv / kFrame), *seen);
    };
  }
  const auto candidates = testing::candidates_of(catalogue());
  return must(open_cuda_slice(options, candidates, machine, sink), "the slice");
}

// As a worker has it: two steps in flight, largest lag first, most twins come while it serves. Its
// frames hold a long sequence and a half, a victim always finds a twin, and a request that lags
// displaces one that does not.
std::unique_ptr<Slice> open_rotating(Machine& machine, const Catalogue& models, Bytes kv,
                                     AnswersSink& sink) {
  CudaSliceOptions options{
      .kv = kv, .kv_frame = kStressFrame, .kv_host = {.bytes = gib(1), .ahead = mib(256)}};
  options.engine.core.prefix_caching = false;
  options.engine.core.rotation.frames_share_max = 0.5;
  options.engine.core.schedule = {.policy = schedule::PolicyKind::kRotary,
                                  .preemption = schedule::PreemptionKind::kRotate,
                                  .tokens_per_step_max = 1024,
                                  .running_max = 16,
                                  .rotation = {.lag = schedule::kLagOfPaper}};
  return must(open_cuda_slice(options, testing::candidates_of(models), machine, sink), "the slice");
}

// One request of a model at a time: its batches are the same whatever goes on, and so are its bits.
bool stress(Machine& machine, ModelHome& home, const Clock& clock, std::uint64_t seed,
            Nanos length) {
  const Catalogue models = testing::bf16_catalogue(kStressModels, false);
  std::map<Question, Answer> expected;
  {
    AnswersSink sink;
    const auto slice = open_rotating(machine, models, gib(1), sink);
    Crowd crowd(models, {home, clock, *slice});
    expected = crowd.all_answers(kStressPrompts, kStressOutput, sink);
  }
  testing::StressPlan plan{.seed = seed,
                           .length = length,
                           .prompts = {std::begin(kStressPrompts), std::end(kStressPrompts)},
                           .output_max = kStressOutput,
                           .one_of_a_model = true,
                           .any_targets = true};
  plan.expected = [&](const Question& question) { return expected.at(question); };
  AnswersSink sink;
  const auto slice = open_rotating(machine, models, kStressKv, sink);
  const auto outcome = testing::run_stress(plan, models, {home, clock, *slice}, sink);
  const request::Observation seen = slice->engine().observe();
  std::printf("stress: %s; %ld blocks out, %ld early, %ld in, %ld recomputed\n",
              testing::describe(outcome).c_str(), static_cast<long>(seen.kv_copies.rotation_out),
              static_cast<long>(seen.kv_copies.eager_out),
              static_cast<long>(seen.kv_copies.rotation_in), static_cast<long>(seen.preemptions));
  return outcome.wrong == 0 && outcome.failed == 0 && seen.kv_copies.rotation_in > 0 &&
         seen.kv_copies.failed == 0 && seen.preemptions == 0;
}

// At every step.
bool turning(Machine& machine, ModelHome& home, const Clock& clock, std::uint64_t seed,
             std::int64_t rounds) {
  std::map<Question, Answer> expected;
  {
    AnswersSink sink;
    const auto slice = open(machine, sink, nullptr);
    Crowd crowd(catalogue(), {home, clock, *slice});
    expected = crowd.all_answers(kPrompts, kOutput, sink);
  }
  RotatingExecutor::Seen seen;
  AnswersSink sink;
  const auto slice = open(machine, sink, &seen);
  long wrong = 0;
  {
    Crowd crowd(catalogue(), {home, clock, *slice});
    Random random(seed);
    for (std::int64_t round = 0; round < rounds; ++round) {
      const Question question{
          ModelId(random.below(kModels)),
          kPrompts[static_cast<std::size_t>(random.below(std::size(kPrompts)))]};
      const bool same = crowd.answer(question, kOutput, sink) == expected.at(question);
      if (same) continue;
      ++wrong;
      std::printf("  model %ld, prompt of %ld: another answer\n",
                  static_cast<long>(question.model.value), static_cast<long>(question.prompt));
    }
  }
  const bool turned = seen.out > 0 && seen.in == 2 * seen.out;
  const long failed = static_cast<long>(seen.failed + seen.given_up);
  std::printf("seed %llu: %ld blocks out, %ld in, %ld copies failed, %ld wrong answers\n",
              static_cast<unsigned long long>(seed), static_cast<long>(seen.out),
              static_cast<long>(seen.in), failed, wrong);
  return wrong == 0 && failed == 0 && turned;
}

int run(std::uint64_t seed, std::int64_t rounds, Nanos length) {
  const RealClock clock;
  ModelHome home(clock, gib(16));
  const auto machine =
      must(Machine::open_gpus({.choice = LinkChoice::kOwn}, home, clock), "the machine");
  must(warm_up_cuda(*machine, 0), "warming up");
  const bool turned = turning(*machine, home, clock, seed, rounds);
  const bool stressed = stress(*machine, home, clock, seed, length);
  const bool passed = turned && stressed;
  std::printf("%s\n", passed ? "PASSED" : "FAILED");
  return passed ? 0 : 1;
}

}  // namespace
}  // namespace causeway::slice

int main(int argc, char** argv) {
  causeway::Arguments arguments(argc, argv);
  const auto seed = arguments.number<std::uint64_t>("--seed", 1);
  const auto rounds = arguments.number<std::int64_t>("--rounds", 24);
  const auto length = arguments.number<double>("--stress-seconds", 8);
  arguments.finish();
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::printf("SKIPPED: no GPU\n");
    return 77;
  }
  return causeway::slice::run(seed, rounds, causeway::nanos_from_seconds(length));
}
