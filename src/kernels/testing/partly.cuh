// Memory of which a kernel drops a part (kernels/cuda_discard.cuh).
#pragma once

#include "base/random.h"
#include "kernels/spent.h"
#include "kernels/testing/gpu.cuh"

namespace causeway::kernels::testing {

// The rest must stay. It is written just before, and what HBM has is something else, so that a line
// too many would come back as that.
class Partly {
 public:
  explicit Partly(Random& random) {
    const std::int64_t from = random.between(0, kBytes), to = random.between(from, kBytes);
    spent_ = {memory_.get() + from, to - from};
    must(cudaMemset(memory_.get(), kBefore, kBytes), "what HBM has");
    Device<char> flood(std::size_t{256} << 20);  // drives it out of L2
    must(cudaMemset(flood.get(), 0, std::size_t{256} << 20), "a flood");
    must(cudaStreamSynchronize(nullptr), "a flood");
  }
  const Spent& spent() const { return spent_; }
  void write(cudaStream_t stream) {
    must(cudaMemsetAsync(memory_.get(), kValue, kBytes, stream), "what is spent");
  }
  bool rest_is_kept() const {
    const SpentLines lines = spent_lines(spent_);
    const std::int64_t begin = lines.count > 0 ? lines.first - memory_.get() : 0;
    const std::int64_t end = begin + lines.count * kSpentLine;
    const std::vector<char> now = memory_.fetch();
    for (std::int64_t i = 0; i < kBytes; ++i) {
      const bool dropped = i >= begin && i < end;
      if (!dropped && now[static_cast<std::size_t>(i)] != kValue) return false;
    }
    return true;
  }

 private:
  static constexpr std::int64_t kBytes = 20000;
  static constexpr char kBefore = 17, kValue = 34;
  Device<char> memory_{std::size_t{kBytes}};
  Spent spent_;
};

}  // namespace causeway::kernels::testing
