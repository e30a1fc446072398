// Two slices of one GPU in one process, 56 SMs each, on one home: both serve two models at once,
// one of them the same, in caches that are too small; then one ends and comes back, again and
// again, while the other serves.
//
//   cuda_slices_gpu_test [--seed S] [--requests N] [--rounds N]
//
// Compared: every answer of either with that of a slice of as many SMs that is alone, to the bit of
// its tokens' log-probabilities; and that one's with a slice of the whole GPU's, but for rounding,
// because products and attention are cut, and so added up, by the number of SMs.
//
// It sets how much memory may be taken, so nothing else may take the GPU's meanwhile.
// Exit status 77: no GPU, or one that cannot be divided so.
#include <cuda_runtime.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "base/testing/arguments.h"
#include "base/testing/must.h"
#include "device/cuda/cuda_queues.h"
#include "slice/cuda_slice.h"
#include "slice/slice_layout.h"
#include "slice/testing/bf16_models.h"
#include "slice/testing/neighbours.h"

namespace causeway::slice {
namespace {

using testing::Answers;
using testing::Catalogue;
using testing::Neighbour;

constexpr std::int64_t kPrompts[] = {1, 17, 300};
constexpr std::int64_t kOutput = 12;
constexpr Bytes kFrame = mib(4);
constexpr Bytes kKv = mib(256);
// Both have this together: what driver and workspace take, KV, and for each slice some 400 MiB
// of cached weights; a model has 256.
constexpr Bytes kBudget = mib(2200);
// What the driver may keep of the first slices that have ended, and of others after that.
constexpr Bytes kKept = mib(192);
constexpr Bytes kKeptMore = mib(32);
constexpr auto kTwo = "2x56";

Catalogue catalogue() { return testing::bf16_catalogue(3, false); }
std::vector<ModelId> all() { return {ModelId(0), ModelId(1), ModelId(2)}; }

Bytes used_memory() {
  std::size_t free = 0, total = 0;
  must(cudaMemGetInfo(&free, &total) == cudaSuccess ? Status() : Status(unavailable("no memory")),
       "the GPU's memory");
  return Bytes(static_cast<std::int64_t>(total - free));
}

Bytes total_memory() {
  std::size_t free = 0, total = 0;
  must(cudaMemGetInfo(&free, &total) == cudaSuccess ? Status() : Status(unavailable("no memory")),
       "the GPU's memory");
  return Bytes(static_cast<std::int64_t>(total));
}

class Test {
 public:
  Test(std::uint64_t seed, std::int64_t requests, std::int64_t rounds)
      : seed_(seed), requests_(requests), rounds_(rounds) {}

  // Nothing: the GPU cannot be divided so.
  Status divide() {
    machine_ = must(Machine::open_gpus({.choice = LinkChoice::kOwn}, home_, clock_), "the machine");
    const SliceFacts facts = must(machine_->slice_facts(), "the GPU");
    CAUSEWAY_ASSIGN(const SliceLayout layout, parse_slices(kTwo, facts));
    first_ = layout.parts[0];
    second_ = layout.parts[1];
    return {};
  }

  int run() {
    expect_expected();
    {
      Neighbour first(catalogue(), {ModelId(0), ModelId(1)}, parts(first_));
      Neighbour second(catalogue(), {ModelId(1), ModelId(2)}, parts(second_));
      both_serve(first, second);
    }
    const Bytes after = used_memory();
    expect(after <= before_ + kKept, "memory of the GPU is left behind");
    one_comes_and_goes();
    expect(used_memory() <= after + kKeptMore, "each round leaves memory of the GPU behind");
    std::printf("%ld MiB of the GPU used before, %ld after\n",
                static_cast<long>(before_.count >> 20),
                static_cast<long>(used_memory().count >> 20));
    testing::forget_homes(catalogue(), home_);
    machine_.reset();
    expect(home_.memory.total_bytes() == Bytes(0), "host memory is left behind");
    std::printf("%s\n", failed_ == 0 ? "PASSED" : "FAILED");
    return failed_ == 0 ? 0 : 1;
  }

 private:
  void expect(bool good, const char* what) {
    if (good) return;
    ++failed_;
    std::printf("  %s\n", what);
  }

  Neighbour::Parts parts(const SlicePart& part) {
    CudaSliceOptions options{.gpu = part.gpu,
                             .processors = part.processors,
                             .share = part.share,
                             .memory_utilization = utilization_,
                             .kv = kKv,
                             .kv_frame = kFrame};
    options.residency.quantum_min = millis(20);
    options.engine.core.prefix_caching = false;
    options.engine.core.schedule = {.tokens_per_step_max = 1024, .running_max = 16};
    return {.home = home_, .clock = clock_, .open = [this, options](engine::OutputSink& sink) {
              return must(
                  open_cuda_slice(options, testing::candidates_of(catalogue()), *machine_, sink),
                  "the slice");
            }};
  }

  // By a slice of 56 SMs that is alone; first by the whole GPU.
  void expect_expected() {
    Answers whole;
    {
      Neighbour alone(catalogue(), all(), parts({.gpu = first_.gpu}));
      whole = alone.all_answers(kPrompts, kOutput);
    }
    before_ = used_memory();
    utilization_ =
        static_cast<double>((before_ + kBudget).count) / static_cast<double>(total_memory().count);
    Neighbour alone(catalogue(), all(), parts(first_));
    expected_ = alone.all_answers(kPrompts, kOutput);
    room_ = alone.slice().limits().memory;
    long other = 0;
    for (const auto& [question, answer] : expected_) {
      other += testing::is_near(answer, whole.at(question)) ? 0 : 1;
    }
    std::printf("%zu questions: %ld answered otherwise by %d SMs than by the whole GPU\n",
                expected_.size(), other, first_.processors);
    expect(other == 0, "56 SMs answer otherwise than the whole GPU");
  }

  void expect_within_share(Slice& slice, const char* name) {
    const Bytes has = must(slice.device_memory_used(), "a slice's memory");
    const SliceLimits limits = slice.limits();
    std::printf("  %s has %ld of %ld MiB; %ld MiB for weights and KV, %.1f GB/s of link\n", name,
                static_cast<long>(has.count >> 20), static_cast<long>(kBudget.count >> 21),
                static_cast<long>(limits.memory.count >> 20), limits.link_bytes_per_second / 1e9);
    expect(has <= kBudget / 2, "a slice has more than its share");
    expect(limits.memory == room_, "a slice has other memory than when it was alone");
    expect(limits.link_bytes_per_second > 0 && limits.flops_per_second > 0, "limits are not known");
  }

  void both_serve(Neighbour& first, Neighbour& second) {
    std::int64_t wrong_first = 0, wrong_second = 0;
    std::thread one([&] {
      wrong_first = first.ask_at_random({.seed = seed_, .requests = requests_}, expected_);
    });
    wrong_second = second.ask_at_random({.seed = seed_ + 1, .requests = requests_}, expected_);
    one.join();
    std::printf("%ld requests each: %ld and %ld wrong\n", static_cast<long>(requests_),
                static_cast<long>(wrong_first), static_cast<long>(wrong_second));
    expect(wrong_first + wrong_second == 0, "wrong answers of slices beside each other");
    expect_within_share(first.slice(), "the first slice");
    expect_within_share(second.slice(), "the second slice");
    expect(used_memory() <= before_ + kBudget, "both have more than they may together");
  }

  // With requests under way every second time.
  void one_comes_and_goes() {
    std::atomic<bool> stop{false};
    Neighbour stays(catalogue(), {ModelId(0), ModelId(1)}, parts(first_));
    std::int64_t wrong = 0;
    std::thread serves([&] {
      wrong = stays.ask_at_random(
          {.seed = seed_ + 2, .requests = 1'000'000, .stop = [&] { return stop.load(); }},
          expected_);
    });
    std::int64_t wrong_coming = 0;
    for (std::int64_t round = 0; round < rounds_; ++round) {
      Neighbour comes(catalogue(), {ModelId(1), ModelId(2)}, parts(second_));
      wrong_coming += comes.ask_at_random(
          {.seed = seed_ + 3 + static_cast<std::uint64_t>(round), .requests = 20}, expected_);
      expect_within_share(comes.slice(), "the slice that came");
      if (round % 2 == 0) comes.ask({ModelId(2), 300}, 500);
    }
    stop = true;
    serves.join();
    std::printf("%ld requests while a slice came and went %ld times: %ld and %ld wrong\n",
                static_cast<long>(stays.asked()), static_cast<long>(rounds_),
                static_cast<long>(wrong), static_cast<long>(wrong_coming));
    expect(wrong + wrong_coming == 0, "wrong answers while a slice comes and goes");
    expect(stays.asked() > rounds_, "the slice that stayed did not serve");
  }

  const std::uint64_t seed_;
  const std::int64_t requests_, rounds_;
  RealClock clock_;
  ModelHome home_{clock_, gib(16)};
  std::unique_ptr<Machine> machine_;
  SlicePart first_, second_;
  Answers expected_;
  double utilization_ = 0.9;
  Bytes before_;  // used by others, and by what the driver has loaded
  Bytes room_;
  long failed_ = 0;
};

}  // namespace
}  // namespace causeway::slice

int main(int argc, char** argv) {
  causeway::Arguments arguments(argc, argv);
  const auto seed = arguments.number<std::uint64_t>("--seed", 1);
  const auto requests = arguments.number<std::int64_t>("--requests", 150);
  const auto rounds = arguments.number<std::int64_t>("--rounds", 4);
  arguments.finish();
  causeway::device::set_cuda_queues(false);  // as the program, before anything asks the driver
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::printf("SKIPPED: no GPU\n");
    return 77;
  }
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  causeway::slice::Test test(seed, requests, rounds);
  if (const causeway::Status divided = test.divide(); !divided.ok()) {
    std::printf("SKIPPED: %s\n", divided.error().message.c_str());
    return 77;
  }
  return test.run();
}
