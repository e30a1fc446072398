// What this build is and what it was built with.
#pragma once

#include <string>

namespace causeway::app {

// "0.1.0"
std::string version();
// The commit that it was built from, with " and changes" where files differed; "unknown" without
// git.
std::string commit();
// The version and the options of the build, for --version.
std::string version_text();

}  // namespace causeway::app
