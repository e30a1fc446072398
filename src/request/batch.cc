#include "request/batch.h"

#include <algorithm>

namespace causeway::request {
namespace {

void resolve(std::span<TokenId> tokens, std::span<const SampledToken> before) {
  for (TokenId& token : tokens) {
    if (!is_pending(token)) continue;
    const auto row = static_cast<std::size_t>(pending_row(token));
    token = row < before.size() ? before[row].token.token : 0;
  }
}

}  // namespace

std::int64_t Batch::logit_rows() const {
  std::int64_t rows = 0;
  for (const BatchEntry& entry : entries) rows += entry.logit_rows();
  return rows;
}

bool Batch::awaits_masks() const {
  return std::any_of(entries.begin(), entries.end(),
                     [](const BatchEntry& entry) { return entry.edits.mask_follows; });
}

void resolve_pending(Batch& batch, std::span<const SampledToken> before) {
  resolve(batch.tokens, before);
  for (BatchEntry& entry : batch.entries) resolve(entry.history, before);
}

KvCopyCounts& KvCopyCounts::operator+=(const KvCopyCounts& other) {
  eager_out += other.eager_out;
  rotation_out += other.rotation_out;
  rotation_in += other.rotation_in;
  prefix_in += other.prefix_in;
  failed += other.failed;
  return *this;
}

// A field that is added to the type must be added to the sum as well.
static_assert(sizeof(Observation) == 256 && sizeof(KvCopyCounts) == 40);

Observation& Observation::operator+=(const Observation& other) {
  requests_running += other.requests_running;
  requests_waiting += other.requests_waiting;
  requests_rotary += other.requests_rotary;
  frames_total += other.frames_total;
  frames_used += other.frames_used;
  frames_stranded += other.frames_stranded;
  twins_total += other.twins_total;
  twins_used += other.twins_used;
  weights_cached += other.weights_cached;
  preemptions += other.preemptions;
  rotations += other.rotations;
  kv_copies += other.kv_copies;
  steps += other.steps;
  prompt_tokens += other.prompt_tokens;
  generated_tokens += other.generated_tokens;
  prefix_queried_tokens += other.prefix_queried_tokens;
  prefix_hit_tokens += other.prefix_hit_tokens;
  prefix_host_tokens += other.prefix_host_tokens;
  expert_hits += other.expert_hits;
  expert_misses += other.expert_misses;
  link_bytes += other.link_bytes;
  requests_resumed += other.requests_resumed;
  device_busy += other.device_busy;
  hung = hung || other.hung;
  if (lost.empty()) lost = other.lost;
  return *this;
}

}  // namespace causeway::request
