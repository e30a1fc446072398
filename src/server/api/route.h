// Which endpoint a method and a target mean, and who may ask.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/api/api_error.h"

namespace causeway::server {

enum class Route {
  kChatCompletions,
  kCompletions,
  kTokenize,
  kDetokenize,
  kModels,
  kModel,  // Routed::model_name
  kHealth,
  kPing,
  kVersion,
  kMetrics,
};

struct Routed {
  Route route = Route::kHealth;
  bool head = false;       // HEAD: the answer's headers only
  std::string model_name;  // kModel, percent-decoded
};

// 404 for an unknown path, 405 with Allow for a known one with another method.
MaybeError find_route(std::string_view method, std::string_view target, Routed& out);

inline bool takes_body(Route route) { return route <= Route::kDetokenize; }
inline bool generates(Route route) { return route <= Route::kCompletions; }
// Health, version and metrics are open to probes that have no key.
inline bool needs_key(Route route) { return route <= Route::kModel; }

// Whether an Authorization header carries one of `keys` (all may when there are none). The time it
// takes depends on lengths, not on what the keys or the header say.
bool authorised(std::string_view authorization, const std::vector<std::string>& keys);

}  // namespace causeway::server
