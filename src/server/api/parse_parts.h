// The parts that parse_generation is made of.
#pragma once

#include "server/api/fields.h"
#include "server/api/generation_request.h"

namespace causeway::server {

// The body as a JSON object, or an error.
MaybeError parse_object(std::string_view body, const ApiLimits& limits, Json& out);
void parse_model(Fields& fields, std::string& out);

// Fields that endpoints which generate text share: sampling, stops, stream, limits.
void parse_sampling(Fields& fields, const ApiLimits& limits, GenerationRequest& out);
// Those of them that name tokens or count them.
void parse_token_fields(Fields& fields, const ApiLimits& limits, GenerationRequest& out);
// Fields that this server does not act on: accepted at the value that changes nothing, or when they
// never change an answer; anything else is an error naming the field.
void parse_neutral(Fields& fields);

// The form that the answer must have. After all other fields.
void parse_structured(Fields& fields, const ApiLimits& limits, GenerationRequest& out);

void parse_chat(Fields& fields, const ApiLimits& limits, GenerationRequest& out);
// What a chat's prompt depends on: messages and what the template is given beside them.
void parse_conversation(Fields& fields, const ApiLimits& limits, GenerationRequest& out);
// tools, tool_choice, parallel_tool_calls; of kResponses, too, whose tools have no `function`.
void parse_tools(Fields& fields, const ApiLimits& limits, GenerationRequest& out);
// The name of a tool, or of the tool that a call is of.
std::string parse_tool_name(Fields& fields, const ApiLimits& limits);
// The field `arguments`: an object, or its text. Templates read the object.
void parse_arguments(Fields& fields, const ApiLimits& limits, Json& out);
// `tool_calls` of an assistant's message, into `out`; false when there are none.
bool parse_tool_calls(Fields& message, const ApiLimits& limits, Json& out);
void parse_completion(Fields& fields, const ApiLimits& limits, GenerationRequest& out);
// All fields of /v1/responses that are not shared.
void parse_response(Fields& fields, const ApiLimits& limits, GenerationRequest& out);
// Its `instructions` and `input`: items become the messages that a template reads.
void parse_input(Fields& fields, const ApiLimits& limits, GenerationRequest& out);
// Items of a list, to such messages. An error names its item "name[3]…".
MaybeError add_items(const Json& items, const std::string& name, const ApiLimits& limits,
                     Json& messages);
// All fields of /v1/embeddings but the model.
void parse_embedding(Fields& fields, const ApiLimits& limits, GenerationRequest& out);

// Texts or tokens in every form that a field of this name may have, `most` of them.
void parse_prompts(Fields& fields, std::string_view name, std::size_t most, GenerationRequest& out);
void parse_priority(Fields& fields, GenerationRequest& out);

// A list of token ids that fit TokenId; false for anything else.
bool to_tokens(const Json& list, std::vector<TokenId>& out);

}  // namespace causeway::server
