#include "server/api/origin.h"

#include <algorithm>

namespace causeway::server {
namespace {

ApiError forbidden(std::string message) {
  ApiError error = bad_request(std::move(message), {}, "forbidden");
  error.status = 403;
  return error;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool all_of(std::string_view text, bool (*is)(char)) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is);
}

// No top-level domain is a number, so digits and dots are an address.
bool is_address_or_localhost(std::string_view host) {
  if (host.starts_with('[')) return host.find(']') == host.size() - 1;
  const auto of_address = [](char c) { return is_digit(c) || c == '.'; };
  return host == "localhost" || all_of(host, of_address);
}

}  // namespace

MaybeError check_site(std::string_view host, std::string_view origin) {
  std::string_view name = host;
  const std::size_t colon = name.rfind(':');
  const bool has_port = colon != std::string_view::npos && all_of(name.substr(colon + 1), is_digit);
  if (has_port) name = name.substr(0, colon);
  if (!host.empty() && !is_address_or_localhost(name)) {
    return forbidden(
        "header Host: without a key for administration the server is asked by its address, or as "
        "localhost");
  }
  constexpr std::string_view kScheme = "http://";
  const bool own = origin.starts_with(kScheme) && origin.substr(kScheme.size()) == host;
  if (origin.empty() || own) return std::nullopt;
  return forbidden("a page of another site asks, and the server has no key for administration");
}

}  // namespace causeway::server
