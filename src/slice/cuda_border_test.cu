// The border between KV and cached weights on a GPU: requests that are longer than KV has room for
// push it, models that want their room back push it back, and answers stay those of models which
// are all cached beside room for every request.
//
//   cuda_border_gpu_test [--seed S] [--rounds N]
//
// It sets how much memory may be taken, so nothing else may take the GPU's meanwhile.
// Exit status 77: no GPU.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/testing/arguments.h"
#include "base/testing/must.h"
#include "slice/cuda_slice.h"
#include "slice/testing/bf16_models.h"

namespace causeway::slice {
namespace {

using testing::Answer;
using testing::AnswersSink;
using testing::Catalogue;
using testing::Crowd;
using testing::Ended;
using testing::Question;

constexpr std::int64_t kModels = 5;
constexpr Bytes kFrame = mib(4);
constexpr std::int64_t kLong = 8'000;  // tokens: 192 MiB of KV
constexpr std::int64_t kPrompts[] = {3, 700, kLong};
constexpr std::int64_t kOutput = 12;
constexpr std::int64_t kTogether = 4;
// 768 MiB for weights and KV, and what is set aside for driver and workspace.
constexpr Bytes kBudget = mib(1344);
constexpr Nanos kPatience = seconds(60);
// What another way to cut a prompt into steps changes in bf16, in units of log-probability.
constexpr float kRounding = 0.1f;

Catalogue catalogue() { return testing::bf16_catalogue(kModels, false, Tokens(8192)); }

struct Memory {
  RealClock clock;
  ModelHome home{clock, gib(16)};
  std::unique_ptr<Machine> machine =
      must(Machine::open_gpus({.choice = LinkChoice::kOwn}, home, clock), "the machine");
};

CudaSliceOptions options_of(double utilization) {
  CudaSliceOptions options{.memory_utilization = utilization, .kv_frame = kFrame};
  options.residency.quantum_min = millis(20);
  options.engine.core.prefix_caching = false;
  options.engine.core.schedule = {.tokens_per_step_max = 1024, .running_max = 16};
  return options;
}

Result<std::unique_ptr<Slice>> open(Memory& memory, const CudaSliceOptions& options,
                                    AnswersSink& sink) {
  const auto candidates = testing::candidates_of(catalogue());
  return open_cuda_slice(options, candidates, *memory.machine, sink);
}

// With room for three of the models, and for less KV than a long request needs.
std::unique_ptr<Slice> open_scarce(Memory& memory, AnswersSink& sink) {
  std::size_t free = 0, total = 0;
  must(cudaMemGetInfo(&free, &total) == cudaSuccess ? Status() : Status(unavailable("no memory")),
       "the GPU's memory");
  const auto taken = static_cast<double>(total - free) + static_cast<double>(kBudget.count);
  return must(open(memory, options_of(taken / static_cast<double>(total)), sink), "the slice");
}

std::map<Question, Answer> undisturbed(Memory& memory) {
  CudaSliceOptions options = options_of(0.9);
  options.kv = gib(4);
  AnswersSink sink;
  const auto slice = must(open(memory, options, sink), "the slice");
  Crowd crowd(catalogue(), {memory.home, memory.clock, *slice});
  return crowd.all_answers(kPrompts, kOutput, sink);
}

class Check {
 public:
  explicit Check(const std::map<Question, Answer>& expected) : expected_(expected) {}

  void same(const Question& question, const Answer& answer) {
    if (answer != expected_.at(question)) wrong(question, "another answer");
  }
  // One that had to wait again is computed anew in other steps: equal but for rounding, until a
  // token differs because two were as likely.
  void near(const Question& question, const Ended& ended) {
    if (!ended.error.empty()) return wrong(question, ended.error.c_str());
    const Answer& expected = expected_.at(question);
    if (ended.answer.size() != expected.size()) return wrong(question, "another length");
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (std::abs(ended.answer[i].second - expected[i].second) > kRounding) {
        return wrong(question, "another probability");
      }
      if (ended.answer[i].first != expected[i].first) return;
    }
  }
  void wrong(const Question& question, const char* what) {
    ++wrong_;
    std::printf("  model %ld, prompt of %ld: %s\n", static_cast<long>(question.model.value),
                static_cast<long>(question.prompt), what);
  }
  long count() const { return wrong_; }

 private:
  const std::map<Question, Answer>& expected_;
  long wrong_ = 0;
};

struct Frames {
  std::int64_t least = INT64_MAX;
  std::int64_t most = 0;
  long moves = 0;

  void look(Slice& slice) {
    const std::int64_t now = slice.engine().observe().frames_total;
    if (seen_ != 0 && now != seen_) ++moves;
    seen_ = now;
    least = std::min(least, now);
    most = std::max(most, now);
  }

 private:
  std::int64_t seen_ = 0;
};

// Several models' requests at once, of any length: steps run while the border moves.
void ask_together(Crowd& crowd, AnswersSink& sink, Random& random, Check& check, Frames& frames) {
  std::map<RequestId, Question> asked;
  const std::int64_t first = random.below(kModels);
  for (std::int64_t i = 0; i < kTogether; ++i) {
    const auto prompt = kPrompts[static_cast<std::size_t>(random.below(std::size(kPrompts)))];
    const Question question{ModelId((first + i) % kModels), prompt};
    asked.emplace(crowd.ask(question, kOutput), question);
  }
  while (!asked.empty()) {
    const auto ended = sink.take(kPatience);
    must(ended ? Status() : Status(unavailable("a request does not end")), "an answer");
    check.near(asked.at(ended->request), *ended);
    asked.erase(ended->request);
    frames.look(crowd.slice());
  }
}

int run(std::uint64_t seed, std::int64_t rounds) {
  Memory memory;
  const auto expected = undisturbed(memory);
  Check check(expected);
  AnswersSink sink;
  const auto slice = open_scarce(memory, sink);
  Frames frames;
  {
    Crowd crowd(catalogue(), {memory.home, memory.clock, *slice});
    Random random(seed);
    for (std::int64_t round = 0; round < rounds; ++round) {
      for (const std::int64_t prompt : kPrompts) {
        const Question question{ModelId(random.below(kModels)), prompt};
        check.same(question, crowd.answer(question, kOutput, sink));
        frames.look(*slice);
      }
      ask_together(crowd, sink, random, check, frames);
    }
  }
  std::printf("seed %llu: KV had %ld to %ld frames of %ld MiB, %ld moves seen, %ld wrong answers\n",
              static_cast<unsigned long long>(seed), static_cast<long>(frames.least),
              static_cast<long>(frames.most), static_cast<long>(kFrame.count >> 20), frames.moves,
              check.count());
  const bool moved = frames.moves > 0 && frames.most > frames.least;
  if (!moved) std::printf("  the border never moved\n");
  std::printf("%s\n", check.count() == 0 && moved ? "PASSED" : "FAILED");
  return check.count() == 0 && moved ? 0 : 1;
}

}  // namespace
}  // namespace causeway::slice

int main(int argc, char** argv) {
  causeway::Arguments arguments(argc, argv);
  const auto seed = arguments.number<std::uint64_t>("--seed", 1);
  const auto rounds = arguments.number<std::int64_t>("--rounds", 12);
  arguments.finish();
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::printf("SKIPPED: no GPU\n");
    return 77;
  }
  return causeway::slice::run(seed, rounds);
}
