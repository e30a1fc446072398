// Heads of HTTP answers, as bytes.
#pragma once

#include <string>
#include <string_view>

#include "server/api/api_error.h"

namespace causeway::server {

struct AnswerHead {
  int status = 200;
  std::string_view content_type = "application/json";
  bool http_1_1 = true;
  bool keep_alive = true;
  int retry_after_seconds = 0;  // > 0: sent
  std::string_view allow;       // not "": sent
  // Not "": sent as Content-Security-Policy, with what else keeps a page to itself.
  std::string_view security_policy;
  bool authenticate = false;  // WWW-Authenticate: Bearer
};

// Head of an answer of known length.
void append_head(std::string& out, const AnswerHead& head, std::size_t body_bytes);
// Head of server-sent events: chunked for HTTP/1.1, until the connection ends for 1.0.
void append_event_stream_head(std::string& out, const AnswerHead& head);
// Head and body of an error; only the head when `head_only`.
std::string error_answer(const ApiError& error, AnswerHead head, bool head_only);

}  // namespace causeway::server
