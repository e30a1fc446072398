// The parts that parse_generation is made of.
#pragma once

#include "server/api/fields.h"
#include "server/api/generation_request.h"

namespace causeway::server {

// Fields that both endpoints share: sampling, stops, stream, limits.
void parse_sampling(Fields& fields, const ApiLimits& limits, GenerationRequest& out);
// Fields that this server does not act on: accepted at the value that changes nothing, or when they
// never change an answer; anything else is an error naming the field.
void parse_neutral(Fields& fields);

void parse_chat(Fields& fields, GenerationRequest& out);
void parse_completion(Fields& fields, const ApiLimits& limits, GenerationRequest& out);

}  // namespace causeway::server
