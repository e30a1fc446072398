#include "server/api/api_error.h"

#include "server/api/json_write.h"

namespace causeway::server {

ApiError bad_request(std::string message, std::string param, std::string code) {
  ApiError error;
  error.message = std::move(message);
  error.param = std::move(param);
  error.code = std::move(code);
  return error;
}

ApiError model_not_found(std::string_view model) {
  ApiError error = bad_request({}, "model", "model_not_found");
  error.status = 404;
  // A name from outside is shown cut: an error is no way to have a megabyte echoed.
  error.message = "the model `" + utf8_prefix(model, 128) +
                  "` does not exist; GET /v1/models lists those that do";
  return error;
}

ApiError unauthorised() {
  ApiError error = bad_request("a valid API key is needed: header Authorization: Bearer KEY", {},
                               "invalid_api_key");
  error.status = 401;
  return error;
}

ApiError body_too_large(std::size_t bytes_max) {
  ApiError error = bad_request("the body is larger than " + std::to_string(bytes_max) + " bytes");
  error.status = 413;
  error.code = "request_too_large";
  return error;
}

ApiError queue_full(std::string message) {
  ApiError error;
  error.status = 429;
  error.message = std::move(message);
  error.type = "rate_limit_error";
  error.code = "queue_full";
  error.retry_after_seconds = 1;
  return error;
}

ApiError device_hung() {
  ApiError error = draining();
  error.message = "the device does not answer: its step has not ended in time";
  error.code = "device_hung";
  return error;
}

ApiError device_lost(std::string why) {
  ApiError error = draining();
  error.message = std::move(why);
  error.code = "device_lost";
  return error;
}

ApiError draining() {
  ApiError error;
  error.status = 503;
  error.message = "the server is shutting down";
  error.type = "service_unavailable";
  error.code = "draining";
  return error;
}

ApiError cancelled_by_server() {
  ApiError error = draining();
  error.message = "the request was cancelled by the server";
  error.code = "cancelled";
  return error;
}

ApiError conflict(std::string message) {
  ApiError error = bad_request(std::move(message), {}, "conflict");
  error.status = 409;
  return error;
}

ApiError client_closed() {
  return bad_request(
      "the client closed its sending side before the answer was complete; the request was "
      "cancelled",
      {}, "client_closed_request");
}

ApiError internal_error(std::string message) {
  ApiError error;
  error.status = 500;
  error.message = std::move(message);
  error.type = "server_error";
  return error;
}

ApiError from_error(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument: return bad_request(error.message);
    case ErrorCode::kResourceExhausted: return queue_full(error.message);
    // The model was there when its name was looked up, and has been removed since.
    case ErrorCode::kNotFound: {
      ApiError answer = bad_request(error.message, "model", "model_not_found");
      answer.status = 404;
      return answer;
    }
    case ErrorCode::kUnavailable: {
      ApiError answer = draining();
      answer.message = error.message;
      answer.code = "unavailable";
      return answer;
    }
    default: return internal_error(error.message);
  }
}

void append_error(std::string& out, const ApiError& error) {
  const auto string_or_null = [&out](const std::string& text) {
    if (text.empty()) {
      out += "null";
    } else {
      append_json_string(out, text);
    }
  };
  out += "{\"error\":{\"message\":";
  append_json_string(out, error.message);
  out += ",\"type\":";
  append_json_string(out, error.type);
  out += ",\"param\":";
  string_or_null(error.param);
  out += ",\"code\":";
  string_or_null(error.code);
  out += "}}";
}

}  // namespace causeway::server
