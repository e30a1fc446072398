// What a constraint may be, before anything is compiled: bounds on what strangers send, so that
// most of what would take long is refused at once. What passes is compiled within a deadline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "request/constraint.h"

namespace causeway::grammar {

struct ConstraintLimits {
  std::size_t bytes_max = std::size_t{64} << 10;
  int depth_max = 32;  // of a schema's JSON; of groups in expressions and grammars
  // The largest count of a repetition, and of a schema's minItems, maxLength and the like.
  std::int64_t count_max = 10'000;
  // How many characters writing out its counted repetitions may add to an expression.
  std::int64_t expanded_max = 20'000;
};

// kInvalidArgument says what is too large, or that the text is no JSON.
Status check_constraint(const request::ConstraintText& constraint,
                        const ConstraintLimits& limits = {});

// Checks a regular expression, or a grammar's text (`quotes`: what stands in double quotes is
// literal).
Status check_expression(std::string_view text, bool quotes, const ConstraintLimits& limits);

}  // namespace causeway::grammar
