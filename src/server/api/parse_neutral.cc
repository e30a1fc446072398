#include <array>
#include <nlohmann/json.hpp>

#include "server/api/parse_parts.h"

namespace causeway::server {
namespace {

// docs/design/request_fields.md has the reason for each name of these lists; tools/tidy compares.

// Never change an answer.
constexpr std::array<std::string_view, 10> kHarmless = {"user",
                                                        "metadata",
                                                        "store",
                                                        "safety_identifier",
                                                        "prompt_cache_key",
                                                        "prompt_cache_retention",
                                                        "cache_prompt",
                                                        "prediction",
                                                        "request_id",
                                                        "max_tool_calls"};

constexpr std::array<std::string_view, 6> kNeutralWhenEmpty = {
    "functions", "documents",           "logits_processors",
    "suffix",    "mm_processor_kwargs", "context_management"};

constexpr std::array<std::string_view, 3> kNeutralWhenFalse = {"use_beam_search", "early_stopping",
                                                               "background"};

constexpr std::array<std::string_view, 1> kNeutralWhenTrue = {"spaces_between_special_tokens"};

struct NeutralText {
  std::string_view name;
  std::array<std::string_view, 2> values;
};
constexpr std::array<NeutralText, 4> kNeutralTexts = {{{"function_call", {"none", "auto"}},
                                                       {"service_tier", {"auto", "default"}},
                                                       {"truncation", {"disabled", "disabled"}},
                                                       {"verbosity", {"medium", "medium"}}}};

struct NeutralNumber {
  std::string_view name;
  double value;
};
constexpr std::array<NeutralNumber, 3> kNeutralNumbers = {
    {{"best_of", 1}, {"length_penalty", 1}, {"truncate_prompt_tokens", -1}}};

void refuse(Fields& fields, std::string_view name) {
  fields.fail(name, "is not supported by this server; leave it out");
}

void parse_modalities(Fields& fields) {
  const Json* modalities = fields.value("modalities");
  if (modalities != nullptr && *modalities != Json::array({"text"})) {
    fields.fail("modalities", R"(is not supported by this server except ["text"])");
  }
}

}  // namespace

void parse_neutral(Fields& fields) {
  for (const auto name : kHarmless) fields.value(name);
  for (const auto name : kNeutralWhenTrue) {
    if (!fields.boolean(name).value_or(true)) refuse(fields, name);
  }
  for (const auto name : kNeutralWhenEmpty) {
    const Json* value = fields.value(name);
    const bool empty_text =
        value != nullptr && value->is_string() && value->get_ref<const std::string&>().empty();
    const bool empty = value == nullptr || empty_text || (value->is_structured() && value->empty());
    if (!empty) refuse(fields, name);
  }
  for (const auto name : kNeutralWhenFalse) {
    if (fields.boolean(name).value_or(false)) refuse(fields, name);
  }
  for (const auto& [name, values] : kNeutralTexts) {
    const Json* value = fields.value(name);
    if (value != nullptr && *value != values[0] && *value != values[1]) refuse(fields, name);
  }
  for (const auto& [name, neutral] : kNeutralNumbers) {
    const Json* value = fields.value(name);
    if (value != nullptr && !(value->is_number() && value->get<double>() == neutral)) {
      refuse(fields, name);
    }
  }
  parse_modalities(fields);
}

}  // namespace causeway::server
