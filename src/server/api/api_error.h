// An answer that is an error, in OpenAI's form:
//   {"error": {"message": …, "type": …, "param": … | null, "code": … | null}}
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace causeway::server {

struct ApiError {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param;            // "": null
  std::string code;             // "": null
  int retry_after_seconds = 0;  // > 0: header Retry-After
  std::string_view allow;       // not "": header Allow (405)
};

// nullopt: no error.
using MaybeError = std::optional<ApiError>;

ApiError bad_request(std::string message, std::string param = {}, std::string code = {});
ApiError model_not_found(std::string_view model);
ApiError unauthorised();
ApiError body_too_large(std::size_t bytes_max);
ApiError queue_full(std::string message);
ApiError draining();
ApiError cancelled_by_server();
ApiError device_hung();
ApiError device_lost(std::string why);
ApiError conflict(std::string message);
ApiError client_closed();
ApiError internal_error(std::string message);

// The status of an error of Fleet::submit or of rendering: kInvalidArgument 400, kResourceExhausted
// 429, kNotFound 404, kUnavailable 503, anything else 500.
ApiError from_error(const Error& error);

// Appends the object {"error": …}.
void append_error(std::string& out, const ApiError& error);

}  // namespace causeway::server
