// Any bytes as what a client sends, and changes of requests (edited_file.h): the server's own
// parser settings, routing and checks, without sockets. The bytes arrive in two pieces, cut where
// the first byte says.
#include <algorithm>
#include <boost/beast/core/flat_buffer.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/testing/edited_file.h"
#include "server/http/answer_head.h"
#include "server/http/incoming.h"

namespace causeway::server {
namespace {

const std::vector<std::string> kRequests = {
    "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost:8000\r\nAuthorization: Bearer key\r\n"
    "Content-Type: application/json\r\nx-slo-ttft-ms: 500\r\nx-slo-tpot-ms: 50\r\n"
    "x-slo-ttft-slack: 0.5\r\nx-slo-tpot-slack: -1\r\ntraceparent: "
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\ntracestate: a=b,c=d\r\n"
    "Content-Length: 2\r\n\r\n{}",
    "POST /admin/models/load HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://127.0.0.1\r\n"
    "Authorization: Bearer admin\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    "2;a=b\r\n{}\r\n0\r\nT: x\r\n\r\n",
    "GET /v1/models/a%2Fb?x=1 HTTP/1.0\r\nConnection: keep-alive\r\nx-admin-key: admin\r\n\r\n"};
constexpr std::string_view kWords[] = {"\r\n",
                                       "\r\nHost: x",
                                       "Transfer-Encoding: gzip, chunked",
                                       "Content-Length: 7",
                                       "x-slo-ttft-ms: 1e9",
                                       "Upgrade: h2c",
                                       "HTTP/1.0",
                                       "DELETE",
                                       "HEAD",
                                       "CONNECT",
                                       "/metrics",
                                       ": ",
                                       "FFFFFFFFFFFFFFFF\r\n"};

const ServerOptions& options() {
  static const ServerOptions all = [] {
    ServerOptions made;
    made.api_keys = {"key"};
    made.admin.emplace().keys = {"admin"};
    made.limits.header_bytes_max = 1024;
    made.limits.body_bytes_max = 4096;
    return made;
  }();
  return all;
}

void answer(const ApiError& error, const Incoming& incoming) {
  CAUSEWAY_CHECK(error.status >= 400 && error.status < 600 && !error.message.empty());
  AnswerHead head;
  head.http_1_1 = incoming.http_1_1;
  const std::string bytes = error_answer(error, head, incoming.routed.head);
  // Nothing from outside ends a line of the answer's head.
  const std::string_view lines(bytes.data(), bytes.find("\r\n\r\n"));
  for (const char c : lines) CAUSEWAY_CHECK(c == '\r' || c == '\n' || (c >= ' ' && c < 0x7F));
}

void look(const Parser& parser, Door door, Incoming& incoming) {
  const MaybeError error = examine(parser, options(), door, incoming);
  if (error) return answer(*error, incoming);
  CAUSEWAY_CHECK(!administers(incoming.routed.route) || door == Door::kAdmin);
  CAUSEWAY_CHECK(request::check_slo(incoming.slo.over({})).ok());
  if (!takes_body(incoming.routed.route) || !parser.is_done()) return;
  CAUSEWAY_CHECK(parser.get().body().size() <= options().limits.body_bytes_max);
}

void fuzz(std::string_view bytes, std::size_t cut, Door door) {
  Parser parser;
  configure(parser, options().limits);
  parser.eager(true);
  boost::beast::flat_buffer buffer;
  Incoming incoming;
  for (const std::string_view piece : {bytes.substr(0, cut), bytes.substr(cut)}) {
    const auto space = buffer.prepare(piece.size());
    std::copy(piece.begin(), piece.end(), static_cast<char*>(space.data()));
    buffer.commit(piece.size());
    boost::system::error_code error;
    while (buffer.size() > 0 && !parser.is_done() && !error) {
      buffer.consume(parser.put(buffer.data(), error));
    }
    if (error && error != boost::beast::http::error::need_more) {
      return answer(parse_failure(error, options().limits), incoming);
    }
  }
  if (parser.is_header_done()) look(parser, door, incoming);
}

}  // namespace
}  // namespace causeway::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  using causeway::server::Door;
  const std::string sent =
      causeway::testing::edited_file({causeway::server::kRequests, causeway::server::kWords},
                                     {reinterpret_cast<const char*>(data) + 1, size - 1})
          .text;
  causeway::server::fuzz(sent, data[0] % (sent.size() + 1),
                         data[0] % 2 == 0 ? Door::kPublic : Door::kAdmin);
  return 0;
}
