// Models on a GPU whose weights pass through rings, beside others that are cached: whatever runs
// together, and whatever copies fail or hang, every answer is that of models which are all cached,
// to the bit of its tokens' log-probabilities. Where there are two GPUs the weights also come from
// the other one's memory.
//
//   cuda_stream_gpu_test [--seed S] [--stress-seconds N] [--large 1]
//     --large 1  models of Llama-3.2-3B's shape instead of small ones
//
// Exit status 77: no GPU.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>

#include "base/testing/arguments.h"
#include "base/testing/must.h"
#include "slice/cuda_slice.h"
#include "slice/testing/bf16_models.h"
#include "slice/testing/disturbed_stress.h"

namespace causeway::slice {
namespace {

using testing::Answer;
using testing::AnswersSink;
using testing::Catalogue;
using testing::Crowd;
using testing::Question;
using transfer::testing::FaultPlan;
using transfer::testing::FaultyDevice;

constexpr std::int64_t kModels = 5;
constexpr std::int64_t kPrompts[] = {1, 17, 300};
constexpr std::int64_t kOutput = 12;
constexpr Bytes kFrame = mib(4);
constexpr Bytes kExtent = mib(32);

struct Memory {
  RealClock clock;
  ModelHome home{clock, gib(100)};
  std::unique_ptr<Machine> machine = open_machine(-1);

  std::unique_ptr<Machine> open_machine(int home_gpu) {
    return must(Machine::open_gpus({.choice = LinkChoice::kOwn, .home_gpu = home_gpu}, home, clock),
                "the machine");
  }
};

// Bytes of a model in whole extents.
Bytes whole(const Catalogue& catalogue, ModelId model) {
  const auto card = must(cuda_card(catalogue.config(model), kFrame), "a card");
  return round_up(card.layout.bytes, kExtent);
}

// Models with enough layers that a ring fits beside some resident ones.
Catalogue catalogue_of(bool large) {
  Catalogue catalogue = testing::bf16_catalogue(kModels, large);
  catalogue.config = [base = catalogue.config](ModelId model) {
    model::ModelConfig config = base(model);
    config.layers = std::max<std::int64_t>(config.layers, 12);
    return config;
  };
  return catalogue;
}

// Every second model is streamed, each with less of HBM than the one before; the others are cached.
Catalogue streamed_catalogue(bool large) {
  Catalogue catalogue = catalogue_of(large);
  catalogue.max_resident = [all = catalogue](ModelId model) {
    if (model.value % 2 != 0) return Bytes(0);
    const std::int64_t extents = whole(all, model) / kExtent;
    return kExtent * (extents * (8 - model.value) / 8 - 1);
  };
  return catalogue;
}

std::unique_ptr<Slice> open(Memory& memory, const Catalogue& catalogue, Bytes weights,
                            FaultPlan* faults, AnswersSink& sink) {
  CudaSliceOptions options{.kv = gib(1), .kv_frame = kFrame, .weights = weights};
  options.residency.quantum_min = millis(20);
  options.engine.core.prefix_caching = false;
  options.engine.core.schedule = {.tokens_per_step_max = 1024, .running_max = 16};
  if (faults != nullptr) {
    options.link_front = [faults](device::Device& device) {
      return std::make_unique<FaultyDevice>(device, *faults);
    };
  }
  return must(open_cuda_slice(options, testing::candidates_of(catalogue), *memory.machine, sink),
              "the slice");
}

// The answers to all questions when every model is cached.
std::map<Question, Answer> undisturbed(Memory& memory, const Catalogue& catalogue) {
  Bytes all;
  for (std::int64_t m = 0; m < kModels; ++m) all += whole(catalogue, ModelId(m));
  AnswersSink sink;
  const auto slice = open(memory, catalogue, all, nullptr, sink);
  Crowd crowd(catalogue, {memory.home, memory.clock, *slice});
  return crowd.all_answers(kPrompts, kOutput, sink);
}

// Each alone: what crosses the link is what a step streams, and every answer is the same.
long one_by_one(Memory& memory, const Catalogue& catalogue,
                const std::map<Question, Answer>& expected) {
  AnswersSink sink;
  const Bytes room = whole(catalogue, ModelId(1)) * 3;
  const auto slice = open(memory, catalogue, room, nullptr, sink);
  Crowd crowd(catalogue, {memory.home, memory.clock, *slice});
  long wrong = 0;
  for (const auto& [question, answer] : expected) {
    if (crowd.answer(question, kOutput, sink) == answer) continue;
    ++wrong;
    std::printf("  model %ld, prompt of %ld: another answer\n",
                static_cast<long>(question.model.value), static_cast<long>(question.prompt));
  }
  std::printf("%zu questions one by one, %.1f GB over the link, %ld wrong answers\n",
              expected.size(), static_cast<double>(slice->link_bytes().count) / 1e9, wrong);
  return wrong;
}

// With room for two of the five.
long stress(Memory& memory, const Catalogue& catalogue, const std::map<Question, Answer>& expected,
            std::uint64_t seed, Nanos length) {
  FaultPlan faults;
  testing::StressPlan plan = testing::disturbed_stress(seed, length, faults);
  plan.prompts = {std::begin(kPrompts), std::end(kPrompts)};
  plan.output_max = kOutput;
  plan.one_of_a_model = true;
  plan.expected = [&](const Question& question) { return expected.at(question); };
  AnswersSink sink;
  const auto slice = open(memory, catalogue, whole(catalogue, ModelId(1)) * 2, &faults, sink);
  const auto outcome =
      testing::run_stress(plan, catalogue, {memory.home, memory.clock, *slice}, sink);
  std::printf("stress: %s; %d copies failed or hung\n", testing::describe(outcome).c_str(),
              faults.happened());
  return outcome.wrong + (outcome.requests == 0 ? 1 : 0);
}

// The same with the memory of GPU 1 as the home.
long from_peer(Memory& memory, const Catalogue& catalogue,
               const std::map<Question, Answer>& expected) {
  memory.machine.reset();
  memory.machine = memory.open_machine(1);
  const long wrong = one_by_one(memory, catalogue, expected);
  memory.machine.reset();
  memory.machine = memory.open_machine(-1);
  return wrong;
}

int run(std::uint64_t seed, double stress_seconds, bool large, int gpus) {
  Memory memory;
  const auto expected = undisturbed(memory, catalogue_of(large));
  const Catalogue catalogue = streamed_catalogue(large);
  long wrong = one_by_one(memory, catalogue, expected);
  if (gpus > 1) wrong += from_peer(memory, catalogue, expected);
  if (stress_seconds > 0) {
    wrong += stress(memory, catalogue, expected, seed, nanos_from_seconds(stress_seconds));
  }
  std::printf("%s\n", wrong == 0 ? "PASSED" : "FAILED");
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace causeway::slice

int main(int argc, char** argv) {
  causeway::Arguments arguments(argc, argv);
  const auto seed = arguments.number<std::uint64_t>("--seed", 1);
  const auto stress_seconds = arguments.number<double>("--stress-seconds", 6);
  const bool large = arguments.number<int>("--large", 0) != 0;
  arguments.finish();
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::printf("SKIPPED: no GPU\n");
    return 77;
  }
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  return causeway::slice::run(seed, stress_seconds, large, count);
}
