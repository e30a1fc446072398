// Any bytes as a body, a query, or the headers Host and Origin (a line each) of the admin port. The
// first byte picks which, and what is behind it changes one that is well formed (edited_file.h).
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/testing/edited_file.h"
#include "server/api/admin_body.h"
#include "server/api/origin.h"
#include "text/utf8.h"

namespace causeway::server {
namespace {

const std::vector<std::string> kBodies = {R"({"model": "m"})", R"({"model": "m", "wait": false})"};
const std::vector<std::string> kSleeps = {"level=1", "level=2&mode=abort", "level=0&mode=keep",
                                          "mode=wait"};
const std::vector<std::string> kWakes = {"tags=weights", "tags=weights&tags=kv_cache"};
const std::vector<std::string> kHealths = {"deep=1", "deep=false"};
const std::vector<std::string> kSites = {
    "localhost:8001\nhttp://localhost:8001", "127.0.0.1:8001\nhttp://127.0.0.1:8001",
    "[::1]:8001\nhttp://[::1]:8001", "evil.example:8001\nhttp://evil.example:8001"};
constexpr std::string_view kWords[] = {"model",   "wait",     "level",     "mode",
                                       "keep",    "tags",     "%6d",       "&level=2",
                                       "http://", "https://", "localhost", ":8001"};

// What the input says, of the kind `which`.
std::string text_of(std::uint8_t which, std::string_view input) {
  const std::vector<std::string>* files = &kBodies;
  if (which == 0) files = &kSleeps;
  if (which == 1) files = &kWakes;
  if (which == 2) files = &kHealths;
  if (which == 5) files = &kSites;
  return testing::edited_file({*files, kWords}, input).text;
}

void check(const MaybeError& error) {
  if (!error) return;
  CAUSEWAY_CHECK(error->status == 400 && !error->message.empty());
  CAUSEWAY_CHECK(error->message.size() < 1000);
  std::string out;
  append_error(out, *error);
  CAUSEWAY_CHECK(!text::first_invalid_utf8(out));
}

// A caller that is let in with an origin is the server's own page, by an address or as localhost.
void fuzz_site(std::string_view text) {
  const std::string_view host = text.substr(0, text.find('\n'));
  const std::string_view origin = text.substr(std::min(text.size(), host.size() + 1));
  const MaybeError error = check_site(host, origin);
  CAUSEWAY_CHECK(!error || error->status == 403);
  if (error || origin.empty()) return;
  CAUSEWAY_CHECK(origin.starts_with("http://") && origin.substr(7) == host);
  if (host.empty() || host.starts_with('[')) return;
  const std::string_view name = host.substr(0, host.find(':'));
  CAUSEWAY_CHECK(name == "localhost" ||
                 name.find_first_not_of("0123456789.") == std::string_view::npos);
}

void fuzz(std::uint8_t which, std::string_view input) {
  const std::string text = text_of(which % 6, input);
  AdminBody body;
  bool flag = false;
  SleepQuery sleep;
  switch (which % 6) {
    case 0: return check(parse_sleep_query(text, sleep));
    case 1: return check(parse_wake_query(text));
    case 2: return check(parse_health_query(text, flag));
    case 5: return fuzz_site(text);
    default: break;
  }
  const bool may_wait = which % 6 == 3;
  const MaybeError error = parse_admin_body(text, {}, may_wait, body);
  check(error);
  if (error) return;
  CAUSEWAY_CHECK(!body.model.empty() && !text::first_invalid_utf8(body.model));
  CAUSEWAY_CHECK(body.wait || may_wait);
}

}  // namespace
}  // namespace causeway::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  causeway::server::fuzz(data[0], {reinterpret_cast<const char*>(data) + 1, size - 1});
  return 0;
}
