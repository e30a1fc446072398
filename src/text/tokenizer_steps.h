// What reading the stages of a tokenizer.json shares. Private to the tokenizer's .cc files.
#pragma once

#include <string>
#include <string_view>

#include "text/pretokenize.h"
#include "text/tokenizer_json_fields.h"

namespace causeway::text {

// Sequences nest no deeper in any file; the parser's depth limit bounds the recursion as well.
inline constexpr std::size_t kStepsMax = 64;

Error unknown_component(const std::string& where, std::string_view type);

// kCorrupt when there is none.
Result<std::string_view> step_type(json::Element step, const std::string& where);

Result<PreTokenizer::Metaspace> read_metaspace(json::Element step, const std::string& where);

// Calls visit(step, type, where) for each step that is not a Sequence, in order.
template <typename Visit>
Status for_each_step(json::Element step, const char* list, const std::string& where,
                     const Visit& visit) {
  CAUSEWAY_ASSIGN(const std::string_view type, step_type(step, where));
  if (type != "Sequence") return visit(step, type, where + "." + std::string(type));
  CAUSEWAY_ASSIGN(const auto steps, json::get_array(step, list, where));
  if (steps.size() > kStepsMax) return unsupported(where + ": a Sequence of more than 64 steps");
  for (const json::Element inner : steps) CAUSEWAY_TRY(for_each_step(inner, list, where, visit));
  return {};
}

}  // namespace causeway::text
