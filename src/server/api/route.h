// Finds the endpoint that a method and a target mean, and checks that the caller may ask.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/api/api_error.h"

namespace causeway::server {

// Which of a server's ports a client came by.
enum class Door { kPublic, kAdmin };

enum class Route {
  kChatCompletions,
  kCompletions,
  kResponses,
  kEmbeddings,
  kTokenize,
  kDetokenize,
  kAdminLoad,  // from here by Door::kAdmin alone
  kAdminUnload,
  kAdminPin,
  kAdminUnpin,
  kAdminDrain,
  kAdminReload,
  kAdminChat,  // a chat completion, for the page
  kSleep,
  kWakeUp,
  kRouterLoad,
  kRouterUnload,
  kAdminModels,
  kIsSleeping,
  kRouterEvents,
  kRouterModels,  // to here
  kResponse,      // Routed::response
  kModels,
  kModel,  // Routed::model_name
  kHealth,
  kPing,
  kVersion,
  kMetrics,
  kPage,  // by Door::kAdmin
};

struct Routed {
  Route route = Route::kHealth;
  bool head = false;       // HEAD: the answer's headers only
  bool deletes = false;    // DELETE, of kResponse
  std::string model_name;  // kModel, percent-decoded
  std::string response;    // kResponse: its id, likewise
  std::string query;       // behind the question mark, as it came
};

// 404 for a path that is unknown at this door, which says why where a client may expect it to be
// there; 405 with Allow for a known one with another method.
MaybeError find_route(Door door, std::string_view method, std::string_view target, Routed& out);

inline bool takes_body(Route route) { return route <= Route::kRouterUnload; }
inline bool generates(Route route) {
  return route <= Route::kEmbeddings || route == Route::kAdminChat;
}
inline bool administers(Route route) {
  return route >= Route::kAdminLoad && route <= Route::kRouterModels;
}
// Health, version and metrics are open to probes that have no key; the page asks for it.
inline bool needs_key(Route route) { return route <= Route::kModel; }

// The parameters of a query, percent-decoded, in order; nullopt where one is not UTF-8, or not
// encoded properly. "a=1&b" is {{"a", "1"}, {"b", ""}}.
std::optional<std::vector<std::pair<std::string, std::string>>> query_parameters(
    std::string_view query);

// Whether an Authorization header carries one of `keys` (all may when there are none). The time it
// takes depends on lengths, not on what the keys or the header say.
bool authorised(std::string_view authorization, const std::vector<std::string>& keys);

}  // namespace causeway::server
