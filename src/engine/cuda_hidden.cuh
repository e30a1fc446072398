// Hidden states that a step on a GPU is to return: bf16 rows of the forward pass, copied to host
// memory.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/dtype.h"
#include "device/cuda/cuda_pinned.h"
#include "kernels/cuda_stream.h"
#include "kernels/small_copy/small_copy.h"
#include "model/cuda_workspace.h"
#include "request/batch.h"

namespace causeway::engine {

// One step at a time. Takes host memory when the first request comes that wants hidden states, and
// no memory of the device.
class CudaHidden {
 public:
  // The workspace outlives it.
  explicit CudaHidden(model::CudaWorkspace& workspace) : workspace_(workspace) {}

  // Reads which rows of logits are wanted, of `size` elements each. kResourceExhausted.
  Status prepare(const request::Batch& batch, std::int64_t size) {
    wanted_.clear();
    size_ = static_cast<std::size_t>(size);
    for (const request::BatchEntry& entry : batch.entries) {
      wanted_.insert(wanted_.end(), static_cast<std::size_t>(entry.logit_rows()), entry.hidden);
    }
    any_ = std::find(wanted_.begin(), wanted_.end(), true) != wanted_.end();
    if (!any_ || bytes() <= capacity_) return {};
    CAUSEWAY_ASSIGN(host_, device::CudaPinned::make(workspace_.device(), "hidden states", bytes()));
    capacity_ = bytes();
    return {};
  }
  // Enqueues the copy of `hidden`, in device memory: [rows of logits][size], to the host.
  Status enqueue(const std::byte* hidden, kernels::CudaStream stream) {
    if (!any_) return {};
    return kernels::small_copy::run({.target = host_.data(), .source = hidden, .bytes = bytes()},
                                    stream);
  }
  // Writes them into the results of those rows, after all enqueued work is done.
  void collect(std::vector<request::SampledToken>& sampled) const {
    const auto* const values = reinterpret_cast<const BFloat16*>(host_.data());
    for (std::size_t row = 0; any_ && row < std::min(sampled.size(), wanted_.size()); ++row) {
      if (!wanted_[row]) continue;
      sampled[row].hidden.resize(size_);
      std::transform(values + row * size_, values + (row + 1) * size_, sampled[row].hidden.begin(),
                     [](BFloat16 value) { return to_float(value); });
    }
  }

 private:
  // The bytes of all rows; a hidden state has an even number of elements.
  Bytes bytes() const {
    return Bytes(static_cast<std::int64_t>(wanted_.size() * size_ * sizeof(BFloat16)));
  }

  model::CudaWorkspace& workspace_;
  std::vector<bool> wanted_;  // by row of logits
  std::size_t size_ = 0;
  bool any_ = false;
  device::CudaPinned host_;
  Bytes capacity_{0};
};

}  // namespace causeway::engine
