// One streamed completion over HTTP, as a coroutine: POST, then the times at which its tokens came.
// Works against any server that speaks the OpenAI completions API.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace causeway::bench {

struct Endpoint {
  std::string host = "127.0.0.1";
  std::string port = "8000";
  std::string prefix;   // of the path, e.g. "/v1"
  std::string api_key;  // sent as a bearer token when not empty
  std::vector<std::pair<std::string, std::string>> headers = {};  // that are sent as well
};

// "http://host:port/v1" → its parts. kInvalidArgument for other schemes.
Result<Endpoint> parse_base_url(const std::string& url, std::string api_key);
// Likewise of OpenAI's API, which is at /v1 where the URL has no path.
Result<Endpoint> parse_api_url(const std::string& url, std::string api_key);

// How long a client waits: for a sign of life, and in all.
struct Patience {
  Nanos silence = seconds(600);
  Nanos whole = {};  // from the beginning to the end; zero: as long as there are signs of life
};

struct StreamOutcome {
  Nanos sent;
  Nanos ended;
  std::vector<Nanos> token_times;      // one a content chunk, in order
  std::int64_t prompt_tokens = 0;      // from usage
  std::int64_t completion_tokens = 0;  // from usage; chunks when the server reports none
  std::int64_t cached_tokens = 0;
  int http_status = 0;
  std::string error;  // empty: complete
  // Its kind: "connection" (none, or none that carried a request and an answer's header), "HTTP
  // 429", "in the stream" (an error there, or what is no event), "stream broke off", "timeout".
  std::string failure;

  bool ok() const { return error.empty(); }
};

// POSTs `body` (JSON with "stream": true) to prefix + `path` on a connection of its own and reads
// the stream to its end, or as long as patience lasts.
boost::asio::awaitable<StreamOutcome> post_stream(Endpoint endpoint, std::string path,
                                                  std::string body, const Clock* clock,
                                                  Patience patience);

// A blocking GET; the body of a 200, of 64 MiB at most. kNotFound: it answers 404; kUnavailable:
// any other status, or none.
Result<std::string> get(const Endpoint& endpoint, const std::string& path, Nanos timeout);

// An answer of any status.
struct HttpAnswer {
  int status = 0;
  std::string body;

  // `error.code` of an error in OpenAI's form; "" without one.
  std::string error_code() const;
  // The error of an answer whose status is not 200, as of get(). `path`: that was asked.
  Error as_error(const std::string& path) const;
};
// A blocking POST of JSON; an answer of 64 MiB at most. kUnavailable: there was none.
Result<HttpAnswer> post(const Endpoint& endpoint, const std::string& path, std::string body,
                        Nanos timeout);

}  // namespace causeway::bench
