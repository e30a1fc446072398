#include "server/api/stored_response.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/json_text.h"
#include "server/api/json_write.h"
#include "server/api/parse_parts.h"

namespace causeway::server {
namespace {

constexpr const char* kField = "previous_response_id";

}  // namespace

std::string conversation_of(const ChatBody& chat) {
  Json messages = Json::array();
  const auto first = chat.messages.begin() + (chat.instructed ? 1 : 0);
  std::copy(first, chat.messages.end(), std::back_inserter(messages));
  return json_text(messages);
}

MaybeError go_on_from(const StoredResponse& before, const ApiLimits& limits, ChatBody& chat) {
  Json messages = ordered_json_tree(before.conversation);
  const Json response = ordered_json_tree(before.response);
  if (!messages.is_array() || !response.is_object() || !response.contains("output")) {
    return internal_error("an answer that was kept cannot be read");
  }
  if (auto error = add_items(response["output"], "output", limits, messages)) {
    return bad_request("the response that `" + std::string(kField) +
                           "` names cannot be gone on from: " + error->message,
                       kField);
  }
  const auto first = chat.messages.begin() + (chat.instructed ? 1 : 0);
  std::move(first, chat.messages.end(), std::back_inserter(messages));
  if (chat.instructed) messages.insert(messages.begin(), std::move(chat.messages.front()));
  chat.messages = std::move(messages);
  return {};
}

ApiError previous_not_found(const std::string& id) {
  return bad_request("there is no response `" + to_valid_utf8(utf8_prefix(id, 128)) +
                         "`: it was never kept, or is not any more; send the whole conversation as "
                         "`input`",
                     kField, "previous_response_not_found");
}

}  // namespace causeway::server
