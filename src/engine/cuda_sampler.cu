#include "engine/cuda_sampler.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>

#include "engine/cuda_mirror.cuh"
#include "kernels/pending_tokens/pending_tokens.h"
#include "kernels/sampling/sampling_cuda.h"

namespace causeway::engine {
namespace {

using kernels::sampling::RowCuda;
using kernels::sampling::RowEditsCuda;
using kernels::sampling::TokenEditCuda;

static_assert(request::kEditedTokensMax <= kernels::sampling::kAllowedMax);

// Room from the start, because taking more later may wait for the step that runs.
constexpr std::size_t kTopLogprobs = 20;                  // of a row: what OpenAI's API allows
constexpr std::size_t kHistory = std::size_t{1} << 18;    // tokens of all rows
constexpr std::size_t kEdits = std::size_t{1} << 14;      // likewise
constexpr std::size_t kMaskWords = std::size_t{1} << 18;  // likewise: 64 rows of 128k tokens

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

// Chooses the only allowed token, with its log-probability among all.
RowCuda scored_row_of(const request::BatchEntry& entry) {
  RowCuda row;
  row.temperature = 0.0f;
  row.top_logprobs = entry.sampling.prompt_logprobs;
  return row;
}

std::size_t size_of(const request::LogitEdits& edits) {
  return edits.allowed.size() + edits.bias.size() + edits.banned.size();
}

// Writes a row's edits to `out` from `begin` on.
RowEditsCuda write_edits(const request::LogitEdits& edits, std::size_t begin, TokenEditCuda* out) {
  out += begin;
  for (const TokenId token : edits.allowed) *out++ = {token, 0.0f};
  for (const request::TokenBias& one : edits.bias) *out++ = {one.token, one.bias};
  for (const TokenId token : edits.banned) *out++ = {token, 0.0f};
  return {.begin = static_cast<std::int64_t>(begin),
          .allowed = static_cast<std::int32_t>(edits.allowed.size()),
          .biased = static_cast<std::int32_t>(edits.bias.size()),
          .banned = static_cast<std::int32_t>(edits.banned.size())};
}

}  // namespace

class CudaSampler::State {
 public:
  explicit State(model::CudaWorkspace& workspace)
      : rows_(workspace),
        history_(workspace),
        row_edits_(workspace),
        edits_(workspace),
        masks_(workspace),
        token_(workspace),
        logprob_(workspace),
        top_token_(workspace),
        top_logprob_(workspace) {}

  Status reserve(std::int64_t rows);
  Status prepare(const request::Batch& batch);
  Status upload(kernels::CudaStream stream);
  Status enqueue(const CudaLogits& logits, const CudaChosen& before, kernels::CudaStream stream);
  CudaChosen chosen() const { return {token_.device(), std::ssize(requests_)}; }
  std::vector<request::SampledToken> collect() const;

 private:
  bool wants_logprobs() const { return top_stride_ > 0; }
  // Counts the log-probabilities of one row, or of several equal rows.
  void count_top(std::int32_t top_logprobs) {
    if (top_logprobs < 0) return;
    top_stride_ = std::max<std::int64_t>(top_stride_, std::max(top_logprobs, 1));
  }
  void count(const request::BatchEntry& entry);
  void write_rows(const request::Batch& batch);
  // Reads the edits of the batch's rows, as prepare() has counted them.
  Status prepare_edits(const request::Batch& batch);
  std::size_t tops() const { return requests_.size() * static_cast<std::size_t>(top_stride_); }

  std::vector<RequestId> requests_;  // of the rows
  std::size_t history_tokens_ = 0;
  bool history_pending_ = false;
  bool edited_ = false;  // false: no row has edits, and none are sent
  std::size_t edited_tokens_ = 0;
  std::size_t mask_words_ = 0;
  std::int64_t top_stride_ = 0;  // 0: no row wants log-probabilities
  std::int64_t vocab_ = 0;
  bool all_greedy_ = false;
  CudaMirror<RowCuda> rows_;
  CudaMirror<TokenId> history_;
  CudaMirror<RowEditsCuda> row_edits_;
  CudaMirror<TokenEditCuda> edits_;
  CudaMirror<std::uint32_t> masks_;
  CudaMirror<TokenId> token_;
  CudaMirror<float> logprob_;
  CudaMirror<TokenId> top_token_;
  CudaMirror<float> top_logprob_;
};

Status CudaSampler::State::reserve(std::int64_t rows) {
  const auto count = static_cast<std::size_t>(rows);
  CAUSEWAY_TRY(rows_.ensure(count));
  CAUSEWAY_TRY(token_.ensure(count));
  CAUSEWAY_TRY(logprob_.ensure(count));
  CAUSEWAY_TRY(top_token_.ensure(count * kTopLogprobs));
  CAUSEWAY_TRY(top_logprob_.ensure(count * kTopLogprobs));
  CAUSEWAY_TRY(row_edits_.ensure(count));
  CAUSEWAY_TRY(edits_.ensure(kEdits));
  CAUSEWAY_TRY(masks_.ensure(kMaskWords));
  return history_.ensure(kHistory);
}

Status CudaSampler::State::prepare(const request::Batch& batch) {
  requests_.clear();
  history_tokens_ = 0;
  history_pending_ = false;
  edited_ = false;
  edited_tokens_ = 0;
  mask_words_ = 0;
  top_stride_ = 0;
  all_greedy_ = true;
  for (const request::BatchEntry& entry : batch.entries) count(entry);
  CAUSEWAY_TRY(rows_.ensure(requests_.size()));
  CAUSEWAY_TRY(token_.ensure(requests_.size()));
  CAUSEWAY_TRY(history_.ensure(history_tokens_));
  CAUSEWAY_TRY(logprob_.ensure(wants_logprobs() ? requests_.size() : 0));
  CAUSEWAY_TRY(top_token_.ensure(tops()));
  CAUSEWAY_TRY(top_logprob_.ensure(tops()));
  write_rows(batch);
  return edited_ ? prepare_edits(batch) : Status();
}

void CudaSampler::State::count(const request::BatchEntry& entry) {
  const request::SamplingParams& wanted = entry.sampling;
  requests_.insert(requests_.end(), static_cast<std::size_t>(entry.logit_rows()), entry.request);
  if (!entry.scored.empty()) {
    count_top(wanted.prompt_logprobs);
    edited_ = true;
    edited_tokens_ += entry.scored.size();
    all_greedy_ = false;
  }
  if (!entry.samples) return;
  count_top(wanted.top_logprobs);
  history_tokens_ += entry.history.size();
  history_pending_ |= !entry.history.empty() && request::is_pending(entry.history.back());
  edited_ |= entry.edits.any();
  edited_tokens_ += size_of(entry.edits);
  mask_words_ += entry.edits.mask.size();
  all_greedy_ = all_greedy_ && wanted.greedy() && !wanted.penalised() && wanted.top_logprobs < 0 &&
                !entry.edits.any();
}

void CudaSampler::State::write_rows(const request::Batch& batch) {
  std::size_t row = 0, history = 0;
  for (const request::BatchEntry& entry : batch.entries) {
    for (std::size_t i = 0; i < entry.scored.size(); ++i) {
      rows_.host()[row++] = scored_row_of(entry);
    }
    if (!entry.samples) continue;
    rows_.host()[row] = row_of(entry);
    rows_.host()[row++].history_begin = static_cast<std::int64_t>(history);
    std::copy(entry.history.begin(), entry.history.end(), history_.host() + history);
    history += entry.history.size();
  }
}

Status CudaSampler::State::prepare_edits(const request::Batch& batch) {
  CAUSEWAY_TRY(row_edits_.ensure(requests_.size()));
  CAUSEWAY_TRY(edits_.ensure(edited_tokens_));
  CAUSEWAY_TRY(masks_.ensure(mask_words_));
  std::size_t row = 0, edits = 0, words = 0;
  for (const request::BatchEntry& entry : batch.entries) {
    for (const TokenId token : entry.scored) {
      edits_.host()[edits] = {token, 0.0f};
      row_edits_.host()[row++] = {.begin = static_cast<std::int64_t>(edits++), .allowed = 1};
    }
    if (!entry.samples) continue;
    RowEditsCuda& placed = row_edits_.host()[row++];
    placed = write_edits(entry.edits, edits, edits_.host());
    edits += size_of(entry.edits);
    const std::vector<std::uint32_t>& mask = entry.edits.mask;
    placed.mask_words = static_cast<std::int32_t>(mask.size());
    placed.mask_begin = static_cast<std::int64_t>(words);
    std::copy(mask.begin(), mask.end(), masks_.host() + words);
    words += mask.size();
  }
  return {};
}

Status CudaSampler::State::upload(kernels::CudaStream stream) {
  if (requests_.empty()) return {};
  CAUSEWAY_TRY(rows_.up(requests_.size(), stream));
  if (edited_) CAUSEWAY_TRY(row_edits_.up(requests_.size(), stream));
  if (edited_tokens_ > 0) CAUSEWAY_TRY(edits_.up(edited_tokens_, stream));
  if (mask_words_ > 0) CAUSEWAY_TRY(masks_.up(mask_words_, stream));
  return history_tokens_ > 0 ? history_.up(history_tokens_, stream) : Status();
}

Status CudaSampler::State::enqueue(const CudaLogits& logits, const CudaChosen& before,
                                   kernels::CudaStream stream) {
  if (requests_.empty()) return {};
  vocab_ = logits.vocab;
  if (history_pending_) {
    CAUSEWAY_TRY(kernels::pending_tokens::run({.tokens = history_.device(),
                                               .count = static_cast<std::int64_t>(history_tokens_),
                                               .chosen = before.tokens,
                                               .rows = before.rows},
                                              stream));
  }
  CAUSEWAY_TRY(kernels::sampling::run({.rows = std::ssize(requests_),
                                       .vocab = logits.vocab,
                                       .logits = logits.data,
                                       .logits_stride = logits.vocab,
                                       .row = rows_.device(),
                                       .history = history_.device(),
                                       .token = token_.device(),
                                       .logprob = logprob_.device(),
                                       .top_token = top_token_.device(),
                                       .top_logprob = top_logprob_.device(),
                                       .top_stride = top_stride_,
                                       .row_edits = edited_ ? row_edits_.device() : nullptr,
                                       .edit = edited_ ? edits_.device() : nullptr,
                                       .mask = mask_words_ > 0 ? masks_.device() : nullptr,
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
      if (top_token_.host()[at] < 0) break;  // fewer logits are numbers
      chosen.token.top.push_back({top_token_.host()[at], top_logprob_.host()[at]});
    }
  }
  return sampled;
}

CudaSampler::CudaSampler(model::CudaWorkspace& workspace)
    : state_(std::make_unique<State>(workspace)) {}
CudaSampler::~CudaSampler() = default;
Status CudaSampler::prepare(const request::Batch& batch) { return state_->prepare(batch); }
Status CudaSampler::reserve(std::int64_t rows) { return state_->reserve(rows); }
Status CudaSampler::upload(kernels::CudaStream stream) { return state_->upload(stream); }
Status CudaSampler::enqueue(const CudaLogits& logits, const CudaChosen& before,
                            kernels::CudaStream stream) {
  return state_->enqueue(logits, before, stream);
}
CudaChosen CudaSampler::chosen() const { return state_->chosen(); }
std::vector<request::SampledToken> CudaSampler::collect() const { return state_->collect(); }

}  // namespace causeway::engine
