// KV that turns between a GPU's frames and host memory at every step (testing/turning_executor.h):
// answers are to the bit those of a slice where nothing moves.
//
//   cuda_rotation_gpu_test [--seed S] [--rounds N]        exit status 77: no GPU
#include <cuda_runtime.h>

#include <cstdio>
#include <map>
#include <vector>

#include "base/random.h"
#include "base/testing/arguments.h"
#include "base/testing/must.h"
#include "slice/cuda_slice.h"
#include "slice/testing/bf16_models.h"
#include "slice/testing/turning_executor.h"

namespace causeway::slice {
namespace {

using testing::Answer;
using testing::AnswersSink;
using testing::Catalogue;
using testing::Crowd;
using testing::Question;
using testing::TurningExecutor;

constexpr std::int64_t kModels = 3;
constexpr Bytes kFrame = mib(4);
constexpr Bytes kKv = mib(512);  // 128 frames
constexpr std::int64_t kPrompts[] = {3, 200, 900};
constexpr std::int64_t kOutput = 12;

Catalogue catalogue() { return testing::bf16_catalogue(kModels, false); }

// One step in flight: the front has to see the end of a step before it copies what that wrote.
std::unique_ptr<Slice> open(Machine& machine, AnswersSink& sink, TurningExecutor::Seen* seen) {
  CudaSliceOptions options{.kv = kKv, .kv_frame = kFrame};
  options.engine.core.steps_in_flight_max = 1;
  options.engine.core.prefix_caching = false;
  options.engine.core.schedule = {.tokens_per_step_max = 512, .running_max = 16};
  if (seen != nullptr) {
    options.kv_host = {.bytes = kKv + kFrame, .late_max = seconds(20)};
    options.executor_front = [seen](engine::StepExecutor& inner) {
      return std::make_unique<TurningExecutor>(inner, TwinId(kKv / kFrame), *seen);
    };
  }
  const auto candidates = testing::candidates_of(catalogue());
  return must(open_cuda_slice(options, candidates, machine, sink), "the slice");
}

int run(std::uint64_t seed, std::int64_t rounds) {
  const RealClock clock;
  ModelHome home(clock, gib(16));
  const auto machine =
      must(Machine::open_gpus({.choice = LinkChoice::kOwn}, home, clock), "the machine");
  std::map<Question, Answer> expected;
  {
    AnswersSink sink;
    const auto slice = open(*machine, sink, nullptr);
    Crowd crowd(catalogue(), {home, clock, *slice});
    expected = crowd.all_answers(kPrompts, kOutput, sink);
  }
  TurningExecutor::Seen seen;
  AnswersSink sink;
  const auto slice = open(*machine, sink, &seen);
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
  const bool passed = wrong == 0 && failed == 0 && turned;
  std::printf("%s\n", passed ? "PASSED" : "FAILED");
  return passed ? 0 : 1;
}

}  // namespace
}  // namespace causeway::slice

int main(int argc, char** argv) {
  causeway::Arguments arguments(argc, argv);
  const auto seed = arguments.number<std::uint64_t>("--seed", 1);
  const auto rounds = arguments.number<std::int64_t>("--rounds", 24);
  arguments.finish();
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::printf("SKIPPED: no GPU\n");
    return 77;
  }
  return causeway::slice::run(seed, rounds);
}
