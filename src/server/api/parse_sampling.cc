#include <limits>
#include <nlohmann/json.hpp>

#include "server/api/parse_parts.h"

namespace causeway::server {
namespace {

constexpr std::int64_t kInt64Min = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kInt64Max = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kPriorityMax = 1'000'000;

void add_stop(Fields& fields, const Json& value, const ApiLimits& limits, GenerationRequest& out) {
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
    return fields.fail("stop", "must be a string or a list of strings, none of them empty");
  }
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() > limits.stop_string_bytes_max) {
    return fields.fail("stop", "has a string of more than " +
                                   std::to_string(limits.stop_string_bytes_max) + " bytes");
  }
  out.stop.push_back(text);
}

void parse_stop(Fields& fields, const ApiLimits& limits, GenerationRequest& out) {
  const Json* stop = fields.value("stop");
  if (stop == nullptr) return;
  if (!stop->is_array()) return add_stop(fields, *stop, limits, out);
  if (stop->size() > limits.stop_strings_max) {
    return fields.fail("stop",
                       "has more than " + std::to_string(limits.stop_strings_max) + " strings");
  }
  for (const Json& value : *stop) add_stop(fields, value, limits, out);
}

void parse_stream(Fields& fields, GenerationRequest& out) {
  out.stream = fields.boolean("stream").value_or(false);
  const Json* options = fields.object("stream_options");
  if (options == nullptr || fields.failed()) return;
  Fields nested(*options, "stream_options.");
  if (out.endpoint != Endpoint::kResponses) {  // whose last event always tells the usage
    out.include_usage = nested.boolean("include_usage").value_or(false);
    const bool continuous = nested.boolean("continuous_usage_stats").value_or(false);
    out.continuous_usage = continuous && out.include_usage;
  }
  nested.boolean("include_obfuscation");
  nested.reject_rest();
  if (nested.failed()) fields.fail(*nested.error());
}

void parse_draw(Fields& fields, GenerationRequest& out) {
  out.temperature = fields.number("temperature", {0, 2});
  out.top_p = fields.number("top_p", {0, 1, true});
  // -1 is how some clients spell "all".
  if (const auto top_k = fields.integer("top_k", -1, kInt32Max)) {
    out.top_k = *top_k < 0 ? 0 : static_cast<std::int32_t>(*top_k);
  }
  out.min_p = fields.number("min_p", {0, 1});
  out.presence_penalty = fields.number("presence_penalty", {-2, 2}).value_or(0.0f);
  out.frequency_penalty = fields.number("frequency_penalty", {-2, 2}).value_or(0.0f);
  out.repetition_penalty = fields.number("repetition_penalty", {0.01, 100});
  out.seed = fields.integer("seed", kInt64Min, kInt64Max);
}

}  // namespace

void parse_sampling(Fields& fields, const ApiLimits& limits, GenerationRequest& out) {
  parse_stream(fields, out);
  parse_draw(fields, out);
  if (out.endpoint == Endpoint::kResponses) {
    out.max_tokens = fields.integer("max_output_tokens", 1, kInt32Max);
  } else {
    out.n = static_cast<std::int32_t>(fields.integer("n", 1, limits.choices_max).value_or(1));
    out.max_tokens = fields.integer("max_tokens", out.chats() ? 1 : 0, kInt32Max);
  }
  parse_stop(fields, limits, out);
  parse_token_fields(fields, limits, out);
  out.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  out.skip_special_tokens = fields.boolean("skip_special_tokens").value_or(true);
  out.include_stop_in_output = fields.boolean("include_stop_str_in_output").value_or(false);
  out.add_special_tokens = fields.boolean("add_special_tokens");
  parse_priority(fields, out);
}

void parse_priority(Fields& fields, GenerationRequest& out) {
  // In vLLM, whose field this is, a lower number is served earlier, in request::Request a higher.
  out.priority = -static_cast<std::int32_t>(
      fields.integer("priority", -kPriorityMax, kPriorityMax).value_or(0));
}

}  // namespace causeway::server
