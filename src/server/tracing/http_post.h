// One POST to a server that may be absent, slow or hostile. A connection of its own each time.
#pragma once

#include <atomic>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "server/tracing/http_endpoint.h"

namespace causeway::server {

struct PostAnswer {
  int status = 0;
  int retry_after_seconds = 0;  // 0: none, or one that is no number
  std::string body;             // 64 KiB at most
};

// Sends `body` as JSON and waits for the answer: `limit` at most, and 50 ms beyond `gives_up` being
// set. Blocks; what the system's resolver takes for a name, which cannot be ended, is not counted.
// kUnavailable says what happened, kDeadlineExceeded that nothing did.
Result<PostAnswer> post_json(const HttpEndpoint& to, const std::string& body, Nanos limit,
                             const std::atomic<bool>& gives_up);

}  // namespace causeway::server
