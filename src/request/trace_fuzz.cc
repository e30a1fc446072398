// Any bytes as a recorded workload, and changes of files of every format (edited_file.h). What is
// accepted is what a replay relies on: entries by arrival
// from 0, no more of them than asked for, and no number beyond what traces have.
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/testing/edited_file.h"
#include "request/trace.h"

namespace {

using namespace causeway;

const std::vector<std::string> kFiles = {
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n"
    "2023-11-16 18:17:04.0319569,3180,8\n",
    "num_prefill_tokens,num_decode_tokens\n7,2\n9,1\n",
    "gmt_create,b,c,d,e,f,g,h,i,checkpoint_model_version_id,k\n"
    "2024-11-15 16:57:50,T,S,32.0,G,63.0,26.0,1.0,30.0,M0007,0\n",
    "{\"input_toks\": 3, \"output_toks\": 5, \"arrival_time_ns\": 42, \"input_tok_ids\": [5, 6, "
    "7]}\n"
    "{\"input_toks\": 1, \"output_toks\": 1, \"arrival_time_ns\": 40, \"input_tok_ids\": [1]}\n",
    "{\"timestamp\": 10, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [0, 1]}\n"
    "{\"timestamp\": 40, \"input_length\": 9, \"output_length\": 6, \"hash_ids\": [2]}\n"};
constexpr std::string_view kWords[] = {
    "\n",       "\r\n",          ",",         "2024-02-30 25:61:61", "1e9", "\"",
    "hash_ids", "input_tok_ids", "timestamp", "output_length"};
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
  const auto file =
      testing::edited_file({kFiles, kWords}, {reinterpret_cast<const char*>(data) + 1, size - 1});
  std::istringstream in(file.text);
  const auto trace = request::read_trace(in, "trace", most);
  if (!trace.ok()) {
    CAUSEWAY_CHECK(!file.whole, trace.error().message);
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
