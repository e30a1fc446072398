#include "server/tracing/http_endpoint.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace causeway::server::http_endpoint_test {
namespace {

std::string read(std::string_view url) {
  const auto endpoint = parse_otlp_endpoint(url);
  return endpoint.ok() ? endpoint->url() : endpoint.error().message;
}

TEST(OtlpEndpoint, PortAndPathAreThoseOfOtlpUnlessTheyAreSaid) {
  EXPECT_EQ(read("http://127.0.0.1:9000"), "http://127.0.0.1:9000/v1/traces");
  EXPECT_EQ(read("http://otel-collector.monitoring"),
            "http://otel-collector.monitoring:4318/v1/traces");
  EXPECT_EQ(read("http://localhost:4318/"), "http://localhost:4318/v1/traces");
  EXPECT_EQ(read("http://a_b:1/team/v1/traces"), "http://a_b:1/team/v1/traces");
  EXPECT_EQ(read("http://[::1]:4318"), "http://[::1]:4318/v1/traces");
  EXPECT_EQ(read("http://[fe80::1]"), "http://[fe80::1]:4318/v1/traces");
}

TEST(OtlpEndpoint, WhatIsWrongIsSaid) {
  EXPECT_NE(read("https://host:4318").find("run a collector beside it"), std::string::npos);
  for (const std::string_view url : {"",
                                     "http:/",
                                     "http://",
                                     "http://:4318",
                                     "host:4318",
                                     "HTTP://host",
                                     "ftp://host",
                                     "http://user@host",
                                     "http://user:word@host:1",
                                     "http://host:",
                                     "http://host:0",
                                     "http://host:65536",
                                     "http://host:-1",
                                     "http://host:+1",
                                     "http://host:1x",
                                     "http://host:1:2",
                                     "http://ho st",
                                     "http://host\r\nX: y",
                                     "http://host:1/a b",
                                     "http://host:1/\r\nX: y",
                                     "http://host/?q=1",
                                     "http://host?q=1",
                                     "http://host#f",
                                     "http://host/#f",
                                     "http://[::1",
                                     "http://[::1]x",
                                     "http://[]:1",
                                     "http://[::g]:1",
                                     "http://[::1%25eth0]:1",
                                     "http://[127.0.0.1]:1",
                                     "http://\xc3\xa4:1",
                                     "http://host/\xc3\xa4"}) {
    const auto endpoint = parse_otlp_endpoint(url);
    ASSERT_FALSE(endpoint.ok()) << url;
    EXPECT_EQ(endpoint.error().code, ErrorCode::kInvalidArgument) << url;
    EXPECT_NE(endpoint.error().message.find("wanted is http://HOST:PORT"), std::string::npos);
  }
  EXPECT_FALSE(parse_otlp_endpoint("http://" + std::string(254, 'a')).ok());
  EXPECT_FALSE(parse_otlp_endpoint("http://a/" + std::string(3000, 'a')).ok());
}

// Whatever is taken can stand in a request's head.
TEST(OtlpEndpoint, NothingThatIsTakenBreaksAHead) {
  constexpr std::string_view kAlphabet("http:/[]ax1.%@?#\r\n \t\x00\xff", 23);
  Random random(1);
  int taken = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string url = "http://a";
    for (auto left = random.below(12); left > 0; --left) {
      url += kAlphabet[static_cast<std::size_t>(random.below(std::ssize(kAlphabet)))];
    }
    const auto endpoint = parse_otlp_endpoint(url);
    if (!endpoint.ok()) continue;
    ++taken;
    for (const char c : endpoint->url()) EXPECT_TRUE(c > ' ' && c <= '~') << url;
  }
  EXPECT_GT(taken, 100);
}

}  // namespace
}  // namespace causeway::server::http_endpoint_test
