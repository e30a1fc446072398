// A mixture of experts on a GPU that has slots for a quarter of them: whatever lies in a slot or is
// read at home, by whichever policy, alone or beside a model that decodes, every answer is that of
// the model which is cached whole, to the bit of its tokens' log-probabilities.
//
//   cuda_experts_gpu_test [--seed S] [--requests N]
//
// Exit status 77: no GPU.
#include <cuda_runtime.h>

#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/testing/arguments.h"
#include "base/testing/must.h"
#include "kernels/testing/random_bf16.h"
#include "model/random_model.h"
#include "slice/cuda_slice.h"
#include "slice/testing/stress.h"

namespace causeway::slice {
namespace {

using testing::Answer;
using testing::AnswersSink;
using testing::Catalogue;
using testing::Crowd;
using testing::Ended;
using testing::Question;
using weights::ExpertPolicy;

constexpr ModelId kSparse = ModelId(0);
constexpr ModelId kDense = ModelId(1);
constexpr std::int64_t kPrompts[] = {1, 5, 40, 300};  // each another way of the experts' kernels
constexpr std::int64_t kOutput = 24;
constexpr Bytes kExtent = mib(32);
constexpr Nanos kPatience = seconds(60);

model::ModelConfig config_of(ModelId model) {
  const bool sparse = model == kSparse;
  model::ModelConfig config =
      model::random_model_config(sparse ? model::Family::kQwen3Moe : model::Family::kLlama);
  config.layers = 8;
  config.hidden = 512;
  config.intermediate = 1024;
  config.heads = 8;
  config.kv_heads = 4;
  config.head_dim = 128;
  config.vocab = 16'000;
  config.tied_embeddings = false;
  // 24 MiB a layer: 192 MiB of experts beside 50 MiB.
  if (sparse) {
    config.moe->experts = 32;
    config.moe->experts_per_token = 4;
    config.moe->intermediate = 256;
  }
  return config;
}

Catalogue catalogue() {
  return {.models = 2,
          .max_model_len = Tokens(1024),
          .config = config_of,
          .fill = [](auto memory, ModelId model) {
            kernels::testing::fill_random_bf16(memory, 7 + static_cast<std::uint64_t>(model.value),
                                               0.05f);
          }};
}

struct Memory {
  RealClock clock;
  ModelHome home{clock, gib(4)};
  std::unique_ptr<Machine> machine =
      must(Machine::open_gpus({.choice = LinkChoice::kOwn}, home, clock), "the machine");
};

class Serving {
 public:
  // `resident`: of HBM for the sparse model; zero: all of it.
  Serving(Memory& memory, Bytes resident, ExpertPolicy policy) {
    std::vector<CudaCandidate> candidates;
    for (const ModelId model : {kSparse, kDense}) {
      candidates.push_back({.id = model,
                            .name = model == kSparse ? "sparse" : "dense",
                            .config = config_of(model),
                            .max_model_len = catalogue().max_model_len,
                            .max_resident = model == kSparse ? resident : Bytes(0)});
    }
    CudaSliceOptions options{.kv = gib(1), .kv_frame = mib(4)};
    options.experts = policy;
    options.engine.core.prefix_caching = false;
    options.engine.core.schedule = {.tokens_per_step_max = 1024, .running_max = 16};
    slice_ = must(open_cuda_slice(options, candidates, *memory.machine, sink_), "the slice");
    crowd_ = std::make_unique<Crowd>(catalogue(), Crowd::Parts{memory.home, memory.clock, *slice_});
  }

  Answer answer(const Question& question) { return crowd_->answer(question, kOutput, sink_); }
  // While the other model decodes.
  Answer answer_beside(const Question& question, const Question& other) {
    const RequestId beside = crowd_->ask(other, 4 * kOutput);
    const RequestId asked = crowd_->ask(question, kOutput);
    Answer answer;
    for (int i = 0; i < 2; ++i) {
      const auto ended = sink_.take(kPatience);
      must(ended && ended->error.empty() ? Status() : Status(unavailable("no answer")), "two");
      if (ended->request == asked) answer = ended->answer;
    }
    (void)beside;
    return answer;
  }
  request::Observation seen() const { return slice_->engine().observe(); }
  Bytes crossed() const { return slice_->link_bytes(); }

 private:
  AnswersSink sink_;
  std::unique_ptr<Slice> slice_;
  std::unique_ptr<Crowd> crowd_;
};

using Answers = std::map<std::int64_t, Answer>;  // by prompt

long check_policy(Memory& memory, const Answers& expected, const char* name, ExpertPolicy policy,
                  Random& random, std::int64_t requests) {
  Serving serving(memory, kExtent * 4, policy);
  long wrong = 0;
  for (std::int64_t i = 0; i < requests; ++i) {
    const std::int64_t prompt =
        kPrompts[static_cast<std::size_t>(random.below(std::size(kPrompts)))];
    const Question question{kSparse, prompt};
    const Answer answer = random.chance(0.5) ? serving.answer(question)
                                             : serving.answer_beside(question, {kDense, 17});
    if (answer == expected.at(prompt)) continue;
    if (++wrong <= 5)
      std::printf("  %s: prompt of %ld: another answer\n", name, static_cast<long>(prompt));
  }
  const request::Observation seen = serving.seen();
  const bool one_by_one = policy != ExpertPolicy::kWhole;
  const bool moved = (seen.expert_hits > 0 && seen.expert_misses > 0) == one_by_one;
  if (!moved) std::printf("  %s: experts were not where they should be\n", name);
  std::printf("%s: %ld requests, %ld experts in HBM, %ld at home, %.2f GB copied, %ld wrong\n",
              name, static_cast<long>(requests), static_cast<long>(seen.expert_hits),
              static_cast<long>(seen.expert_misses),
              static_cast<double>(serving.crossed().count) / 1e9, wrong);
  return wrong + (moved ? 0 : 1);
}

int run(std::uint64_t seed, std::int64_t requests) {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) return 77;
  std::printf("seed %lu\n", static_cast<unsigned long>(seed));
  Random random(seed);
  Memory memory;
  Answers expected;
  {
    Serving whole(memory, Bytes(0), ExpertPolicy::kWhole);
    for (const std::int64_t prompt : kPrompts) expected[prompt] = whole.answer({kSparse, prompt});
  }
  long wrong = 0;
  wrong += check_policy(memory, expected, "frequency", ExpertPolicy::kFrequency, random, requests);
  wrong += check_policy(memory, expected, "lru", ExpertPolicy::kLru, random, requests);
  wrong +=
      check_policy(memory, expected, "activation", ExpertPolicy::kActivation, random, requests);
  wrong += check_policy(memory, expected, "map", ExpertPolicy::kMap, random, requests);
  wrong += check_policy(memory, expected, "whole layers", ExpertPolicy::kWhole, random, requests);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace causeway::slice

int main(int argc, char** argv) {
  causeway::Arguments arguments(argc, argv);
  const auto seed = arguments.number("--seed", std::uint64_t{20260101});
  const auto requests = arguments.number("--requests", std::int64_t{24});
  arguments.finish();
  return causeway::slice::run(seed, requests);
}
