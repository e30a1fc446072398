// The part of a chat request that stays JSON, since templates read JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace causeway::server {

struct ChatBody {
  // [{role, content: string, …}], arguments of tool_calls as objects. Lists of text parts have been
  // joined by newlines, because most templates know strings only.
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  bool instructed = false;  // of kResponses: the first of them is its `instructions`
  // As they were sent; empty: the template is given none.
  nlohmann::ordered_json tools = nlohmann::ordered_json::array();
  nlohmann::ordered_json template_kwargs = nlohmann::ordered_json::object();
  std::optional<std::string> chat_template;  // instead of the model's; where ApiLimits allows it
};

}  // namespace causeway::server
