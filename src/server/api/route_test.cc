#include "server/api/route.h"

#include <gtest/gtest.h>

namespace causeway::server {
namespace {

int status_of(std::string_view method, std::string_view target) {
  Routed routed;
  const auto error = find_route(method, target, routed);
  return error ? error->status : 200;
}

TEST(Route, KnowsItsPaths) {
  for (const auto path : {"/v1/models", "/health", "/ping", "/version", "/metrics", "/v1/models/a",
                          "/v1/models?limit=3", "http://host:80/health"}) {
    EXPECT_EQ(status_of("GET", path), 200) << path;
    EXPECT_EQ(status_of("HEAD", path), 200) << path;
    EXPECT_EQ(status_of("POST", path), 405) << path;
    EXPECT_EQ(status_of("OPTIONS", path), 405) << path;
  }
  for (const auto path : {"/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"}) {
    EXPECT_EQ(status_of("POST", path), 200) << path;
    EXPECT_EQ(status_of("GET", path), 405) << path;
  }
  for (const auto path : {"", "/", "/v1", "/v1/models/", "/v1/chat", "*", "/v1/models/%zz",
                          "/v1/models/%ff", "/../v1/models", "http://host"}) {
    EXPECT_EQ(status_of("GET", path), 404) << path;
  }
}

TEST(Route, DecodesModelNames) {
  Routed routed;
  ASSERT_FALSE(find_route("GET", "/v1/models/org/a%20b%2Fc", routed));
  EXPECT_EQ(routed.model_name, "org/a b/c");
}

TEST(Authorised, ComparesWholeKeys) {
  const std::vector<std::string> keys = {"secret-1", "secret-22"};
  EXPECT_TRUE(authorised("Bearer secret-1", keys));
  EXPECT_TRUE(authorised("Bearer secret-22", keys));
  for (const auto wrong : {"", "Bearer", "Bearer ", "secret-1", "Bearer secret-2",
                           "Bearer secret-11", "Bearer secret-1secret-1", "Basic secret-1"}) {
    EXPECT_FALSE(authorised(wrong, keys)) << wrong;
  }
  EXPECT_TRUE(authorised("", {}));
  EXPECT_FALSE(authorised("Bearer ", {""}));
}

}  // namespace
}  // namespace causeway::server
