// How a model stretches its rotary position embedding to contexts longer than those it was first
// trained on, as config.json says it ("rope_scaling", "rope_parameters"): which frequencies result,
// and by what attention's scores are scaled with them. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace causeway::model {

struct ModelConfig;

enum class RopeType : std::uint8_t {
  kLinear,    // all frequencies are divided by `factor`
  kLlama3,    // Llama 3.1: long waves are, short ones stay, a linear blend in wavelength between
  kYarn,      // YaRN (arXiv 2309.00071): likewise, a blend in dimensions; scores are scaled
  kLongRope,  // LongRoPE (arXiv 2402.13753), as in Phi-3: a divisor each; scores are scaled
};

// As "rope_type" has it.
const char* name_of(RopeType type);

struct RopeScaling {
  RopeType type = RopeType::kLlama3;
  double factor = 1;                          // longest context ÷ original, where not stated
  std::int64_t original_max_position = 8192;  // the context that it was first trained on
  // kLlama3: waves longer than original ÷ low are divided, those shorter than original ÷ high stay.
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  // kYarn: dimensions that rotate beta_fast times and more in the original context stay, those that
  // rotate beta_slow times and less are divided; `whole` if the border is between dimensions.
  double beta_fast = 32;
  double beta_slow = 1;
  bool whole = true;
  // kYarn, kLongRope: by which queries and keys are multiplied; absent: follows from the factor.
  std::optional<double> attention_factor = {};
  // kLongRope, one a pair that is rotated: for contexts up to the original one, and for longer
  // ones.
  std::vector<double> short_factor = {};
  std::vector<double> long_factor = {};
};

// Radians a token for each pair of dimensions that is rotated: all head_dim / 2, or the first.
// kLongRope: a served model has one set of frequencies, for its keys are kept; that for long
// contexts if max_position is larger than the original context.
std::vector<double> rope_frequencies(const ModelConfig& config);

// Those of layers with a window, where they have their own; else empty.
std::vector<double> local_rope_frequencies(const ModelConfig& config);

// By which what is rotated is multiplied: 1, but the scaling's factor where a part of a head is
// rotated, since the rest is not multiplied.
double rope_amplitude(const ModelConfig& config);

// By which attention multiplies scores: 1 / √head_dim, or of query_scalar, times the scaling's
// factor for queries and again for keys, which so need not be multiplied (but those of which a part
// is rotated).
float attention_scale(const ModelConfig& config);

}  // namespace causeway::model
