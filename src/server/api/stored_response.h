// An answer of /v1/responses as it is kept, and how a request goes on from it: as if its client had
// sent the whole conversation itself.
//
//   {instructions} {messages before} {the answer's items} {new messages}
//        now             kept              kept                now
#pragma once

#include <string>

#include "server/api/chat_body.h"
#include "server/api/generation_request.h"

namespace causeway::server {

struct StoredResponse {
  std::string conversation;  // what it answered: conversation_of() its chat
  std::string response;      // the whole answer, as it was told
};

// JSON of the chat's messages, less its `instructions`, which count for one request.
std::string conversation_of(const ChatBody& chat);

// Puts what was said before into `chat`, which has the new messages. An answer that ended within a
// call, or otherwise cannot be sent back, is an error of `previous_response_id`.
MaybeError go_on_from(const StoredResponse& before, const ApiLimits& limits, ChatBody& chat);

// 400 as OpenAI has it.
ApiError previous_not_found(const std::string& id);

}  // namespace causeway::server
