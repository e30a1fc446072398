// The page of the admin port (page.html), embedded when the program is built.
#pragma once

#include <string_view>

namespace causeway::server {

extern const std::string_view kPage;
// Its Content-Security-Policy: its own script and style by their hashes, and requests to where it
// comes from; nothing else.
extern const std::string_view kPagePolicy;

}  // namespace causeway::server
