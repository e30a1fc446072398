#include "server/http/answer_head.h"

#include "server/api/json_write.h"

namespace causeway::server {
namespace {

std::string_view reason_of(int status) {
  switch (status) {
    case 200: return "OK";
    case 202: return "Accepted";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 413: return "Payload Too Large";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    default: return "Status";
  }
}

void append_common(std::string& out, const AnswerHead& head) {
  out += head.http_1_1 ? "HTTP/1.1 " : "HTTP/1.0 ";
  append_json_integer(out, head.status);
  out += ' ';
  out += reason_of(head.status);
  out += "\r\nServer: causeway\r\nContent-Type: ";
  out += head.content_type;
  if (!head.keep_alive) {
    out += "\r\nConnection: close";
  } else if (!head.http_1_1) {
    out += "\r\nConnection: keep-alive";
  }
  if (head.retry_after_seconds > 0) {
    out += "\r\nRetry-After: ";
    append_json_integer(out, head.retry_after_seconds);
  }
  if (!head.allow.empty()) {
    out += "\r\nAllow: ";
    out += head.allow;
  }
  if (!head.security_policy.empty()) {
    out += "\r\nContent-Security-Policy: ";
    out += head.security_policy;
    out +=
        "\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY"
        "\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-cache";
  }
  if (head.authenticate) out += "\r\nWWW-Authenticate: Bearer";
}

}  // namespace

void append_head(std::string& out, const AnswerHead& head, std::size_t body_bytes) {
  append_common(out, head);
  out += "\r\nContent-Length: ";
  append_json_integer(out, static_cast<std::int64_t>(body_bytes));
  out += "\r\n\r\n";
}

void append_event_stream_head(std::string& out, const AnswerHead& head) {
  AnswerHead stream = head;
  stream.content_type = "text/event-stream; charset=utf-8";
  append_common(out, stream);
  out += "\r\nCache-Control: no-cache\r\nX-Accel-Buffering: no";
  if (head.http_1_1) out += "\r\nTransfer-Encoding: chunked";
  out += "\r\n\r\n";
}

std::string error_answer(const ApiError& error, AnswerHead head, bool head_only) {
  std::string body;
  append_error(body, error);
  head.status = error.status;
  head.retry_after_seconds = error.retry_after_seconds;
  head.allow = error.allow;
  head.authenticate = error.status == 401;
  std::string out;
  append_head(out, head, body.size());
  if (!head_only) out += body;
  return out;
}

}  // namespace causeway::server
