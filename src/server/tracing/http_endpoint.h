// The address that spans are sent to: an http:// URL, read strictly, since it becomes part of what
// is sent.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace causeway::server {

struct HttpEndpoint {
  std::string host;  // a name or an address; of IPv6 without brackets
  std::uint16_t port = 0;
  std::string path;  // begins with a slash

  // Its host and port as the header Host has them.
  std::string authority() const;
  std::string url() const { return "http://" + authority() + path; }
};

// http://HOST[:PORT][/PATH]: without a port OTLP's 4318, without a path OTLP's /v1/traces.
// kInvalidArgument says what is wrong, and of https:// what to do.
Result<HttpEndpoint> parse_otlp_endpoint(std::string_view url);

}  // namespace causeway::server
