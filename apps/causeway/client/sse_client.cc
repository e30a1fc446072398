#include "client/sse_client.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/json_numbers.h"

namespace causeway::bench {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::size_t kErrorBodyMax = 4096;
constexpr std::size_t kBodyMax = std::size_t{64} << 20;

auto result_in(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

http::request<http::string_body> make_request(const Endpoint& endpoint, http::verb verb,
                                              const std::string& path, std::string body) {
  http::request<http::string_body> request{verb, endpoint.prefix + path, 11};
  request.set(http::field::host, endpoint.host);
  request.set(http::field::user_agent, "causeway-bench");
  if (!endpoint.api_key.empty()) {
    request.set(http::field::authorization, "Bearer " + endpoint.api_key);
  }
  for (const auto& [name, value] : endpoint.headers) request.set(name, value);
  if (!body.empty()) request.set(http::field::content_type, "application/json");
  request.body() = std::move(body);
  request.prepare_payload();
  return request;
}

// Cuts a byte stream into the payloads of its "data:" lines.
class SseSplitter {
 public:
  template <typename OnData>
  void push(std::string_view bytes, OnData on_data) {
    pending_.append(bytes);
    std::size_t begin = 0;
    for (std::size_t end; (end = pending_.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      std::string_view line(pending_.data() + begin, end - begin);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.starts_with("data:")) continue;
      line.remove_prefix(5);
      if (line.starts_with(' ')) line.remove_prefix(1);
      on_data(line);
    }
    pending_.erase(0, begin);
  }

 private:
  std::string pending_;
};

// An answer's JSON, with the numbers that servers in Python write (NaN, 1e999); discarded when the
// text is not JSON.
nlohmann::json parse_answer(std::string_view text) {
  std::string buffer;
  return nlohmann::json::parse(plain_json_numbers(text, buffer), nullptr,
                               /*allow_exceptions=*/false);
}

// Any server may answer, so nothing is taken to have the type that it should: what has another,
// null too, is as if it were not there.
std::string text_of(const nlohmann::json& object, const char* name, std::string otherwise) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : otherwise;
}
std::int64_t count_of(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer()) return 0;
  // An integer from 2^63 up would wrap.
  const bool wraps = found->is_number_unsigned() && found->get<std::uint64_t>() > INT64_MAX;
  return wraps ? 0 : found->get<std::int64_t>();
}

bool carries_token(const nlohmann::json& choice) {
  if (choice.contains("text")) return choice["text"].is_string();
  const auto delta = choice.find("delta");
  if (delta == choice.end() || !delta->is_object()) return false;
  // What a model thinks is named differently by different servers.
  for (const char* name : {"content", "reasoning_content", "reasoning"}) {
    const auto text = delta->find(name);
    if (text != delta->end() && !text->is_null()) return true;
  }
  return false;
}

void take_usage(const nlohmann::json& event, StreamOutcome& outcome) {
  const auto usage = event.find("usage");
  if (usage == event.end() || !usage->is_object()) return;
  outcome.prompt_tokens = count_of(*usage, "prompt_tokens");
  outcome.completion_tokens = count_of(*usage, "completion_tokens");
  const auto details = usage->find("prompt_tokens_details");
  if (details != usage->end() && details->is_object()) {
    outcome.cached_tokens = count_of(*details, "cached_tokens");
  }
}

void fail(StreamOutcome& outcome, std::string failure, std::string error) {
  outcome.failure = std::move(failure);
  outcome.error = std::move(error);
}

void take_event(std::string_view data, Nanos now, StreamOutcome& outcome) {
  if (data == "[DONE]") return;
  const auto event = parse_answer(data);
  if (!event.is_object()) {
    return fail(outcome, "in the stream", "the server sent an event that is not a JSON object");
  }
  if (const auto error = event.find("error"); error != event.end()) {
    return fail(outcome, "in the stream", text_of(*error, "message", error->dump()));
  }
  take_usage(event, outcome);
  const auto choices = event.find("choices");
  if (choices == event.end() || !choices->is_array()) return;
  for (const auto& choice : *choices) {
    const bool finishes = choice.contains("finish_reason") && !choice["finish_reason"].is_null();
    const bool empty = finishes && text_of(choice, "text", "").empty() && !choice.contains("delta");
    if (carries_token(choice) && !empty) outcome.token_times.push_back(now);
  }
}

std::string http_error(int status, std::string body) {
  const auto parsed = parse_answer(body);
  if (parsed.is_object() && parsed.contains("error")) {
    body = text_of(parsed["error"], "message", body);
  }
  return "HTTP " + std::to_string(status) + ": " + body.substr(0, kErrorBodyMax);
}

// An address of IPv6 is in brackets in a URL, and without them for the resolver.
std::string resolvable(const std::string& host) {
  return host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
}

// `stream` gives up `timeout` from now.
asio::awaitable<void> connect(beast::tcp_stream& stream, const Endpoint& endpoint, Nanos timeout,
                              error_code& error) {
  tcp::resolver resolver(co_await asio::this_coro::executor);
  const auto addresses =
      co_await resolver.async_resolve(resolvable(endpoint.host), endpoint.port, result_in(error));
  stream.expires_after(std::chrono::nanoseconds(timeout.count));
  if (!error) co_await stream.async_connect(addresses, result_in(error));
}

std::string failure_of(const error_code& error, const char* otherwise) {
  return error == beast::error::timeout ? "timeout" : otherwise;
}

using StreamParser = http::response_parser<http::buffer_body>;

// When a client that began at `sent` and has a sign of life now gives up.
class Deadline {
 public:
  Deadline(Patience patience, Nanos sent, const Clock& clock)
      : patience_(patience), sent_(sent), clock_(clock) {}
  // From now on.
  Nanos left() const {
    if (patience_.whole == Nanos(0)) return patience_.silence;
    const Nanos whole = std::max(Nanos(0), sent_ + patience_.whole - clock_.now());
    return std::min(patience_.silence, whole);
  }
  void set(beast::tcp_stream& stream) const {
    stream.expires_after(std::chrono::nanoseconds(left().count));
  }

 private:
  const Patience patience_;
  const Nanos sent_;
  const Clock& clock_;
};

// Reads the body to its end, handing each piece to the splitter (or, for an error, collecting it).
asio::awaitable<void> read_body(beast::tcp_stream& stream, beast::flat_buffer& buffer,
                                StreamParser& parser, const Clock& clock, const Deadline& deadline,
                                StreamOutcome& outcome) {
  SseSplitter splitter;
  std::string error_body;
  char piece[16384];
  while (!parser.is_done()) {
    parser.get().body().data = piece;
    parser.get().body().size = sizeof piece;
    error_code error;
    deadline.set(stream);
    co_await http::async_read_some(stream, buffer, parser, result_in(error));
    if (error == http::error::need_buffer) error = {};
    const std::string_view bytes(piece, sizeof piece - parser.get().body().size);
    if (outcome.http_status == 200) {
      const Nanos now = clock.now();
      splitter.push(bytes, [&](std::string_view data) { take_event(data, now, outcome); });
    } else if (error_body.size() < kErrorBodyMax) {
      error_body.append(bytes);
    }
    if (error) {
      fail(outcome, failure_of(error, "stream broke off"),
           "the stream broke off: " + error.message());
      co_return;
    }
  }
  if (outcome.http_status == 200) co_return;
  fail(outcome, "HTTP " + std::to_string(outcome.http_status),
       http_error(outcome.http_status, error_body));
}

}  // namespace

Result<Endpoint> parse_base_url(const std::string& url, std::string api_key) {
  static const std::regex pattern(R"(http://(\[[^\]]+\]|[^/:]+)(?::(\d{1,5}))?(/.*?)?/?)");
  std::smatch match;
  if (!std::regex_match(url, match, pattern)) {
    return invalid_argument("'" + url + "' is no URL of the form http://HOST:PORT");
  }
  Endpoint endpoint;
  endpoint.host = match[1];
  if (match[2].matched) endpoint.port = match[2];
  endpoint.prefix = match[3];
  while (endpoint.prefix.ends_with('/')) endpoint.prefix.pop_back();
  endpoint.api_key = std::move(api_key);
  return endpoint;
}

Result<Endpoint> parse_api_url(const std::string& url, std::string api_key) {
  CAUSEWAY_ASSIGN(Endpoint endpoint, parse_base_url(url, std::move(api_key)));
  if (endpoint.prefix.empty()) endpoint.prefix = "/v1";
  return endpoint;
}

asio::awaitable<StreamOutcome> post_stream(Endpoint endpoint, std::string path, std::string body,
                                           const Clock* clock, Patience patience) {
  StreamOutcome outcome;
  outcome.sent = clock->now();
  const Deadline deadline(patience, outcome.sent, *clock);
  error_code error;
  beast::tcp_stream stream(co_await asio::this_coro::executor);
  co_await connect(stream, endpoint, deadline.left(), error);
  if (!error) {
    stream.socket().set_option(tcp::no_delay(true), error);
    auto request = make_request(endpoint, http::verb::post, path, std::move(body));
    co_await http::async_write(stream, request, result_in(error));
  }
  beast::flat_buffer buffer;
  StreamParser parser;
  parser.body_limit(boost::none);
  if (!error) co_await http::async_read_header(stream, buffer, parser, result_in(error));
  if (error) {
    fail(outcome, failure_of(error, "connection"),
         "cannot reach " + endpoint.host + ":" + endpoint.port + ": " + error.message());
  } else {
    outcome.http_status = parser.get().result_int();
    co_await read_body(stream, buffer, parser, *clock, deadline, outcome);
  }
  outcome.ended = clock->now();
  if (outcome.completion_tokens == 0) {
    outcome.completion_tokens = static_cast<std::int64_t>(outcome.token_times.size());
  }
  co_return outcome;
}

namespace {

// Asynchronous, since the stream's time limit holds for nothing else.
asio::awaitable<void> fetch(const Endpoint& endpoint,
                            const http::request<http::string_body>& request, Nanos timeout,
                            http::response<http::string_body>& response, error_code& error) {
  beast::tcp_stream stream(co_await asio::this_coro::executor);
  co_await connect(stream, endpoint, timeout, error);
  if (!error) co_await http::async_write(stream, request, result_in(error));
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(kBodyMax);
  if (!error) co_await http::async_read(stream, buffer, parser, result_in(error));
  response = parser.release();
}

Result<HttpAnswer> answer_to(const Endpoint& endpoint,
                             const http::request<http::string_body>& request, Nanos timeout) {
  asio::io_context io;
  http::response<http::string_body> response;
  error_code error;
  asio::co_spawn(io, fetch(endpoint, request, timeout, response, error), asio::detached);
  io.run();
  if (error) {
    return unavailable("cannot reach " + endpoint.host + ":" + endpoint.port + ": " +
                       error.message() + "; is the server running?");
  }
  return HttpAnswer{static_cast<int>(response.result_int()), std::move(response.body())};
}

}  // namespace

std::string HttpAnswer::error_code() const {
  const auto parsed = parse_answer(body);
  if (!parsed.is_object() || !parsed.contains("error")) return "";
  return text_of(parsed["error"], "code", "");
}

Error HttpAnswer::as_error(const std::string& path) const {
  const bool missing = status == static_cast<int>(http::status::not_found);
  return Error{missing ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
               path + ": " + http_error(status, body)};
}

Result<std::string> get(const Endpoint& endpoint, const std::string& path, Nanos timeout) {
  CAUSEWAY_ASSIGN(HttpAnswer answer,
                  answer_to(endpoint, make_request(endpoint, http::verb::get, path, ""), timeout));
  if (answer.status != 200) return answer.as_error(path);
  return std::move(answer.body);
}

Result<HttpAnswer> post(const Endpoint& endpoint, const std::string& path, std::string body,
                        Nanos timeout) {
  return answer_to(endpoint, make_request(endpoint, http::verb::post, path, std::move(body)),
                   timeout);
}

}  // namespace causeway::bench
