// The part of a chat request that stays JSON, since templates read JSON.
#pragma once

#include <nlohmann/json.hpp>

namespace causeway::server {

struct ChatBody {
  // [{role, content: string, …}]: lists of text parts have been joined by newlines, because most
  // templates know strings only.
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json template_kwargs = nlohmann::ordered_json::object();
};

}  // namespace causeway::server
