// What a mixture of experts costs that is larger than its share of HBM and whose experts are cached
// one by one: decode of one sequence by how the router chooses and by which experts have the slots,
// in this process. The limit of a token is the bytes of its missed experts over what the copy
// engine gives, and those of the others over what HBM gives, all of the same run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "bench/figure.h"
#include "bench/slice_parts.h"

namespace causeway::bench {

struct ExpertSettings {
  NamedConfig model;  // only its shape counts
  SliceSettings slice;
  double resident = 0.25;  // part of the model's bytes that HBM has for it
  std::int64_t rounds = 5;
  // Zipf's exponent of each layer's choices; 0: all alike.
  std::vector<double> exponents = {0, 1};
  std::vector<std::string> policies = {"frequency", "lru"};  // the last one is the baseline
  std::int64_t context = 128;                                // tokens of a round's prompt
  std::int64_t output = 64;                                  // tokens that it decodes
  std::int64_t warm_prompt = 2048;  // before the first round, from which the cache learns
  std::int64_t warm_output = 256;
  std::function<void(const std::string& what)> progress;
};

// kInvalidArgument: the model has no experts, or its budget no room for slots; else as
// bench_stream().
Result<std::vector<Figure>> bench_experts(const ExpertSettings& settings, const Clock& clock);

}  // namespace causeway::bench
