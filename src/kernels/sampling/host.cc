#include "kernels/sampling/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "base/check.h"
#include "base/random.h"

namespace causeway::kernels::sampling {
namespace {

struct Candidate {
  TokenId token = 0;
  float logit = 0;
};

// By logit descending, the lower id first among equals.
bool before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

TokenId argmax(std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > logits[best] || (std::isnan(logits[best]) && !std::isnan(logits[i]))) best = i;
  }
  return static_cast<TokenId>(best);
}

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

bool has(std::span<const float> logits, TokenId token) {
  return token >= 0 && static_cast<std::size_t>(token) < logits.size();
}

void keep_only(std::span<float> logits, std::span<const TokenId> tokens) {
  std::vector<Candidate> kept;
  for (const TokenId token : tokens) {
    if (has(logits, token)) kept.push_back({token, logits[static_cast<std::size_t>(token)]});
  }
  std::fill(logits.begin(), logits.end(), kMinusInfinity);
  for (const Candidate& one : kept) logits[static_cast<std::size_t>(one.token)] = one.logit;
}

bool edited(const Params& p) {
  return !p.mask.empty() || !p.allowed.empty() || !p.bias.empty() || !p.banned.empty();
}

void keep_masked(std::span<float> logits, std::span<const std::uint32_t> mask) {
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const std::size_t word = i / 32;
    const bool stays = word < mask.size() && ((mask[word] >> (i % 32)) & 1) != 0;
    if (!stays) logits[i] = kMinusInfinity;
  }
}

void edit(std::span<float> logits, const Params& p) {
  if (!p.mask.empty()) keep_masked(logits, p.mask);
  if (!p.allowed.empty()) keep_only(logits, p.allowed);
  for (const TokenBias& one : p.bias) {
    if (has(logits, one.token)) logits[static_cast<std::size_t>(one.token)] += one.bias;
  }
  for (const TokenId token : p.banned) {
    if (has(logits, token)) logits[static_cast<std::size_t>(token)] = kMinusInfinity;
  }
}

void penalise(std::span<float> logits, const Params& p) {
  struct Count {
    std::int64_t output = 0;
  };
  std::unordered_map<TokenId, Count> counts;
  const auto prompt = static_cast<std::size_t>(std::max<std::int64_t>(0, p.prompt_tokens));
  for (std::size_t i = 0; i < p.history.size(); ++i) {
    const TokenId token = p.history[i];
    if (!has(logits, token)) continue;
    Count& count = counts[token];
    if (i >= prompt) ++count.output;
  }
  for (const auto& [token, count] : counts) {
    float& logit = logits[static_cast<std::size_t>(token)];
    if (p.repetition_penalty != 1.0f) {
      logit = logit > 0 ? logit / p.repetition_penalty : logit * p.repetition_penalty;
    }
    if (count.output > 0) {
      logit -= p.presence_penalty + p.frequency_penalty * static_cast<float>(count.output);
    }
  }
}

// ln Σ e^logit, by the largest (finite) logit; NaN logits are left out.
double log_sum_exp(std::span<const float> logits, float largest) {
  double total = 0;
  for (const float logit : logits) {
    if (!std::isnan(logit)) total += std::exp(static_cast<double>(logit - largest));
  }
  return static_cast<double>(largest) + std::log(total);
}

// Where the draw falls in [0, total): by seed and position alone.
double draw(const Params& p, double total) {
  Random random(mix64(p.seed) ^ mix64(static_cast<std::uint64_t>(p.position) + 0x5EEDull));
  return random.uniform() * total;
}

// Weights e^((logit - largest) / temperature) of what survives top-k, top-p and min-p.
class Draw {
 public:
  Draw(std::span<const float> logits, const Params& params) : params_(params) {
    const TokenId best = argmax(logits);
    largest_ = logits[static_cast<std::size_t>(best)];
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (logits[i] > kMinusInfinity) {
        candidates_.push_back({static_cast<TokenId>(i), logits[i]});
      }
    }
  }

  TokenId token() {
    keep_top_k();
    weigh();
    keep_top_p();
    keep_min_p();
    return pick();
  }

 private:
  void keep_top_k() {
    const auto k = static_cast<std::size_t>(std::max(0, params_.top_k));
    if (k == 0 || k >= candidates_.size()) return;
    const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(k);
    std::nth_element(candidates_.begin(), end, candidates_.end(), before);
    candidates_.resize(k);
    restore_order();
  }

  void weigh() {
    weights_.resize(candidates_.size());
    for (std::size_t i = 0; i < candidates_.size(); ++i) weights_[i] = weight(candidates_[i]);
  }

  double weight(const Candidate& candidate) const {
    const double lag = static_cast<double>(candidate.logit) - static_cast<double>(largest_);
    return std::exp(lag / static_cast<double>(params_.temperature));
  }

  // The best has weight 1, so the threshold on probabilities is one on weights.
  void keep_min_p() {
    if (!(params_.min_p > 0)) return;
    keep([this](std::size_t i) {
      return weights_[i] >= static_cast<double>(std::min(1.0f, params_.min_p));
    });
  }

  // The fewest, best first, whose probabilities sum to top_p at least.
  void keep_top_p() {
    if (!(params_.top_p < 1.0f)) return;
    double total = 0;
    for (const double w : weights_) total += w;
    const double wanted = total * std::max(0.0, static_cast<double>(params_.top_p));
    const Candidate last = last_within(wanted);
    keep([&](std::size_t i) { return !before(last, candidates_[i]); });
  }

  // Sorts the best 2^n until they carry `wanted`: most distributions need a few of 100,000.
  Candidate last_within(double wanted) const {
    std::vector<Candidate> sorted = candidates_;
    double carried = 0;
    std::size_t done = 0;
    for (std::size_t piece = 64; done < sorted.size(); piece *= 4) {
      const std::size_t end = std::min(sorted.size(), done + piece);
      std::partial_sort(sorted.begin() + static_cast<std::ptrdiff_t>(done),
                        sorted.begin() + static_cast<std::ptrdiff_t>(end), sorted.end(), before);
      for (; done < end; ++done) {
        carried += weight(sorted[done]);
        if (carried >= wanted) return sorted[done];
      }
    }
    return sorted.back();
  }

  template <typename Keep>
  void keep(Keep keep_index) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (!keep_index(i)) continue;
      candidates_[kept] = candidates_[i];
      weights_[kept++] = weights_[i];
    }
    candidates_.resize(kept);
    weights_.resize(kept);
  }

  void restore_order() {
    std::sort(candidates_.begin(), candidates_.end(),
              [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
  }

  TokenId pick() const {
    double total = 0;
    for (const double w : weights_) total += w;
    double left = draw(params_, total);
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      left -= weights_[i];
      if (left < 0) return candidates_[i].token;
    }
    return candidates_.back().token;  // rounding used up the last hair
  }

  const Params& params_;
  float largest_ = 0;
  std::vector<Candidate> candidates_;  // ids ascending
  std::vector<double> weights_;        // of candidates_
};

// The best `count` tokens of the raw logits.
std::vector<Candidate> best_of(std::span<const float> logits, std::int32_t count) {
  std::vector<Candidate> all;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!std::isnan(logits[i])) all.push_back({static_cast<TokenId>(i), logits[i]});
  }
  const std::size_t kept = std::min(all.size(), static_cast<std::size_t>(std::max(0, count)));
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept), all.end(),
                    before);
  all.resize(kept);
  return all;
}

bool penalised(const Params& p) {
  return p.presence_penalty != 0 || p.frequency_penalty != 0 || p.repetition_penalty != 1.0f;
}

// In a row with a number this looks at the first logit, or at few more.
bool are_all_nan(std::span<const float> logits) {
  return std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isnan(logit); });
}

TokenId choose(std::span<const float> logits, const Params& p) {
  const TokenId best = argmax(logits);
  const float largest = logits[static_cast<std::size_t>(best)];
  if (!(p.temperature > 0) || !std::isfinite(largest)) return best;
  return Draw(logits, p).token();
}

}  // namespace

Sample sample(std::span<float> logits, const Params& params) {
  CAUSEWAY_CHECK(!logits.empty(), "sampling from no logits");
  if (are_all_nan(logits)) return {.token = kNoToken};
  Sample result;
  double normaliser = 0;
  const bool changes = edited(params) || penalised(params);
  std::vector<float> raw_of_changed;
  std::vector<Candidate> top;
  if (params.top_logprobs >= 0) {
    normaliser = log_sum_exp(logits, logits[static_cast<std::size_t>(argmax(logits))]);
    top = best_of(logits, params.top_logprobs);
    if (changes) raw_of_changed.assign(logits.begin(), logits.end());
  }
  edit(logits, params);
  if (penalised(params)) penalise(logits, params);
  result.token = choose(logits, params);
  if (params.top_logprobs < 0) return result;
  const auto chosen = static_cast<std::size_t>(result.token);
  const float raw = raw_of_changed.empty() ? logits[chosen] : raw_of_changed[chosen];
  result.logprob = static_cast<float>(static_cast<double>(raw) - normaliser);
  for (const Candidate& c : top) {
    const double logprob = static_cast<double>(c.logit) - normaliser;
    result.top.emplace_back(c.token, static_cast<float>(logprob));
  }
  return result;
}

}  // namespace causeway::kernels::sampling
