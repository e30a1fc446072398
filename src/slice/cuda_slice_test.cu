// A slice of a GPU that caches fewer models than it serves: whatever models take turns, whatever
// fails, every answer is that of models which are all cached, to the bit of its tokens'
// log-probabilities. Where there are several GPUs the weights come over the links of all.
//
//   cuda_slice_gpu_test [--seed S] [--switches N] [--together N] [--large 1] [--faults N]
//                       [--stress-seconds N]
//     --switches        requests of random models, one after the other
//     --together        requests of random models, four at a time
//     --large 1         five models of Llama-3.2-3B's shape instead of small ones, for these two
//     --faults          rounds of copies that fail once, fail for good, and hang for 2 s
//     --stress-seconds  everything at random at once, half of the time with real models, and half
//                       with ones that answer with a checksum of every byte that their steps read
//                       (testing/checksum_slice.h): arithmetic may round a wrong byte away
//
// Exit status 77: no GPU.
#include <cuda_runtime.h>

#include <cstdio>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/testing/arguments.h"
#include "base/testing/must.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_machine.h"
#include "device/cuda/cuda_pinned.h"
#include "slice/cuda_slice.h"
#include "slice/testing/bf16_models.h"
#include "slice/testing/checksum_slice.h"
#include "slice/testing/disturbed_stress.h"
#include "slice/testing/stress.h"
#include "slice/testing/sum_words.cuh"
#include "transfer/testing/faulty_device.h"

namespace causeway::slice {
namespace {

using testing::Answer;
using testing::AnswersSink;
using testing::Catalogue;
using testing::Crowd;
using testing::Ended;
using testing::Question;
using transfer::testing::FaultPlan;
using transfer::testing::FaultyDevice;
using Answers = std::map<Question, Answer>;

constexpr std::int64_t kModels = 5;
constexpr std::int64_t kPrompts[] = {1, 17, 300};
constexpr std::int64_t kOutput = 12;
constexpr std::int64_t kTogether = 4;
constexpr Nanos kPatience = seconds(60);
constexpr Nanos kHang = seconds(2);
constexpr int kEver = 1'000'000;

Catalogue catalogue_of(bool large) { return testing::bf16_catalogue(kModels, large); }

struct Memory {
  RealClock clock;
  ModelHome home{clock, gib(100)};
  // The slice's own link, and all.
  std::unique_ptr<Machine> own =
      must(Machine::open_gpus({.choice = LinkChoice::kOwn}, home, clock), "the machine");
  std::unique_ptr<Machine> all =
      must(Machine::open_gpus({.choice = LinkChoice::kAll}, home, clock), "the machine");
};

// A slice with room for `cached` of the models, and all of them.
class Serving {
 public:
  Serving(Memory& memory, bool large, std::int64_t cached, FaultPlan* faults = nullptr,
          Nanos quantum = millis(100)) {
    open(memory, large, cached, faults, quantum);
    crowd_ = std::make_unique<Crowd>(catalogue_of(large),
                                     Crowd::Parts{memory.home, memory.clock, *slice_});
  }
  // The slice alone.
  static std::unique_ptr<Slice> open_slice(Memory& memory, bool large, std::int64_t cached,
                                           FaultPlan* faults, Nanos quantum, AnswersSink& sink) {
    const Catalogue catalogue = catalogue_of(large);
    const auto candidates = testing::candidates_of(catalogue);
    const auto card =
        must(model::make_card(catalogue.config(ModelId(1)), DType::kBF16, mib(4)), "a card");
    CudaSliceOptions options{.kv = gib(1), .kv_frame = mib(4)};
    options.weights = round_up(card.layout.bytes, mib(32)) * cached;
    options.residency.quantum_min = quantum;
    options.residency.optional_after = {};
    options.engine.core.prefix_caching = false;
    options.engine.core.schedule = {.tokens_per_step_max = 1024, .running_max = 16};
    if (faults != nullptr) {
      options.link_front = [faults](device::Device& device) {
        return std::make_unique<FaultyDevice>(device, *faults);
      };
    }
    Machine& machine = cached < kModels ? *memory.all : *memory.own;
    return must(open_cuda_slice(options, candidates, machine, sink), "the slice");
  }

  RequestId ask(const Question& question, std::int64_t output = kOutput) {
    return crowd_->ask(question, output);
  }
  Ended end_of(const Question& question, std::int64_t output = kOutput) {
    return crowd_->end_of(question, output, sink_);
  }
  Answers all_answers() { return crowd_->all_answers(kPrompts, kOutput, sink_); }
  Ended next() {
    auto ended = sink_.take(kPatience);
    must(ended ? Status() : Status(unavailable("a request does not end")), "an answer");
    return *ended;
  }
  Slice& slice() { return *slice_; }

 private:
  void open(Memory& memory, bool large, std::int64_t cached, FaultPlan* faults, Nanos quantum) {
    slice_ = open_slice(memory, large, cached, faults, quantum, sink_);
  }

  AnswersSink sink_;
  std::unique_ptr<Slice> slice_;
  std::unique_ptr<Crowd> crowd_;
};

Question any_question(Random& random) {
  return {ModelId(random.below(kModels)),
          kPrompts[static_cast<std::size_t>(random.below(std::size(kPrompts)))]};
}

// The answers to all questions when every model is cached.
Answers undisturbed(Memory& memory, bool large) {
  Serving serving(memory, large, kModels);
  return serving.all_answers();
}

struct Plan {
  std::uint64_t seed = 1;
  std::int64_t switches = 60;
  std::int64_t together = 60;
  bool large = false;
  std::int64_t faults = 2;
  double stress_seconds = 6;
};

class Check {
 public:
  explicit Check(const Answers& expected) : expected_(expected) {}
  // A request that ends with an error is told with its reason, not as another answer.
  void same(const Question& question, const Ended& ended, const char* when) {
    if (!ended.error.empty()) return expect(false, ended.error.c_str(), question, when);
    expect(ended.answer == expected_.at(question), "another answer", question, when);
  }
  void expect(bool good, const char* what, const Question& question, const char* when) {
    if (good) return;
    if (++wrong_ > 5) return;
    std::printf("  %s: model %ld, prompt of %ld: %s\n", when,
                static_cast<long>(question.model.value), static_cast<long>(question.prompt), what);
  }
  long wrong() const { return wrong_; }

 private:
  const Answers& expected_;
  long wrong_ = 0;
};

long take_turns(Memory& memory, const Plan& plan) {
  const Answers expected = undisturbed(memory, plan.large);
  Check check(expected);
  Serving serving(memory, plan.large, 2);
  Random random(plan.seed);
  for (std::int64_t i = 0; i < plan.switches; ++i) {
    const Question question = any_question(random);
    check.same(question, serving.end_of(question), "one after the other");
  }
  std::map<RequestId, Question> waited;
  std::set<ModelId> busy;
  for (std::int64_t i = 0; i < plan.together || !waited.empty();) {
    while (i < plan.together && std::ssize(waited) < kTogether) {
      const Question question = any_question(random);
      if (!busy.insert(question.model).second) continue;  // one of a model: batches are the same
      waited.emplace(serving.ask(question), question);
      ++i;
    }
    const Ended ended = serving.next();
    const Question question = waited.at(ended.request);
    check.same(question, ended, "together");
    waited.erase(ended.request);
    busy.erase(question.model);
  }
  std::printf("%ld switches, %ld requests together, %.1f GB over %d links, %ld wrong answers\n",
              static_cast<long>(plan.switches), static_cast<long>(plan.together),
              static_cast<double>(serving.slice().link_bytes().count) / 1e9,
              serving.slice().links()->links, check.wrong());
  return check.wrong();
}

// One model's copies go wrong while another, which is cached, answers a long request.
class Faults {
 public:
  Faults(Memory& memory, const Plan& plan, const Answers& expected)
      : check_(expected), random_(plan.seed), serving_(memory, false, 2, &faults_) {}

  long run(std::int64_t rounds) {
    for (std::int64_t i = 0; i < rounds; ++i) {
      for (int skip = 0; skip < kGroups; ++skip) {
        fails_once(skip);
        fails_for_good(skip);
      }
      hangs(static_cast<int>(random_.below(kGroups)));
    }
    std::printf("%d copies failed or hung, %ld requests ended with the reason, %ld wrong\n",
                faults_.happened(), errors_, check_.wrong());
    return check_.wrong() + (errors_ == 0 ? 1 : 0);
  }

 private:
  static constexpr int kGroups = 7;  // that copies bring, at the least

  // A model that is not cached: the two that are were asked after it.
  Question bring_others(Question& other) {
    const std::int64_t first = random_.below(kModels);
    const auto prompt = [&] {
      return kPrompts[static_cast<std::size_t>(random_.below(std::size(kPrompts)))];
    };
    for (std::int64_t next = 1; next <= 2; ++next) {
      other = {ModelId((first + next) % kModels), prompt()};
      check_.same(other, serving_.end_of(other), "before a fault");
    }
    return {ModelId(first), prompt()};
  }
  // The model is usable again, and the other was not disturbed.
  void end(const Question& question, const Question& other, const char* when) {
    faults_.next(FaultPlan::Kind::kNone, 0);
    check_.same(question, serving_.end_of(question), when);
    check_.same(other, serving_.end_of(other), when);
  }

  // It ends with the reason, or, when the copies came after all, with the answer.
  void end_after_fault(const Question& question, const Ended& ended, const char* when) {
    if (ended.error.empty()) return check_.same(question, ended, when);
    ++errors_;
    const bool told = ended.error.find("could not be brought") != std::string::npos;
    check_.expect(told, ended.error.c_str(), question, when);
  }
  void fails_once(int skip) {
    Question other;
    const Question question = bring_others(other);
    faults_.next(FaultPlan::Kind::kFail, 1, skip);
    serving_.ask(question);
    end_after_fault(question, serving_.next(), "a copy failed once");
    end(question, other, "after a copy that failed once");
  }
  void fails_for_good(int skip) {
    Question other;
    const Question question = bring_others(other);
    faults_.next(FaultPlan::Kind::kFail, kEver, skip);
    const RequestId beside = serving_.ask(other);
    serving_.ask(question);
    for (int i = 0; i < 2; ++i) {
      const Ended ended = serving_.next();
      if (ended.request == beside) {
        check_.same(other, ended, "beside copies that fail");
      } else {
        end_after_fault(question, ended, "copies that fail");
      }
    }
    end(question, other, "after copies that failed");
  }
  // For longer than a chunk may take.
  void hangs(int skip) {
    Question other;
    const Question question = bring_others(other);
    faults_.reopen();
    faults_.next(FaultPlan::Kind::kHang, 1, skip);
    std::thread releaser([this] { faults_.release_after(kHang); });
    serving_.ask(question);
    const RequestId beside = serving_.ask(other);
    for (int i = 0; i < 2; ++i) {
      const Ended ended = serving_.next();
      check_.same(ended.request == beside ? other : question, ended, "a copy that hangs");
    }
    releaser.join();
    end(question, other, "after a copy that hung");
  }

  Check check_;
  Random random_;
  FaultPlan faults_;
  long errors_ = 0;
  Serving serving_;
};

// --- Stress -----------------------------------------------------------------------------------

class CudaSummer final : public testing::WeightSummer {
 public:
  explicit CudaSummer(device::Device& device) : device_(device) {}

  Result<std::uint64_t*> reserve(std::int64_t count) override {
    CAUSEWAY_ASSIGN(sums_, device::CudaPinned::make(device_, "sums", Bytes(count * 8)));
    // The kernel is loaded now: later its first launch would wait for streams that wait.
    CAUSEWAY_ASSIGN(const auto stream, device_.make_stream("first sum"));
    CAUSEWAY_TRY(enqueue(*stream, {sums_.data(), 8}, sums()));
    CAUSEWAY_TRY(stream->synchronize(kPatience));
    return sums();
  }
  Status enqueue(device::Stream& stream, std::span<const std::byte> data,
                 std::uint64_t* parts) override {
    return device::cuda_enqueue(stream, [data, parts](CUstream_st* cuda) -> Status {
      testing::sum_words(cuda, data, std::span(parts, kParts));
      if (cudaGetLastError() == cudaSuccess) return {};
      return Error{ErrorCode::kDevice, "the sum cannot be launched"};
    });
  }

 private:
  std::uint64_t* sums() const { return reinterpret_cast<std::uint64_t*>(sums_.data()); }

  device::Device& device_;
  device::CudaPinned sums_;
};

testing::StressPlan stress_plan(const Plan& plan, FaultPlan& faults) {
  testing::StressPlan stress =
      testing::disturbed_stress(plan.seed, nanos_from_seconds(plan.stress_seconds / 2), faults);
  stress.prompts = {std::begin(kPrompts), std::end(kPrompts)};
  stress.output_max = kOutput;
  return stress;
}

long report(const char* what, const testing::StressOutcome& outcome) {
  std::printf("stress, %s: %s\n", what, testing::describe(outcome).c_str());
  std::fflush(stdout);
  return outcome.wrong + (outcome.switches == 0 ? 1 : 0);
}

long stress_real(Memory& memory, const Plan& plan, const Answers& expected) {
  FaultPlan faults;
  testing::StressPlan stress = stress_plan(plan, faults);
  stress.one_of_a_model = true;
  stress.expected = [&](const Question& question) { return expected.at(question); };
  AnswersSink sink;
  const auto slice = Serving::open_slice(memory, false, 2, &faults, millis(10), sink);
  return report("real models", testing::run_stress(stress, catalogue_of(false),
                                                   {memory.home, memory.clock, *slice}, sink));
}

long stress_sums(Memory& memory, const Plan& plan) {
  FaultPlan faults;
  const Catalogue catalogue = catalogue_of(false);
  std::map<ModelId, std::uint64_t> sums;
  Bytes largest;
  for (std::int64_t m = 0; m < kModels; ++m) {
    const ModelId model(m);
    const auto card =
        must(model::make_card(catalogue.config(model), DType::kBF16, mib(4)), "a card");
    std::vector<std::byte> bytes(to_size(card.layout.bytes));
    catalogue.fill(bytes, model);
    sums[model] = testing::checksum(weights::PlacedWeights{&card.layout, bytes.data()});
    largest = std::max(largest, card.layout.bytes);
  }
  testing::StressPlan stress = stress_plan(plan, faults);
  stress.expected = [&](const Question& question) {
    Answer answer;
    for (std::int64_t i = 0; i < kOutput; ++i) {
      const std::uint64_t sum = sums.at(question.model);
      answer.emplace_back(testing::checksum_token(sum, question.prompt + i), 0.0f);
    }
    return answer;
  };
  const auto device = must(memory.own->open({.name = "sums", .arena_bytes = gib(512)}), "the GPU");
  CudaSummer summer(*device);
  AnswersSink sink;
  testing::ChecksumSliceOptions options{
      .cache = round_up(largest, device->capabilities().extent_bytes) * 2,
      .kv_frame = mib(4),
      .read_bytes_per_second = 2e12};
  options.residency.quantum_min = millis(5);
  options.residency.optional_after = {};
  options.residency.quantum_factor = 1;
  options.engine.core.prefix_caching = false;
  options.engine.core.step_start =
      plan.seed % 2 == 0 ? engine::StepStart::kAtOnce : engine::StepStart::kJustInTime;
  options.link_front = [&faults](device::Device& inner) {
    return std::make_unique<FaultyDevice>(inner, faults);
  };
  const auto slice = must(
      testing::open_checksum_slice(options, {*memory.own, *device, summer, sink}), "the slice");
  return report("checksums",
                testing::run_stress(stress, catalogue, {memory.home, memory.clock, *slice}, sink));
}

int run(const Plan& plan) {
  Memory memory;
  long wrong = take_turns(memory, plan);
  if (plan.faults > 0 || plan.stress_seconds > 0) {
    const Answers expected = undisturbed(memory, false);
    if (plan.faults > 0) wrong += Faults(memory, plan, expected).run(plan.faults);
    if (plan.stress_seconds > 0) wrong += stress_real(memory, plan, expected);
  }
  if (plan.stress_seconds > 0) wrong += stress_sums(memory, plan);
  memory.own.reset();
  memory.all.reset();
  const bool left = memory.home.memory.total_bytes() > Bytes(0);
  if (left) std::printf("  host memory is left behind\n");
  std::printf("%s\n", wrong == 0 && !left ? "PASSED" : "FAILED");
  return wrong == 0 && !left ? 0 : 1;
}

}  // namespace
}  // namespace causeway::slice

int main(int argc, char** argv) {
  causeway::Arguments arguments(argc, argv);
  causeway::slice::Plan plan;
  plan.seed = arguments.number<std::uint64_t>("--seed", plan.seed);
  plan.switches = arguments.number<std::int64_t>("--switches", plan.switches);
  plan.together = arguments.number<std::int64_t>("--together", plan.together);
  plan.large = arguments.number<int>("--large", 0) != 0;
  plan.faults = arguments.number<std::int64_t>("--faults", plan.faults);
  plan.stress_seconds = arguments.number<double>("--stress-seconds", plan.stress_seconds);
  arguments.finish();
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::printf("SKIPPED: no GPU\n");
    return 77;
  }
  std::printf("seed %llu\n", static_cast<unsigned long long>(plan.seed));
  return causeway::slice::run(plan);
}
