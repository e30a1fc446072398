// Recorded workloads: when requests came, to which model, and how long they and their answers were.
// Reads the public formats that this field replays; the format is recognised from the content.
//
//   Azure LLM inference   CSV    TIMESTAMP,ContextTokens,GeneratedTokens
//   Mooncake              JSONL  timestamp (ms), input_length, output_length,
//                                hash_ids (each for 512 tokens)
//   ShareGPT, tokenized   JSONL  input_toks, output_toks, arrival_time_ns, input_tok_ids
//   lengths               CSV    num_prefill_tokens,num_decode_tokens,…           (no arrivals)
//   GenAI serving         CSV    gmt_create,…,checkpoint_model_version_id,…       (no lengths)
#pragma once

#include <filesystem>
#include <istream>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "base/units.h"

namespace causeway::request {

struct TraceEntry {
  Nanos arrival;      // since the first entry; 0 when the format has none
  std::string model;  // empty when the format has none
  Tokens prompt{0};   // 0 when the format has none
  Tokens output{0};
  std::vector<TokenId> prompt_ids;      // ShareGPT
  std::vector<std::int64_t> block_ids;  // Mooncake: equal ids are equal blocks of 512 tokens
};

struct Trace {
  std::vector<TraceEntry> entries;  // by arrival
  bool has_arrivals = false;
  bool has_models = false;
  bool has_lengths = false;
};

// At most `entries_max` entries from the start of the file (0: all). kCorrupt names the file and
// the line that is cut or too long, or has numbers or times that no trace has.
Result<Trace> load_trace(const std::filesystem::path& file, std::int64_t entries_max);
// Reads the same from a stream; `name` stands for the file in errors.
Result<Trace> read_trace(std::istream& in, const std::string& name, std::int64_t entries_max);

// Arrival times of a Poisson process of `per_second`, from 0. per_second = 0: all at once.
std::vector<Nanos> poisson_arrivals(std::int64_t count, double per_second, Random& random);

// Arrival times whose gaps have a Gamma distribution with the shape `burstiness` and the mean of a
// Poisson process (as in vLLM's benchmark). 1: a Poisson process with the same numbers as above;
// smaller: in bursts; larger: more even. > 0.
std::vector<Nanos> gamma_arrivals(std::int64_t count, double per_second, double burstiness,
                                  Random& random);

}  // namespace causeway::request
