// Which experts of a model that is larger than its share of HBM are cached there
// (docs/design/experts.md).
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace causeway::weights {

// Which experts have the slots: those that were …
enum class ExpertPolicy : std::uint8_t {
  kWhole,       // no slots: layers are streamed as a whole
  kFrequency,   // chosen most often, with decay
  kLru,         // used last
  kActivation,  // chosen by the running sequence (MoE-Infinity, arXiv 2401.14361)
  kMap,         // chosen by the sequence before that began most like it (FineMoE, arXiv 2502.05370)
};

// kInvalidArgument, naming those that there are.
Result<ExpertPolicy> parse_expert_policy(const std::string& name);

}  // namespace causeway::weights
