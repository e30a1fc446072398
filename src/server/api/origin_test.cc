#include "server/api/origin.h"

#include <gtest/gtest.h>

namespace causeway::server::origin_test {
namespace {

int status(std::string_view host, std::string_view origin) {
  const MaybeError error = check_site(host, origin);
  return error ? error->status : 200;
}

TEST(Origin, ProgramsSendNone) {
  for (const auto host :
       {"127.0.0.1:8001", "localhost:8001", "localhost", "[::1]:8001", "[::1]", ""})
    EXPECT_EQ(status(host, ""), 200) << host;
}

TEST(Origin, ItsOwnPageMayAsk) {
  for (const std::string host : {"127.0.0.1:8001", "localhost:8001", "[::1]:8001", "127.0.0.1"})
    EXPECT_EQ(status(host, "http://" + host), 200) << host;
}

TEST(Origin, OtherPagesMayNot) {
  for (const auto origin :
       {"http://evil.example", "null", "http://127.0.0.1:8002", "http://127.0.0.1",
        "https://127.0.0.1:8001", "127.0.0.1:8001", "http://localhost:8001",
        "http://127.0.0.1:8001.evil.example", "http://127.0.0.1:8001/"})
    EXPECT_EQ(status("127.0.0.1:8001", origin), 403) << origin;
  EXPECT_EQ(status("", "http://"), 200) << "no browser sends it";
}

TEST(Origin, NamesThatLeadHereAreNotTaken) {
  for (const auto host : {"evil.example:8001", "evil.example", "127.0.0.1.evil.example:8001",
                          "localhost.evil.example", "[::1]evil:80", "127.0.0.1:evil", ":80", "[",
                          "[]x", "a", "LOCALHOST.evil"}) {
    EXPECT_EQ(status(host, ""), 403) << host;
    EXPECT_EQ(status(host, std::string("http://") + host), 403) << host;
  }
}

}  // namespace
}  // namespace causeway::server::origin_test
