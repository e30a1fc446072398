// Hidden states that a step on a GPU is to give back: bf16 rows of the forward pass to host memory.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/dtype.h"
#include "engine/cuda_mirror.cuh"
#include "request/batch.h"

namespace causeway::engine {

// One step at a time. Takes memory when the first request comes that wants some.
class CudaHidden {
 public:
  // The workspace outlives it.
  explicit CudaHidden(model::CudaWorkspace& workspace) : rows_(workspace) {}

  // Reads which rows of logits are wanted, of `size` elements each. kResourceExhausted.
  Status prepare(const request::Batch& batch, std::int64_t size) {
    wanted_.clear();
    size_ = static_cast<std::size_t>(size);
    for (const request::BatchEntry& entry : batch.entries) {
      wanted_.insert(wanted_.end(), static_cast<std::size_t>(entry.logit_rows()), entry.hidden);
    }
    any_ = std::find(wanted_.begin(), wanted_.end(), true) != wanted_.end();
    return any_ ? rows_.ensure((wanted_.size() * size_ + 1) / 2) : Status();
  }
  // Enqueues the way to the host of `hidden`, in device memory: [rows of logits][size].
  Status enqueue(const std::byte* hidden, kernels::CudaStream stream) {
    if (!any_) return {};
    const auto bytes = static_cast<std::int64_t>(wanted_.size() * size_ * sizeof(BFloat16));
    return kernels::small_copy::run(
        {.target = rows_.host(), .source = hidden, .bytes = Bytes(bytes)}, stream);
  }
  // Into the results of those rows; after all that was enqueued is done.
  void collect(std::vector<request::SampledToken>& sampled) const {
    const auto* const values = reinterpret_cast<const BFloat16*>(rows_.host());
    for (std::size_t row = 0; any_ && row < std::min(sampled.size(), wanted_.size()); ++row) {
      if (!wanted_[row]) continue;
      sampled[row].hidden.resize(size_);
      std::transform(values + row * size_, values + (row + 1) * size_, sampled[row].hidden.begin(),
                     [](BFloat16 value) { return to_float(value); });
    }
  }

 private:
  std::vector<bool> wanted_;  // by row of logits
  std::size_t size_ = 0;
  bool any_ = false;
  CudaMirror<std::uint32_t> rows_;  // two elements each
};

}  // namespace causeway::engine
