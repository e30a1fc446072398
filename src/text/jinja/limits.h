// Limits of one chat template: what a template or a conversation, both from outside, may cost. Each
// is reported by name when reached. The defaults leave real templates three orders of magnitude of
// room and bound a hostile one to a fraction of a second and a fraction of a gigabyte.
#pragma once

#include <cstdint>

namespace causeway::text::jinja {

struct Limits {
  std::int64_t source_bytes_max = 1 << 20;
  // Nesting while parsing: parentheses, blocks within blocks, and operators within operators.
  int nesting_max = 200;
  // Statements and operations executed, and what bulk work (searching, comparing, copying) costs at
  // 64 bytes or one element a step.
  std::int64_t steps_max = 20'000'000;
  std::int64_t output_bytes_max = std::int64_t{64} << 20;
  // Strings and lists alive at one time while rendering, inputs not counted.
  std::int64_t memory_bytes_max = std::int64_t{256} << 20;
  // Evaluations within evaluations while rendering: bounds the stack.
  int evaluation_depth_max = 1200;
  // Macros within macros.
  int call_depth_max = 100;
  // Lists and objects within each other, in the input or built by the template.
  int value_depth_max = 200;
};

}  // namespace causeway::text::jinja
