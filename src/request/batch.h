// One step of one slice: a batch of one model's sequences, prefill chunks and decodes mixed. Plain
// data; what the scheduler decided, in the form that an executor runs.
//
//   tokens       │ t t t t t │ t │ t │ t t t │     concatenated, entry by entry
//   entries      │     0     │ 1 │ 2 │   3   │
//   frames       │ f f │ f f f │ f │ f f │         each entry's block table, concatenated
//
// A step may be submitted while the one before it runs. A token that the earlier step has yet to
// choose is written as pending_token().
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/rotation.h"
#include "request/request.h"

namespace causeway::request {

// Stands for the token that the step submitted last before this one chooses from row `row` of its
// logits. Negative, as no token is, and never -1, which marks empty places in tables.
constexpr TokenId pending_token(std::int64_t row) { return static_cast<TokenId>(-2 - row); }
constexpr bool is_pending(TokenId token) { return token <= -2; }
constexpr std::int64_t pending_row(TokenId token) { return -2 - std::int64_t{token}; }

// Changes that a request makes to its logits, in this order, before penalties and temperature.
struct LogitEdits {
  // Bit t % 32 of word t / 32 is set: token t stays. The others become -infinity. Empty: all stay.
  std::vector<std::uint32_t> mask;
  std::vector<TokenId> allowed;  // the others become -infinity; empty: none does
  std::vector<TokenBias> bias;   // added; each token once
  std::vector<TokenId> banned;   // become -infinity
  // The mask depends on a token that is still pending: StepExecutor::supply_masks() brings it.
  bool mask_follows = false;

  bool any() const { return !mask.empty() || !allowed.empty() || !bias.empty() || !banned.empty(); }
};

// The LogitEdits::mask of a row of a step that was submitted without it.
struct LateMask {
  RequestId request;
  std::vector<std::uint32_t> mask;
};

struct BatchEntry {
  RequestId request;
  std::int32_t token_begin = 0;  // into Batch::tokens
  std::int32_t token_count = 0;  // ≥ 1
  std::int32_t frame_begin = 0;  // into Batch::frames
  std::int32_t frame_count = 0;  // covers context + token_count tokens
  std::int32_t context = 0;      // tokens whose KV is valid before this step: position of the first
  bool samples = false;          // the chunk ends the known tokens: its last logits are sampled
  SamplingParams sampling;       // when samples
  LogitEdits edits;              // when samples
  // Known tokens whose log-probabilities are wanted (sampling.prompt_logprobs), fewer than
  // token_count when samples: scored[i] follows the i-th token of the chunk.
  std::vector<TokenId> scored;
  bool hidden = false;  // also return the final hidden states of its rows
  // All tokens so far, prompt first; only when samples and penalised. The last may be pending.
  std::vector<TokenId> history;
  std::int32_t prompt_tokens = 0;  // how many of `history` are the prompt's

  // The rows of its tokens whose logits are needed: the first scored.size(), and the last if it
  // samples.
  std::int64_t logit_rows() const { return std::ssize(scored) + (samples ? 1 : 0); }
};

struct Batch {
  StepId step;
  ModelId model;
  std::vector<TokenId> tokens;  // pending ones only where an entry has one token
  std::vector<BatchEntry> entries;
  std::vector<FrameId> frames;

  // Copies of KV between HBM and host memory, as KvCache::take_copies() returned them; empty when
  // no KV moves. All of them begin at once and wait for nothing.
  std::vector<kv::KvCopy> copies_out;  // frames to twins
  std::vector<kv::KvCopy> copies_in;   // twins to frames
  // The step reads no KV before all copies up to this one have ended, including those of earlier
  // batches: the newest KvCache::arriving_until() of its sequences. Invalid: the step waits for
  // none.
  kv::CopyId copies_awaited = {};

  // The rows of logits, entry by entry.
  std::int64_t logit_rows() const;
  // Whether a mask follows later; nothing is sampled before it is there.
  bool awaits_masks() const;
};

struct SampledToken {
  RequestId request;
  OutputToken token;
  std::vector<float> hidden = {};  // of its row, after the final norm; when the entry wants it
};

// The result of a step. On failure `error` is not empty, nothing was sampled, and KV that the step
// would have written is not valid.
struct StepResult {
  StepId step;
  // One for each row of logits, in order; for a scored row it is the given token.
  std::vector<SampledToken> sampled;
  Nanos duration;  // as the executor measured (or modelled) it
  std::string error;
  // For a model whose experts are cached one by one: the number of tokens that chose each expert,
  // by layer with experts and by expert. Otherwise empty.
  std::vector<std::uint32_t> experts_chosen = {};
};

// Replaces pending tokens by those that the step before has chosen. A token that was never chosen,
// because that step failed, becomes 0; its results are not used.
void resolve_pending(Batch& batch, std::span<const SampledToken> before);

// Blocks of KV that were copied between HBM and host memory, and why (kv::KvCopy::Reason).
struct KvCopyCounts {
  std::int64_t eager_out = 0;
  std::int64_t rotation_out = 0;
  std::int64_t rotation_in = 0;
  std::int64_t prefix_in = 0;
  std::int64_t failed = 0;  // of all of them

  KvCopyCounts& operator+=(const KvCopyCounts& other);
};

// Measured values, for the tuner and for /metrics.
struct Observation {
  std::int64_t requests_running = 0;
  std::int64_t requests_waiting = 0;
  std::int64_t requests_rotary = 0;  // whose KV is in host memory
  std::int64_t frames_total = 0;     // that have memory
  std::int64_t frames_used = 0;      // referenced or quarantined
  std::int64_t frames_stranded = 0;  // of these, held by copies of KV that may never end
  std::int64_t twins_total = 0;      // places in host memory
  std::int64_t twins_used = 0;
  Bytes weights_cached;          // on the device
  std::int64_t preemptions = 0;  // since start, as all below: sequences to be recomputed
  std::int64_t rotations = 0;    // sequences to host memory
  KvCopyCounts kv_copies;
  std::int64_t steps = 0;
  Nanos device_busy;               // time of the slice, not of single models, in steps
  std::int64_t prompt_tokens = 0;  // computed (not from the cache)
  std::int64_t generated_tokens = 0;
  std::int64_t prefix_queried_tokens = 0;
  std::int64_t prefix_hit_tokens = 0;
  std::int64_t prefix_host_tokens = 0;  // of those, in host memory only
  // For models whose experts are cached one by one: experts that steps chose, in HBM and at home.
  std::int64_t expert_hits = 0;
  std::int64_t expert_misses = 0;
  Bytes link_bytes;                   // of weights, from home to devices; a fleet counts them
  std::int64_t requests_resumed = 0;  // sent again, as their slices were lost; by the fleet
  bool hung = false;                  // the device does not answer: nothing can be served
  std::string lost;                   // why the device is lost for good; empty: it is not

  // Adds two parts together. When one of them is hung or lost, the sum is.
  Observation& operator+=(const Observation& other);

  // Requests that have not ended.
  std::int64_t requests() const { return requests_running + requests_waiting + requests_rotary; }
};

}  // namespace causeway::request
