// The models that a server lists.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "client/sse_client.h"

namespace causeway::bench {

struct ServedModel {
  std::string name;
  Tokens max_model_len = {};  // zero: the server does not say
  std::int64_t vocab = 0;     // ids of tokens are below this; zero: the server does not say
  std::string status = {};    // of a Causeway server: "ready", "loading", …; else empty
};

// In the server's order, at least one. Blocks for ten seconds at the most. kUnavailable: no answer,
// or no models in it.
Result<std::vector<ServedModel>> served_models(const Endpoint& endpoint);

// From the body of an answer.
Result<std::vector<ServedModel>> read_served_models(const std::string& body);

}  // namespace causeway::bench
