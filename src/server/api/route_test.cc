#include "server/api/route.h"

#include <gtest/gtest.h>

#include <tuple>

namespace causeway::server::route_test {
namespace {

int status_of(std::string_view method, std::string_view target, Door door = Door::kPublic) {
  Routed routed;
  const auto error = find_route(door, method, target, routed);
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
  for (const auto path : {"/v1/chat/completions", "/v1/completions", "/v1/responses",
                          "/v1/embeddings", "/tokenize", "/detokenize"}) {
    EXPECT_EQ(status_of("POST", path), 200) << path;
    EXPECT_EQ(status_of("GET", path), 405) << path;
  }
  for (const auto path : {"", "/", "/v1", "/v1/models/", "/v1/chat", "*", "/v1/models/%zz",
                          "/v1/models/%ff", "/../v1/models", "http://host"}) {
    EXPECT_EQ(status_of("GET", path), 404) << path;
  }
}

TEST(Route, WhatIsLeftOutSaysSo) {
  for (const auto& [method, path, word] :
       {std::tuple("POST", "/v1/score", "scores"), std::tuple("POST", "/score", "scores"),
        std::tuple("GET", "/v1/responses/resp_1/input_items", "not listed"),
        std::tuple("POST", "/v1/responses/resp_1/cancel", "background")}) {
    Routed routed;
    const auto error = find_route(Door::kPublic, method, path, routed);
    ASSERT_TRUE(error) << path;
    EXPECT_EQ(error->status, 404);
    EXPECT_EQ(error->code, "unsupported");
    EXPECT_NE(error->message.find("`" + std::string(path) + "`"), std::string::npos);
    EXPECT_NE(error->message.find(word), std::string::npos) << error->message;
  }
  Routed routed;
  EXPECT_EQ(find_route(Door::kPublic, "POST", "/v1/rank", routed)->code, "not_found");
}

TEST(Route, WhatIsElsewhereSaysWhere) {
  const std::string other_port = "OpenAI's API is on the other one";
  const std::tuple<Door, const char*, std::string> cases[] = {
      {Door::kPublic, "/", "GET /v1/models"},
      {Door::kPublic, "/v1", "GET /v1/models"},
      {Door::kPublic, "/v1/rank", "GET /v1/models"},
      {Door::kPublic, "/v1/completion", "did you mean `/v1/completions`?"},
      {Door::kPublic, "/v1/chat/completions/", "did you mean `/v1/chat/completions`?"},
      {Door::kPublic, "/chat/completions", "did you mean `/v1/chat/completions`?"},
      {Door::kPublic, "/models", "did you mean `/v1/models`?"},
      {Door::kPublic, "/v1/models/", "did you mean `/v1/models`?"},
      {Door::kPublic, "/admin/models", "the port for administration"},
      {Door::kPublic, "/sleep", "the port for administration"},
      {Door::kAdmin, "/admin", "the page is at `/`"},
      {Door::kAdmin, "/admin/modles", "did you mean `/admin/models`?"},
      {Door::kAdmin, "/v1/models", other_port},
      {Door::kAdmin, "/v1/models/a", other_port},
      {Door::kAdmin, "/tokenize", other_port},
  };
  for (const auto& [door, path, hint] : cases) {
    Routed routed;
    const auto error = find_route(door, "GET", path, routed);
    ASSERT_TRUE(error) << path;
    EXPECT_EQ(error->code, "not_found");
    EXPECT_NE(error->message.find(hint), std::string::npos) << error->message;
  }
  Routed routed;
  const std::string far = "/" + std::string(5000, 'a');
  EXPECT_TRUE(find_route(Door::kPublic, "GET", far, routed)->message.ends_with("`"));
}

TEST(Route, DecodesModelNames) {
  Routed routed;
  ASSERT_FALSE(find_route(Door::kPublic, "GET", "/v1/models/org/a%20b%2Fc", routed));
  EXPECT_EQ(routed.model_name, "org/a b/c");
}

TEST(Route, ResponsesAreReadAndDeletedById) {
  for (const std::string method : {"GET", "HEAD", "DELETE"}) {
    Routed routed;
    ASSERT_FALSE(find_route(Door::kPublic, method, "/v1/responses/resp%5F1?include=x", routed));
    EXPECT_EQ(routed.route, Route::kResponse);
    EXPECT_EQ(routed.response, "resp_1");
    EXPECT_EQ(routed.query, "include=x");
    EXPECT_EQ(routed.deletes, method == "DELETE");
    EXPECT_TRUE(needs_key(routed.route));
    EXPECT_FALSE(takes_body(routed.route) || administers(routed.route));
  }
  Routed routed;
  const auto posted = find_route(Door::kPublic, "POST", "/v1/responses/resp_1", routed);
  ASSERT_TRUE(posted);
  EXPECT_EQ(posted->status, 405);
  EXPECT_EQ(posted->allow, "GET, HEAD, DELETE");
  EXPECT_EQ(status_of("DELETE", "/v1/models/a"), 405);
  for (const auto path : {"/v1/responses/", "/v1/responses/%ff", "/v1/responses/a%2Fb"}) {
    EXPECT_EQ(status_of("GET", path), 404) << path;
  }
  EXPECT_EQ(status_of("GET", "/v1/responses/a", Door::kAdmin), 404);
}

TEST(Route, EachDoorHasItsOwnPaths) {
  for (const auto path :
       {"/admin/models/load", "/admin/models/unload", "/admin/models/pin", "/admin/models/unpin",
        "/admin/drain", "/admin/reload", "/admin/chat/completions", "/sleep?level=1", "/wake_up",
        "/models/load", "/models/unload"}) {
    EXPECT_EQ(status_of("POST", path, Door::kAdmin), 200) << path;
    EXPECT_EQ(status_of("GET", path, Door::kAdmin), 405) << path;
    EXPECT_EQ(status_of("POST", path), 404) << path;
  }
  for (const auto path : {"/admin/models", "/is_sleeping", "/models", "/"}) {
    EXPECT_EQ(status_of("GET", path, Door::kAdmin), 200) << path;
    EXPECT_EQ(status_of("POST", path, Door::kAdmin), 405) << path;
    EXPECT_EQ(status_of("GET", path), 404) << path;
  }
  for (const auto path : {"/health", "/ping", "/version", "/metrics"}) {
    EXPECT_EQ(status_of("GET", path, Door::kAdmin), 200) << path;
  }
  for (const auto path : {"/v1/models", "/v1/models/a", "/v1/chat/completions", "/tokenize",
                          "/admin/chat", "/page.html", "/admin", "/admin/models/a"}) {
    EXPECT_EQ(status_of("POST", path, Door::kAdmin), 404) << path;
  }
}

TEST(Route, KeepsTheQuery) {
  Routed routed;
  ASSERT_FALSE(find_route(Door::kPublic, "GET", "http://h/health?deep=1&a#part", routed));
  EXPECT_EQ(routed.query, "deep=1&a");
  const auto parameters = query_parameters("deep=1&a&b=x%20y&&=");
  ASSERT_TRUE(parameters);
  ASSERT_EQ(parameters->size(), 4u);
  EXPECT_EQ(parameters->at(0), std::pair(std::string("deep"), std::string("1")));
  EXPECT_EQ(parameters->at(1), std::pair(std::string("a"), std::string()));
  EXPECT_EQ(parameters->at(2), std::pair(std::string("b"), std::string("x y")));
  EXPECT_TRUE(query_parameters("")->empty());
  for (const auto bad : {"a=%", "%zz=1", "a=%ff", "a=1&b=%4"}) {
    EXPECT_FALSE(query_parameters(bad)) << bad;
  }
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
}  // namespace causeway::server::route_test
