#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "server/api/chat_body.h"
#include "server/api/json_write.h"
#include "server/api/keep_alive.h"
#include "server/api/parse_parts.h"

namespace causeway::server {
namespace {

void check_choices(Fields& fields, const ApiLimits& limits, const GenerationRequest& out) {
  const auto prompts = static_cast<std::int64_t>(out.chats() ? 1 : out.prompts.size());
  if (prompts * out.n <= limits.choices_max) return;
  fields.fail(prompts > 1 ? "prompt" : "n",
              "asks for more than " + std::to_string(limits.choices_max) + " choices");
}

}  // namespace

MaybeError parse_object(std::string_view body, const ApiLimits& limits, Json& out) {
  if (auto error = scan_json(body, limits.json)) return error;
  // Clients in Python send 1e999 and NaN where they have them: the field that cannot take one is to
  // say so, and a template prints them as Python does.
  auto tree = python_json_tree(body);
  if (!tree.ok()) {
    return bad_request("the body is not JSON: " +
                       to_valid_utf8(utf8_prefix(tree.error().message, 300)));
  }
  out = std::move(tree).value();
  if (!out.is_object()) return bad_request("the body must be a JSON object");
  return {};
}

void parse_model(Fields& fields, std::string& out) {
  const auto model = fields.string("model");
  if (!model || model->empty())
    return fields.fail("model", "must name a model; GET /v1/models lists them");
  out = *model;
}

GenerationRequest::GenerationRequest() = default;
GenerationRequest::GenerationRequest(GenerationRequest&&) noexcept = default;
GenerationRequest& GenerationRequest::operator=(GenerationRequest&&) noexcept = default;
GenerationRequest::~GenerationRequest() = default;

MaybeError parse_generation(Endpoint endpoint, std::string_view body, const ApiLimits& limits,
                            GenerationRequest& out) {
  Json json;
  if (auto error = parse_object(body, limits, json)) return error;
  out.endpoint = endpoint;
  Fields fields(json);
  parse_model(fields, out.model);
  if (limits.keep_alive) parse_keep_alive(fields, out);
  if (endpoint == Endpoint::kEmbeddings) {
    parse_embedding(fields, limits, out);
    fields.reject_rest();
    return fields.error();
  }
  parse_sampling(fields, limits, out);
  if (endpoint == Endpoint::kChat) {
    parse_chat(fields, limits, out);
  } else if (endpoint == Endpoint::kResponses) {
    parse_response(fields, limits, out);
  } else {
    parse_completion(fields, limits, out);
  }
  parse_structured(fields, limits, out);
  parse_neutral(fields);
  fields.reject_rest();
  check_choices(fields, limits, out);
  return fields.error();
}

}  // namespace causeway::server
