#include "server/tracing/http_post.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <charconv>
#include <chrono>
#include <exception>
#include <optional>

namespace causeway::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;

constexpr Nanos kGiveUpLook = millis(50);  // how often it is looked whether to give up
constexpr std::size_t kAnswerMax = std::size_t{64} << 10;
constexpr std::uint32_t kAnswerHeadMax = std::uint32_t{16} << 10;

using Request = http::request<http::string_body>;
using AnswerParser = http::response_parser<http::string_body>;

Request request_of(const HttpEndpoint& to, const std::string& body) {
  Request request(http::verb::post, to.path, 11);
  request.set(http::field::host, to.authority());
  request.set(http::field::user_agent, "causeway");
  request.set(http::field::content_type, "application/json");
  request.keep_alive(false);
  request.body() = body;
  request.prepare_payload();
  return request;
}

// Throws what the network says.
asio::awaitable<void> exchange(tcp::socket& socket, const tcp::resolver::results_type& places,
                               const Request& request, AnswerParser& parser) {
  co_await asio::async_connect(socket, places, asio::use_awaitable);
  co_await http::async_write(socket, request, asio::use_awaitable);
  boost::beast::flat_buffer buffer(kAnswerMax + kAnswerHeadMax);
  co_await http::async_read(socket, buffer, parser, asio::use_awaitable);
}

PostAnswer answer_of(AnswerParser& parser) {
  PostAnswer answer;
  answer.status = static_cast<int>(parser.get().result_int());
  const auto header = parser.get()[http::field::retry_after];
  int after = 0;
  const auto [end, failure] = std::from_chars(header.data(), header.data() + header.size(), after);
  if (failure == std::errc() && end == header.data() + header.size() && after > 0) {
    answer.retry_after_seconds = after;
  }
  answer.body = std::move(parser.get().body());
  return answer;
}

std::string message_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

Result<PostAnswer> post_json(const HttpEndpoint& to, const std::string& body, Nanos limit,
                             const std::atomic<bool>& gives_up) {
  asio::io_context io(1);
  boost::system::error_code error;
  tcp::resolver resolver(io);
  const auto places = resolver.resolve(to.host, std::to_string(to.port), error);
  if (error) return unavailable("`" + to.host + "` cannot be resolved: " + error.message());
  tcp::socket socket(io);
  const Request request = request_of(to, body);
  AnswerParser parser;
  parser.body_limit(kAnswerMax);
  parser.header_limit(kAnswerHeadMax);
  bool done = false;
  std::exception_ptr thrown;
  asio::co_spawn(io, exchange(socket, places, request, parser), [&](std::exception_ptr failure) {
    thrown = std::move(failure);
    done = true;
  });
  for (Nanos waited; !done && waited < limit && !gives_up; waited += kGiveUpLook) {
    io.run_for(std::chrono::nanoseconds(kGiveUpLook.count));
  }
  if (!done) {
    // What it waits for ends at once.
    socket.close(error);
    io.run();
    return Error{ErrorCode::kDeadlineExceeded,
                 "no answer within " + std::to_string(limit / millis(1)) + " ms"};
  }
  if (thrown) return unavailable(message_of(thrown));
  return answer_of(parser);
}

}  // namespace causeway::server
