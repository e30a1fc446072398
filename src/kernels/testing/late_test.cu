// Whether late inputs (late.cuh) find what they are for: a kernel that reads before it waits must
// get poison, one that waits what was meant; and who is held up while it enqueues must hear of it.
//   late_gpu_test        exit code 77: no GPU
#include "base/testing/arguments.h"
#include "kernels/cuda_launch.cuh"
#include "kernels/testing/late.cuh"

#include <chrono>
#include <thread>

namespace causeway::kernels::testing {
namespace {

constexpr int kWords = 3000;  // several parts
constexpr std::uint32_t kMeant = 7;

__global__ void copy(const volatile std::uint32_t* from, std::uint32_t* to, bool waits) {
  if (waits) wait_for_predecessor();
  for (int i = static_cast<int>(threadIdx.x); i < kWords; i += static_cast<int>(blockDim.x)) {
    to[i] = from[i];
  }
  if (!waits) wait_for_predecessor();
}

class Bench {
 public:
  Bench() : source_(std::vector<std::uint32_t>(kWords, kMeant)), target_(kWords) {
    must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    late_.add(source_, kNan);
  }
  ~Bench() { (void)cudaStreamDestroy(stream_); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  bool overlaps() const { return late_.overlaps(); }

  // Whether a kernel that does not wait is found out. Not each time where others use the GPU, which
  // may suspend it before that kernel starts.
  bool finds_who_does_not_wait() {
    for (int i = 0; i < 20; ++i) {
      if (copied(false) == kNan) return true;
    }
    return false;
  }

  // What a kernel copied of a source that came late: every word the same, or 0.
  std::uint32_t copied(bool waits) {
    const bool shown = late_.repeat([&] {
      late_.poison(stream_);
      late_.write(
          [&] {
            must(launch("copying", stream_, {dim3(1), dim3(256)}, copy, source_.get(),
                        target_.get(), waits));
          },
          stream_, "copying");
    });
    const std::vector<std::uint32_t> got = target_.fetch();
    return shown && std::count(got.begin(), got.end(), got[0]) == kWords ? got[0] : 0;
  }

  // Whether repeat() takes it when the host needs so long to enqueue, `slow` times.
  bool shown_when_held_up(int slow, std::chrono::milliseconds time) {
    return late_.repeat([&] {
      late_.poison(stream_);
      late_.write(
          [&] {
            if (slow-- > 0) std::this_thread::sleep_for(time);
          },
          stream_, "being held up");
    });
  }

  bool source_is_whole() const {
    return source_.fetch() == std::vector<std::uint32_t>(kWords, kMeant);
  }

  // Memory that begins and ends within words: these, and what is beside it, stay as they are.
  bool keeps_neighbours() {
    late_.clear();
    auto* bytes = reinterpret_cast<char*>(source_.get());
    late_.add(bytes + 6, 12, kNan);  // bytes 8 to 16
    late_.poison(stream_);
    must(cudaStreamSynchronize(stream_), "poison");
    std::vector<std::uint32_t> wanted(kWords, kMeant);
    wanted[2] = wanted[3] = kNan;
    return source_.fetch() == wanted;
  }

 private:
  Device<std::uint32_t> source_, target_;
  cudaStream_t stream_ = nullptr;
  Late late_;
};

int run_all() {
  if (!has_gpu()) return kSkipped;
  Report report;
  Bench bench;
  report.check(bench.overlaps(), "launches do not wait for each other");
  for (int i = 0; i < 20; ++i) {
    report.check(bench.copied(true) == kMeant, "who waits reads what was meant");
  }
  report.check(bench.finds_who_does_not_wait(), "who does not wait reads poison");
  using std::chrono::milliseconds;
  report.check(bench.shown_when_held_up(1, milliseconds(40)), "held up once: repeated");
  report.check(!bench.shown_when_held_up(100, milliseconds(40)), "held up each time: said");
  report.check(bench.source_is_whole(), "what was poisoned is back");
  report.check(bench.keeps_neighbours(), "only whole words are poisoned");
  return report.finish();
}

}  // namespace
}  // namespace causeway::kernels::testing

int main(int argc, char** argv) {
  causeway::Arguments(argc, argv).finish();
  return causeway::kernels::testing::run_all();
}
