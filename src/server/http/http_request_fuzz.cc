// Any bytes as what a client sends: the server's own parser settings, routing and checks, without
// sockets. The bytes arrive in two pieces, cut where the first byte says.
#include <algorithm>
#include <boost/beast/core/flat_buffer.hpp>
#include <cstdint>

#include "server/http/answer_head.h"
#include "server/http/incoming.h"

namespace causeway::server {
namespace {

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
  const std::size_t cut = data[0] % size;
  causeway::server::fuzz(
      {reinterpret_cast<const char*>(data) + 1, size - 1}, std::min(cut, size - 1),
      data[0] % 2 == 0 ? causeway::server::Door::kPublic : causeway::server::Door::kAdmin);
  return 0;
}
