// Any bytes as a recorded workload. What is accepted is in order, from 0, within bounds.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "base/check.h"
#include "request/trace.h"

namespace causeway::request {
namespace {

constexpr Nanos kYears = seconds(std::int64_t{200} * 366 * 86'400);

void check(const Trace& trace) {
  Nanos before;
  for (const TraceEntry& entry : trace.entries) {
    CAUSEWAY_CHECK(entry.arrival >= before && entry.arrival <= kYears);
    before = entry.arrival;
    CAUSEWAY_CHECK(entry.prompt >= Tokens(0) && entry.output >= Tokens(0));
    CAUSEWAY_CHECK(trace.has_models || entry.model.empty());
    for (const TokenId id : entry.prompt_ids) CAUSEWAY_CHECK(id >= 0);
    for (const std::int64_t id : entry.block_ids) CAUSEWAY_CHECK(id >= 0);
  }
  if (!trace.entries.empty()) CAUSEWAY_CHECK(trace.entries.front().arrival == Nanos(0));
}

}  // namespace
}  // namespace causeway::request

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace causeway::request;  // NOLINT: the fuzzer's entry must be global
  // A file in memory, the same one every time.
  static const int file = ::memfd_create("trace", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  CAUSEWAY_CHECK(file >= 0 && ::ftruncate(file, 0) == 0);
  CAUSEWAY_CHECK(::pwrite(file, data, size, 0) == static_cast<ssize_t>(size));
  const auto all = load_trace(path, 0);
  if (!all.ok()) {
    CAUSEWAY_CHECK(all.error().message.starts_with(path));
    CAUSEWAY_CHECK(all.error().message.size() < 1000);
    return 0;
  }
  check(*all);
  const auto some = load_trace(path, 3);
  CAUSEWAY_CHECK(some.ok() && some->entries.size() <= 3);
  return 0;
}
