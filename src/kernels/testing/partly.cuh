// Memory of which a kernel drops a part (kernels/cuda_discard.cuh).
#pragma once

#include "base/random.h"
#include "kernels/l2_discard.h"
#include "kernels/testing/gpu.cuh"

namespace causeway::kernels::testing {

// The rest must stay. The memory is written just before, and HBM still holds another value, so a
// line that is dropped comes back with that value: every such line, if no other program uses the
// GPU.
class Partly {
 public:
  explicit Partly(Random& random) {
    const std::int64_t from = random.between(0, kBytes), to = random.between(from, kBytes);
    range_ = {memory_.get() + from, to - from};
    must(cudaMemset(memory_.get(), kBefore, kBytes), "what HBM has");
    Device<char> flood(std::size_t{256} << 20);  // drives it out of L2
    must(cudaMemset(flood.get(), 0, std::size_t{256} << 20), "a flood");
    must(cudaStreamSynchronize(nullptr), "a flood");
  }
  const DiscardRange& range() const { return range_; }
  void write(cudaStream_t stream) {
    must(cudaMemsetAsync(memory_.get(), kValue, kBytes, stream), "what is to be discarded");
  }
  // What has come of it.
  struct Outcome {
    bool rest_is_kept = true;
    std::int64_t lines = 0, dropped = 0;  // to drop; of them, those that no longer are as written
  };
  Outcome outcome() const {
    const DiscardLines lines = discard_lines(range_);
    const std::int64_t begin = lines.count > 0 ? lines.first - memory_.get() : 0;
    const std::int64_t end = begin + lines.count * kDiscardLineBytes;
    const std::vector<char> now = memory_.fetch();
    const auto changed = [&](std::int64_t i) { return now[static_cast<std::size_t>(i)] != kValue; };
    Outcome outcome = {.lines = lines.count};
    for (std::int64_t i = 0; i < kBytes; ++i) {
      if (changed(i) && (i < begin || i >= end)) outcome.rest_is_kept = false;
    }
    for (std::int64_t i = begin; i < end; i += kDiscardLineBytes) {
      outcome.dropped += changed(i) ? 1 : 0;
    }
    return outcome;
  }

 private:
  static constexpr std::int64_t kBytes = 20000;
  static constexpr char kBefore = 17, kValue = 34;
  Device<char> memory_{std::size_t{kBytes}};
  DiscardRange range_;
};

}  // namespace causeway::kernels::testing
