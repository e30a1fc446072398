// Any bytes as a header `traceparent` or `tracestate`, or as the address of a collector, and
// changes of such (edited_file.h). The first byte picks which. What is accepted is written as the
// standard has it, and breaks no head that it becomes part of.
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/testing/edited_file.h"
#include "server/tracing/http_endpoint.h"
#include "server/tracing/trace_context.h"

namespace causeway::server {
namespace {

const std::vector<std::string> kParents = {
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-what-comes-later"};
const std::vector<std::string> kStates = {"congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"};
const std::vector<std::string> kAddresses = {"http://localhost:4318/v1/traces", "http://[::1]",
                                             "http://collector.example:80"};
constexpr std::string_view kWords[] = {"00-",
                                       "ff-",
                                       "00000000000000000000000000000000",
                                       "0000000000000000",
                                       "-01",
                                       "ABCDEF",
                                       "https://",
                                       "@",
                                       ":0",
                                       ":65536",
                                       "[",
                                       "]",
                                       "%0d%0a",
                                       "\r\n",
                                       "?x",
                                       "#y"};

bool is_printable(std::string_view text) {
  for (const char c : text) {
    if (c < ' ' || c > '~') return false;
  }
  return true;
}

void fuzz_parent(const std::string& text) {
  const auto context = parse_traceparent(text);
  if (!context) return;
  CAUSEWAY_CHECK((context->trace.high | context->trace.low) != 0 && context->parent != 0);
  const std::string written = "00-" + hex_of(context->trace) + "-" + hex_of(context->parent) +
                              (context->sampled ? "-01" : "-00");
  CAUSEWAY_CHECK(text.find(written.substr(2, 51)) != std::string::npos, text);
  CAUSEWAY_CHECK(parse_traceparent(written) == context, written);
  CAUSEWAY_CHECK(is_sampled(context->trace, 1) && !is_sampled(context->trace, 0));
}

void fuzz_state(const std::string& text) {
  const std::string state = passable_trace_state(text);
  CAUSEWAY_CHECK(state.size() <= 512 && is_printable(state));
  CAUSEWAY_CHECK(state.empty() || text.find(state) != std::string::npos);
}

void fuzz_address(const std::string& text, bool whole) {
  const auto endpoint = parse_otlp_endpoint(text);
  if (!endpoint.ok()) {
    CAUSEWAY_CHECK(!whole, endpoint.error().message);
    CAUSEWAY_CHECK(!endpoint.error().message.empty());
    return;
  }
  CAUSEWAY_CHECK(!endpoint->host.empty() && endpoint->path.starts_with('/'));
  CAUSEWAY_CHECK(is_printable(endpoint->url()) && endpoint->url().find(' ') == std::string::npos);
  const auto again = parse_otlp_endpoint(endpoint->url());
  CAUSEWAY_CHECK(again.ok() && again->url() == endpoint->url(), text);
}

}  // namespace
}  // namespace causeway::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace causeway::server;  // NOLINT: the fuzzer's entry must be global
  if (size == 0) return 0;
  const std::vector<std::string>* const kinds[] = {&kParents, &kStates, &kAddresses};
  const auto file = causeway::testing::edited_file(
      {*kinds[data[0] % 3], kWords}, {reinterpret_cast<const char*>(data) + 1, size - 1});
  switch (data[0] % 3) {
    case 0: fuzz_parent(file.text); break;
    case 1: fuzz_state(file.text); break;
    default: fuzz_address(file.text, file.whole); break;
  }
  return 0;
}
