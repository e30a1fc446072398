// Templates with the output that Python's jinja2 gives for them (feature_cases_test.cc, generated).
#pragma once

#include <span>

namespace causeway::text::jinja {

// What `expected` is where the reference fails to compile or to render.
inline constexpr const char* kFails = nullptr;

struct FeatureCase {
  const char* source;
  const char* expected;
};

std::span<const FeatureCase> feature_cases();
std::span<const FeatureCase> more_feature_cases();
// The variables of all of them as JSON: messages, tools, extra, bos_token, eos_token.
const char* feature_variables();

}  // namespace causeway::text::jinja
