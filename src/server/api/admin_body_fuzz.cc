// Any bytes as a body or a query of the admin port. The first byte picks which.
#include <cstdint>

#include "base/check.h"
#include "server/api/admin_body.h"
#include "text/utf8.h"

namespace causeway::server {
namespace {

void check(const MaybeError& error) {
  if (!error) return;
  CAUSEWAY_CHECK(error->status == 400 && !error->message.empty());
  CAUSEWAY_CHECK(error->message.size() < 1000);
  std::string out;
  append_error(out, *error);
  CAUSEWAY_CHECK(!text::first_invalid_utf8(out));
}

void fuzz(std::uint8_t which, std::string_view text) {
  AdminBody body;
  bool flag = false;
  switch (which % 5) {
    case 0: return check(parse_sleep_query(text, flag));
    case 1: return check(parse_wake_query(text));
    case 2: return check(parse_health_query(text, flag));
    default: break;
  }
  const bool may_wait = which % 5 == 3;
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
