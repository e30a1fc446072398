#include "engine/cuda_sampler.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>

#include "kernels/cuda_status.cuh"
#include "kernels/sampling/sampling_cuda.h"

namespace causeway::engine {
namespace {

using kernels::cuda_status;
using kernels::sampling::RowCuda;

// Pinned memory and its counterpart on the device, grown together.
template <typename T>
class Mirror {
 public:
  Mirror() = default;
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;
  ~Mirror() { free(); }

  Status ensure(std::size_t count) {
    if (count <= capacity_) return {};
    const std::size_t wanted = std::max(count, 2 * capacity_);
    free();
    void* host = nullptr;
    CAUSEWAY_TRY(
        cuda_status(cudaMallocHost(&host, wanted * sizeof(T)), "pinned memory for sampling"));
    host_ = static_cast<T*>(host);
    void* device = nullptr;
    CAUSEWAY_TRY(
        cuda_status(cudaMalloc(&device, wanted * sizeof(T)), "device memory for sampling"));
    device_ = static_cast<T*>(device);
    capacity_ = wanted;
    return {};
  }
  Status up(std::size_t count, kernels::CudaStream stream) {
    return cuda_status(
        cudaMemcpyAsync(device_, host_, count * sizeof(T), cudaMemcpyHostToDevice, stream),
        "copying what to sample");
  }
  Status down(std::size_t count, kernels::CudaStream stream) {
    return cuda_status(
        cudaMemcpyAsync(host_, device_, count * sizeof(T), cudaMemcpyDeviceToHost, stream),
        "copying what was sampled");
  }
  T* host() const { return host_; }
  T* device() const { return device_; }

 private:
  void free() {
    if (host_ != nullptr) cudaFreeHost(host_);
    if (device_ != nullptr) cudaFree(device_);
    host_ = device_ = nullptr;
    capacity_ = 0;
  }
  T* host_ = nullptr;
  T* device_ = nullptr;
  std::size_t capacity_ = 0;
};

RowCuda row_of(const request::BatchEntry& entry) {
  const request::SamplingParams& wanted = entry.sampling;
  RowCuda row;
  row.temperature = wanted.temperature;
  row.top_p = wanted.top_p;
  row.min_p = wanted.min_p;
  row.presence_penalty = wanted.presence_penalty;
  row.frequency_penalty = wanted.frequency_penalty;
  row.repetition_penalty = wanted.repetition_penalty;
  row.top_k = wanted.top_k;
  row.top_logprobs = wanted.top_logprobs;
  row.seed = wanted.seed;
  row.position = std::int64_t{entry.context} + entry.token_count;
  row.history_tokens = static_cast<std::int32_t>(entry.history.size());
  row.prompt_tokens = entry.prompt_tokens;
  return row;
}

}  // namespace

class CudaSampler::State {
 public:
  Status prepare(const request::Batch& batch);
  Status enqueue(const float* logits, std::int64_t vocab, kernels::CudaStream stream);
  std::vector<request::SampledToken> collect() const;

 private:
  bool wants_logprobs() const { return top_stride_ > 0; }
  std::size_t tops() const { return requests_.size() * static_cast<std::size_t>(top_stride_); }

  std::vector<RequestId> requests_;  // of the rows
  std::size_t history_tokens_ = 0;
  std::int64_t top_stride_ = 0;  // 0: nobody wants log-probabilities
  std::int64_t vocab_ = 0;
  bool all_greedy_ = false;
  Mirror<RowCuda> rows_;
  Mirror<TokenId> history_;
  Mirror<TokenId> token_;
  Mirror<float> logprob_;
  Mirror<TokenId> top_token_;
  Mirror<float> top_logprob_;
};

Status CudaSampler::State::prepare(const request::Batch& batch) {
  requests_.clear();
  history_tokens_ = 0;
  top_stride_ = 0;
  all_greedy_ = true;
  for (const request::BatchEntry& entry : batch.entries) {
    if (!entry.samples) continue;
    const request::SamplingParams& wanted = entry.sampling;
    requests_.push_back(entry.request);
    history_tokens_ += entry.history.size();
    if (wanted.top_logprobs >= 0) {
      top_stride_ = std::max<std::int64_t>(top_stride_, std::max(wanted.top_logprobs, 1));
    }
    all_greedy_ = all_greedy_ && wanted.greedy() && !wanted.penalised() && wanted.top_logprobs < 0;
  }
  CAUSEWAY_TRY(rows_.ensure(requests_.size()));
  CAUSEWAY_TRY(token_.ensure(requests_.size()));
  CAUSEWAY_TRY(history_.ensure(history_tokens_));
  CAUSEWAY_TRY(logprob_.ensure(wants_logprobs() ? requests_.size() : 0));
  CAUSEWAY_TRY(top_token_.ensure(tops()));
  CAUSEWAY_TRY(top_logprob_.ensure(tops()));
  std::size_t row = 0, history = 0;
  for (const request::BatchEntry& entry : batch.entries) {
    if (!entry.samples) continue;
    rows_.host()[row] = row_of(entry);
    rows_.host()[row++].history_begin = static_cast<std::int64_t>(history);
    std::copy(entry.history.begin(), entry.history.end(), history_.host() + history);
    history += entry.history.size();
  }
  return {};
}

Status CudaSampler::State::enqueue(const float* logits, std::int64_t vocab,
                                   kernels::CudaStream stream) {
  if (requests_.empty()) return {};
  vocab_ = vocab;
  CAUSEWAY_TRY(rows_.up(requests_.size(), stream));
  if (history_tokens_ > 0) CAUSEWAY_TRY(history_.up(history_tokens_, stream));
  CAUSEWAY_TRY(kernels::sampling::run({.rows = std::ssize(requests_),
                                       .vocab = vocab,
                                       .logits = logits,
                                       .logits_stride = vocab,
                                       .row = rows_.device(),
                                       .history = history_.device(),
                                       .token = token_.device(),
                                       .logprob = logprob_.device(),
                                       .top_token = top_token_.device(),
                                       .top_logprob = top_logprob_.device(),
                                       .top_stride = top_stride_,
                                       .all_greedy = all_greedy_,
                                       .penalties = history_tokens_ > 0},
                                      stream));
  CAUSEWAY_TRY(token_.down(requests_.size(), stream));
  if (!wants_logprobs()) return {};
  CAUSEWAY_TRY(logprob_.down(requests_.size(), stream));
  CAUSEWAY_TRY(top_token_.down(tops(), stream));
  return top_logprob_.down(tops(), stream);
}

std::vector<request::SampledToken> CudaSampler::State::collect() const {
  std::vector<request::SampledToken> sampled;
  sampled.reserve(requests_.size());
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    request::SampledToken& chosen = sampled.emplace_back();
    chosen.request = requests_[i];
    chosen.token.token = token_.host()[i];
    const std::int32_t wanted = rows_.host()[i].top_logprobs;
    if (wanted < 0) continue;
    chosen.token.logprob = logprob_.host()[i];
    for (std::int64_t t = 0; t < std::min<std::int64_t>(wanted, vocab_); ++t) {
      const auto at = i * static_cast<std::size_t>(top_stride_) + static_cast<std::size_t>(t);
      chosen.token.top.push_back({top_token_.host()[at], top_logprob_.host()[at]});
    }
  }
  return sampled;
}

CudaSampler::CudaSampler() : state_(std::make_unique<State>()) {}
CudaSampler::~CudaSampler() = default;
Status CudaSampler::prepare(const request::Batch& batch) { return state_->prepare(batch); }
Status CudaSampler::enqueue(const float* logits, std::int64_t vocab, kernels::CudaStream stream) {
  return state_->enqueue(logits, vocab, stream);
}
std::vector<request::SampledToken> CudaSampler::collect() const { return state_->collect(); }

}  // namespace causeway::engine
