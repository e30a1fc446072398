// Any bytes as a recorded workload. What is accepted is what a replay relies on: entries by arrival
// from 0, no more of them than asked for, and no number beyond what traces have.
#include <cstdint>
#include <iterator>
#include <sstream>
#include <string>

#include "base/check.h"
#include "request/trace.h"

namespace {

using namespace causeway;

// How files of the formats begin, so that what follows is read as one of them.
constexpr const char* kBegins[] = {"",
                                   "TIMESTAMP,ContextTokens,GeneratedTokens\n",
                                   "num_prefill_tokens,num_decode_tokens\n",
                                   "gmt_create,b,c,d,e,f,g,h,i,checkpoint_model_version_id,k\n",
                                   "{\"input_toks\": 3, ",
                                   "{\"input_length\": 600, "};
constexpr std::int64_t kTokens = 100'000'000;
constexpr std::int64_t kYears = 200;

void check_entry(const request::Trace& trace, const request::TraceEntry& entry) {
  const auto within = [](Tokens tokens) { return tokens.count >= 0 && tokens.count <= kTokens; };
  CAUSEWAY_CHECK(within(entry.prompt) && within(entry.output), "a length that no request has");
  CAUSEWAY_CHECK(entry.arrival <= seconds(kYears * 366 * 86'400), "a time that no trace has");
  CAUSEWAY_CHECK(trace.has_models || entry.model.empty(), "a model in a trace without models");
  CAUSEWAY_CHECK(trace.has_arrivals || entry.arrival == Nanos(0), "a time in a trace without");
  for (const TokenId token : entry.prompt_ids) CAUSEWAY_CHECK(token >= 0, "a token below zero");
  for (const std::int64_t block : entry.block_ids) CAUSEWAY_CHECK(block >= 0, "a block below zero");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::int64_t most = data[0] % 8;  // 0: all
  std::string content = kBegins[data[0] / 8 % std::size(kBegins)];
  content.append(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::istringstream in(content);
  const auto trace = request::read_trace(in, "trace", most);
  if (!trace.ok()) {
    CAUSEWAY_CHECK(trace.error().message.starts_with("trace:"), "an error names the file");
    return 0;
  }
  const auto& entries = trace->entries;
  CAUSEWAY_CHECK(most == 0 || std::ssize(entries) <= most, "more entries than asked for");
  Nanos before;
  for (const request::TraceEntry& entry : entries) {
    CAUSEWAY_CHECK(entry.arrival >= before, "entries are by arrival, from 0");
    before = entry.arrival;
    check_entry(*trace, entry);
  }
  return 0;
}
