#include "client/sse_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <optional>
#include <thread>

namespace causeway::bench::sse_client_test {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ::testing::HasSubstr;

// Answers one request with these bytes, or, without any, never.
class OneAnswer {
 public:
  explicit OneAnswer(const char* address, std::optional<std::string> answer)
      : acceptor_(io_, tcp::endpoint(asio::ip::make_address(address), 0)),
        thread_([this, answer = std::move(answer)] {
          tcp::socket socket = acceptor_.accept();
          asio::streambuf request;
          boost::system::error_code error;
          asio::read_until(socket, request, "\r\n\r\n", error);
          if (answer) asio::write(socket, asio::buffer(*answer), error);
          // Until the client has gone, when it has all or has waited long enough.
          char last;
          if (!answer) socket.read_some(asio::buffer(&last, 1), error);
        }) {}
  ~OneAnswer() { thread_.join(); }
  std::string port() const { return std::to_string(acceptor_.local_endpoint().port()); }

 private:
  asio::io_context io_;
  tcp::acceptor acceptor_;
  std::thread thread_;
};

Endpoint at(const OneAnswer& server) {
  Endpoint endpoint;
  endpoint.port = server.port();
  return endpoint;
}

StreamOutcome outcome_of(std::optional<std::string> answer, Patience patience) {
  OneAnswer server("127.0.0.1", std::move(answer));
  const RealClock clock;
  asio::io_context io;
  std::optional<StreamOutcome> outcome;
  asio::co_spawn(io, post_stream(at(server), "/completions", "{}", &clock, patience),
                 [&](const std::exception_ptr& thrown, StreamOutcome got) {
                   EXPECT_EQ(thrown, nullptr);
                   outcome = std::move(got);
                 });
  io.run();
  return outcome.value_or(StreamOutcome());
}

std::string header(std::size_t bytes, const char* status = "200 OK") {
  return std::string("HTTP/1.1 ") + status +
         "\r\nConnection: close\r\nContent-Type: text/event-stream\r\nContent-Length: " +
         std::to_string(bytes) + "\r\n\r\n";
}

StreamOutcome stream_of(const std::string& events) {
  return outcome_of(header(events.size()) + events, {.silence = seconds(20)});
}

TEST(SseClient, TellsHowARequestFailed) {
  const Patience patience{.silence = seconds(20)};
  EXPECT_EQ(stream_of("data: [DONE]\n\n").failure, "");
  EXPECT_EQ(stream_of("data: 7\n\n").failure, "in the stream");
  EXPECT_EQ(outcome_of(header(2, "429 Too Many Requests") + "{}", patience).failure, "HTTP 429");
  EXPECT_EQ(outcome_of(header(100) + "data: {}\n\n", patience).failure, "stream broke off");
  EXPECT_EQ(outcome_of("what is this?\r\n\r\n", patience).failure, "connection");
  EXPECT_EQ(outcome_of(std::nullopt, {.silence = millis(200)}).failure, "timeout");
  EXPECT_EQ(outcome_of(std::nullopt, {.silence = seconds(20), .whole = millis(200)}).failure,
            "timeout");
}

TEST(SseClient, ValuesOfOtherTypesAreAsIfAbsent) {
  const auto outcome = stream_of(
      "data: {\"choices\":[{\"text\":\"a\"},{\"text\":null},7]}\n\n"
      "data: {\"choices\":[{\"text\":null,\"finish_reason\":\"stop\"}]}\n\n"
      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":null,"
      "\"prompt_tokens_details\":{\"cached_tokens\":\"x\"}}}\n\n"
      "data: [DONE]\n\n");
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.token_times.size(), 1u);
  EXPECT_EQ(outcome.prompt_tokens, 3);
  EXPECT_EQ(outcome.completion_tokens, 1);
  EXPECT_EQ(outcome.cached_tokens, 0);
}

TEST(SseClient, NumbersMayBeThoseOfPython) {
  const auto outcome = stream_of(
      "data: {\"choices\":[{\"text\":\"a\",\"logprobs\":[NaN,-Infinity,1e999]}]}\n\n"
      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":18446744073709551616,"
      "\"completion_tokens\":9223372036854775808,"
      "\"prompt_tokens_details\":{\"cached_tokens\":-0}}}\n\n"
      "data: [DONE]\n\n");
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.token_times.size(), 1u);
  EXPECT_EQ(outcome.prompt_tokens, 0);
  EXPECT_EQ(outcome.completion_tokens, 1);
}

TEST(SseClient, WhatAModelThinksAreTokensToo) {
  const auto outcome = stream_of(
      "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"a\"}}]}\n\n"
      "data: {\"choices\":[{\"delta\":{\"reasoning\":\"b\",\"content\":null}}]}\n\n"
      "data: {\"choices\":[{\"delta\":{\"content\":\"c\"}}]}\n\n"
      "data: {\"choices\":[{\"delta\":{\"content\":null}},{\"delta\":5}]}\n\n"
      "data: [DONE]\n\n");
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.token_times.size(), 3u);
}

TEST(SseClient, ErrorsWithoutAMessageAreToldWhole) {
  EXPECT_THAT(stream_of("data: {\"error\":{\"message\":null,\"code\":5}}\n\n").error,
              HasSubstr("\"code\":5"));
}

TEST(SseClient, AServerThatNeverAnswersIsLeft) {
  OneAnswer server("127.0.0.1", std::nullopt);
  const auto got = get(at(server), "/models", millis(200));
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, ErrorCode::kUnavailable);
}

TEST(SseClient, AnAnswerOfAPostSaysWhatIsMissing) {
  const std::string body = R"({"error":{"message":"none","code":"model_not_found"}})";
  OneAnswer server("127.0.0.1", "HTTP/1.1 404 Not Found\r\nContent-Length: " +
                                    std::to_string(body.size()) + "\r\n\r\n" + body);
  const auto answer = post(at(server), "/load", "{}", seconds(20));
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->status, 404);
  EXPECT_EQ(answer->error_code(), "model_not_found");
  EXPECT_EQ(answer->as_error("/load").code, ErrorCode::kNotFound);
  EXPECT_EQ(answer->as_error("/load").message, "/load: HTTP 404: none");
  for (const char* other : {"", "[]", "5", R"({"error":"no"})", R"({"error":{"code":null}})"}) {
    EXPECT_EQ((HttpAnswer{.status = 500, .body = other}.error_code()), "") << other;
  }
  EXPECT_EQ((HttpAnswer{.status = 500, .body = ""}.as_error("/").code), ErrorCode::kUnavailable);
}

TEST(SseClient, AddressesInBrackets) {
  std::optional<OneAnswer> server;
  try {
    server.emplace("::1", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  } catch (const boost::system::system_error&) {
    GTEST_SKIP() << "this machine has no IPv6";
  }
  const auto endpoint = parse_base_url("http://[::1]:" + server->port(), "");
  ASSERT_TRUE(endpoint.ok());
  const auto got = get(*endpoint, "/models", seconds(20));
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_EQ(*got, "ok");
}

TEST(Endpoints, TheApiIsBehindV1WhereAUrlHasNoPath) {
  const auto prefix = [](const std::string& url) { return parse_api_url(url, "").value().prefix; };
  for (const char* url : {"http://a", "http://a:1", "http://a:1/", "http://a:1/v1",
                          "http://a:1/v1/", "http://a:1/v1//"}) {
    EXPECT_EQ(prefix(url), "/v1") << url;
  }
  EXPECT_EQ(prefix("http://a:1/other"), "/other");
  EXPECT_EQ(parse_base_url("http://a:1/", "").value().prefix, "");
  EXPECT_FALSE(parse_api_url("a:1", "").ok());
}

}  // namespace
}  // namespace causeway::bench::sse_client_test
