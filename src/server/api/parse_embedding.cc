#include <limits>
#include <nlohmann/json.hpp>

#include "server/api/parse_parts.h"

namespace causeway::server {
namespace {

// Larger than any model's hidden state; prepare() compares with the model's own.
constexpr std::int64_t kDimensionsMax = 1 << 20;

}  // namespace

void parse_embedding(Fields& fields, const ApiLimits& limits, GenerationRequest& out) {
  parse_prompts(fields, "input", limits.embedded_max, out);
  const std::string format = fields.string("encoding_format").value_or("float");
  out.base64 = format == "base64";
  if (!out.base64 && format != "float") {
    fields.fail("encoding_format", "must be float or base64");
  }
  out.dimensions = fields.integer("dimensions", 1, kDimensionsMax);
  const std::string pooling = fields.string("pooling").value_or("last");
  out.pooling = pooling == "mean" ? request::Pooling::kMean : request::Pooling::kLast;
  if (pooling != "mean" && pooling != "last") fields.fail("pooling", "must be last or mean");
  out.add_special_tokens = fields.boolean("add_special_tokens");
  parse_priority(fields, out);
  fields.value("user");
  // In vLLM -1 cuts an input to the model's context. Here an input that is longer is refused.
  const Json* const cut = fields.value("truncate_prompt_tokens");
  if (cut != nullptr && *cut != -1) {
    fields.fail("truncate_prompt_tokens", "is not supported by this server except -1");
  }
  // The engine generates one token, which the answer does not tell.
  out.max_tokens = 0;
  out.temperature = 0.0f;
  out.ignore_eos = true;
}

}  // namespace causeway::server
