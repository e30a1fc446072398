#include "server/tracing/http_endpoint.h"

#include <algorithm>
#include <boost/asio/ip/address_v6.hpp>
#include <charconv>

#include "server/api/json_write.h"

namespace causeway::server {
namespace {

constexpr std::uint16_t kOtlpPort = 4318;
constexpr std::string_view kOtlpPath = "/v1/traces";
constexpr std::size_t kUrlMax = 2048, kHostMax = 253;

Error wrong(std::string_view url, std::string_view why) {
  return invalid_argument("`" + to_valid_utf8(utf8_prefix(url, 128)) + "`: " + std::string(why) +
                          "; wanted is http://HOST:PORT, e.g. http://127.0.0.1:4318");
}

bool is_name(std::string_view host) {
  return !host.empty() && host.size() <= kHostMax &&
         std::all_of(host.begin(), host.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '.' || c == '_';
         });
}

// Digits and colons alone: a zone (%eth0) is of this machine, and no part of a header.
bool is_ipv6(std::string_view host) {
  const bool plain = std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || (c >= '0' && c <= '9') || c == ':' ||
           c == '.';
  });
  if (!plain) return false;
  boost::system::error_code error;
  boost::asio::ip::make_address_v6(std::string(host), error);
  return !error;
}

bool is_path(std::string_view path) {
  return std::all_of(path.begin(), path.end(), [](char c) {
    return c > ' ' && c <= '~' &&
           std::string_view("\"<>\\^`{|}?#").find(c) == std::string_view::npos;
  });
}

}  // namespace

std::string HttpEndpoint::authority() const {
  const bool ipv6 = host.find(':') != std::string::npos;
  return (ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<HttpEndpoint> parse_otlp_endpoint(std::string_view url) {
  constexpr std::string_view kScheme = "http://";
  if (url.size() > kUrlMax) return wrong(url, "it is too long");
  if (url.starts_with("https://")) {
    return wrong(url,
                 "this server does not encrypt what it sends; run a collector beside it, "
                 "which passes spans on by https");
  }
  if (!url.starts_with(kScheme)) return wrong(url, "it is no http:// URL");
  std::string_view rest = url.substr(kScheme.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view path = rest.substr(slash);
  std::string_view authority = rest.substr(0, slash);
  HttpEndpoint out{.host = {}, .port = kOtlpPort, .path = std::string(kOtlpPath)};
  std::string_view port;
  if (authority.starts_with('[')) {
    const std::size_t end = authority.find(']');
    if (end == std::string_view::npos) return wrong(url, "its [ has no ]");
    out.host = authority.substr(1, end - 1);
    if (!is_ipv6(out.host)) return wrong(url, "what stands in [ ] is no IPv6 address");
    port = authority.substr(end + 1);
  } else {
    const std::size_t colon = std::min(authority.find(':'), authority.size());
    out.host = authority.substr(0, colon);
    if (!is_name(out.host)) return wrong(url, "it has no host, or one that cannot be");
    port = authority.substr(colon);
  }
  if (!port.empty()) {
    const char* const end = port.data() + port.size();
    const auto [read, failure] = std::from_chars(port.data() + 1, end, out.port);
    const bool number = port[0] == ':' && failure == std::errc() && read == end && out.port > 0;
    if (!number) return wrong(url, "its port is no number from 1 to 65535");
  }
  if (!is_path(path)) return wrong(url, "its path has characters that are to be percent-encoded");
  if (path.size() > 1) out.path = path;
  return out;
}

}  // namespace causeway::server
