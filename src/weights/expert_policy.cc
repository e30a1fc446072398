#include "weights/expert_policy.h"

namespace causeway::weights {

Result<ExpertPolicy> parse_expert_policy(const std::string& name) {
  if (name == "whole") return ExpertPolicy::kWhole;
  if (name == "frequency") return ExpertPolicy::kFrequency;
  if (name == "lru") return ExpertPolicy::kLru;
  if (name == "activation") return ExpertPolicy::kActivation;
  if (name == "map") return ExpertPolicy::kMap;
  return invalid_argument(
      "experts are cached by frequency, lru, activation or map, or streamed in whole "
      "layers, but not by '" +
      name + "'");
}

}  // namespace causeway::weights
