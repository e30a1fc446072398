// Decides which browsers' pages may ask a port of this machine that has no key. A browser that runs
// on this machine reaches the port, and so do the pages of all sites that it shows.
#pragma once

#include <string_view>

#include "server/api/api_error.h"

namespace causeway::server {

// `host` and `origin`: those headers, empty where there are none. 403 for what another site's page
// sends (its origin is not this server), and for a host that is neither an address nor "localhost":
// a name of that site may have been made to lead here (DNS rebinding).
MaybeError check_site(std::string_view host, std::string_view origin);

}  // namespace causeway::server
