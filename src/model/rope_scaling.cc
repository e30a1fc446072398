#include "model/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/rope/rope.h"
#include "model/config.h"

namespace causeway::model {
namespace {

double llama3(double frequency, const RopeScaling& s) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const auto original = static_cast<double>(s.original_max_position);
  if (wavelength < original / s.high_freq_factor) return frequency;
  if (wavelength > original / s.low_freq_factor) return frequency / s.factor;
  const double blend =
      (original / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - blend) * frequency / s.factor + blend * frequency;
}

// The pair of dimensions that rotates so often in the original context (a fraction).
double pair_of_rotations(double rotations, const ModelConfig& config) {
  const auto original = static_cast<double>(config.rope_scaling->original_max_position);
  return static_cast<double>(config.rotated_dim()) *
         std::log(original / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(config.rope_theta));
}

// Pairs up to `first` stay, those from `last` are divided.
struct YarnRange {
  double first = 0;
  double last = 0;
};

YarnRange yarn_range(const ModelConfig& config) {
  const RopeScaling& s = *config.rope_scaling;
  YarnRange range{pair_of_rotations(s.beta_fast, config), pair_of_rotations(s.beta_slow, config)};
  if (s.whole) range = {std::floor(range.first), std::ceil(range.last)};
  range.first = std::max(range.first, 0.0);
  range.last = std::min(range.last, static_cast<double>(config.rotated_dim() - 1));
  if (range.first == range.last) range.last += 0.001;  // as the published code does
  return range;
}

double yarn(double frequency, double pair, const YarnRange& range, double factor) {
  const double divided = std::clamp((pair - range.first) / (range.last - range.first), 0.0, 1.0);
  return frequency / factor * divided + frequency * (1 - divided);
}

double attention_factor(const ModelConfig& config) {
  if (!config.rope_scaling) return 1;
  const RopeScaling& s = *config.rope_scaling;
  if (s.type != RopeType::kYarn && s.type != RopeType::kLongRope) return 1;
  if (s.attention_factor) return *s.attention_factor;
  if (s.factor <= 1) return 1;
  if (s.type == RopeType::kYarn) return 0.1 * std::log(s.factor) + 1;
  return std::sqrt(1 + std::log(s.factor) / std::log(static_cast<double>(s.original_max_position)));
}

}  // namespace

const char* name_of(RopeType type) {
  switch (type) {
    case RopeType::kLinear: return "linear";
    case RopeType::kLlama3: return "llama3";
    case RopeType::kYarn: return "yarn";
    case RopeType::kLongRope: return "longrope";
  }
  return "";
}

std::vector<double> local_rope_frequencies(const ModelConfig& config) {
  if (!config.local_rope_theta) return {};
  return kernels::rope::frequencies(config.rotated_dim(), *config.local_rope_theta);
}

std::vector<double> rope_frequencies(const ModelConfig& config) {
  std::vector<double> all = kernels::rope::frequencies(config.rotated_dim(), config.rope_theta);
  if (!config.rope_scaling) return all;
  const RopeScaling& s = *config.rope_scaling;
  const YarnRange range = s.type == RopeType::kYarn ? yarn_range(config) : YarnRange{};
  const bool is_long = config.max_position.count > s.original_max_position;
  for (std::size_t i = 0; i < all.size(); ++i) {
    switch (s.type) {
      case RopeType::kLinear: all[i] /= s.factor; break;
      case RopeType::kLlama3: all[i] = llama3(all[i], s); break;
      case RopeType::kYarn: all[i] = yarn(all[i], static_cast<double>(i), range, s.factor); break;
      case RopeType::kLongRope: all[i] /= (is_long ? s.long_factor : s.short_factor)[i]; break;
    }
  }
  return all;
}

double rope_amplitude(const ModelConfig& config) {
  return config.partly_rotated() ? attention_factor(config) : 1;
}

float attention_scale(const ModelConfig& config) {
  const double factor = config.partly_rotated() ? 1 : attention_factor(config);
  const double divisor =
      config.query_scalar > 0 ? config.query_scalar : static_cast<double>(config.head_dim);
  return static_cast<float>(factor * factor / std::sqrt(divisor));
}

}  // namespace causeway::model
