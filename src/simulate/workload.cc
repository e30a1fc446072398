#include "simulate/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "base/remainder.h"

namespace causeway::simulate {
namespace {

constexpr std::int64_t kTraceBlock = 512;

Tokens exponential_tokens(Tokens mean, Random& random) {
  return Tokens(1 + static_cast<std::int64_t>(
                        random.exponential(static_cast<double>(std::max(mean.count - 1, 0L)))));
}

// Places of a stream of tokens that is made up.
struct Piece {
  std::uint64_t stream = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

void append(const Piece& piece, const Remainder& of_vocab, std::vector<TokenId>& tokens) {
  const std::uint64_t seed = mix64(piece.stream) + static_cast<std::uint64_t>(piece.first);
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(piece.count); ++i) {
    tokens.push_back(static_cast<TokenId>(of_vocab.of(mix64(seed + i))));
  }
}

request::Request request_with(std::vector<TokenId> prompt, const Arrival& arrival,
                              std::int64_t index) {
  request::Request request;
  request.id = RequestId(index);
  request.model = ModelId(static_cast<std::int64_t>(arrival.model));
  request.prompt = std::move(prompt);
  request.max_tokens = arrival.output;
  request.slo = arrival.slo;
  request.priority = arrival.priority;
  request.arrival = arrival.at;
  return request;
}

}  // namespace

Status check_burstiness(double burstiness) {
  constexpr double kLeast = 0.01, kMost = 1000;
  // Written so that NaN fails.
  if (burstiness >= kLeast && burstiness <= kMost) return {};
  return invalid_argument(
      fmt::format("burstiness is a shape from {} to {}, not {}", kLeast, kMost, burstiness));
}

Workload poisson_workload(const PoissonOptions& options) {
  CAUSEWAY_CHECK(options.requests >= 0 && options.models >= 1, "a workload without a model");
  Random random(options.seed);
  Workload workload;
  for (const Nanos at :
       request::gamma_arrivals(options.requests, options.per_second, options.burstiness, random)) {
    Arrival arrival;
    arrival.at = at;
    arrival.model =
        static_cast<std::size_t>(random.below(static_cast<std::int64_t>(options.models)));
    arrival.prompt = exponential_tokens(options.prompt_mean, random);
    arrival.output = exponential_tokens(options.output_mean, random);
    arrival.slo = options.slo;
    workload.push_back(std::move(arrival));
  }
  return workload;
}

Workload fixed_workload(const std::vector<FixedRequests>& models, request::Slo slo) {
  Workload workload;
  for (std::size_t model = 0; model < models.size(); ++model) {
    Arrival arrival;
    arrival.model = model;
    arrival.prompt = models[model].prompt;
    arrival.output = models[model].output;
    arrival.slo = slo;
    for (std::int64_t i = 0; i < models[model].count; ++i) workload.push_back(arrival);
  }
  return workload;
}

Result<Workload> trace_workload(const request::Trace& trace, const TraceOptions& options) {
  if (!(options.speed > 0) || !(options.per_second > 0) || options.models < 1) {
    return invalid_argument("a trace needs a positive speed, a positive rate and a model");
  }
  CAUSEWAY_TRY(check_burstiness(options.burstiness));
  const std::size_t entries = trace.entries.size();
  const std::size_t count =
      options.requests > 0 ? static_cast<std::size_t>(options.requests) : entries;
  const bool recorded = trace.has_arrivals && options.own_arrivals;
  if (count > entries && (recorded || entries == 0)) {
    return invalid_argument(fmt::format(
        "{} requests are asked of a trace with {}: only with made arrivals it is repeated", count,
        entries));
  }
  Random random(options.seed);
  std::vector<Nanos> times;
  if (!recorded) {
    times = request::gamma_arrivals(static_cast<std::int64_t>(count), options.per_second,
                                    options.burstiness, random);
  }
  std::map<std::string, std::size_t> models;
  Workload workload;
  for (std::size_t i = 0; i < count; ++i) {
    const request::TraceEntry& entry = trace.entries[i % entries];
    Arrival arrival;
    arrival.at =
        recorded ? nanos_from_seconds(to_seconds(entry.arrival) / options.speed) : times[i];
    const std::size_t turn =
        trace.has_models ? models.emplace(entry.model, models.size()).first->second : i;
    arrival.model = turn % options.models;
    arrival.prompt =
        entry.prompt.count > 0 ? entry.prompt : exponential_tokens(options.prompt_mean, random);
    arrival.output =
        entry.output.count > 0 ? entry.output : exponential_tokens(options.output_mean, random);
    arrival.slo = options.slo;
    // One that comes again asks something else: nothing of its prompt is cached.
    if (i < entries) arrival.prompt_ids = entry.prompt_ids;
    if (i < entries) arrival.block_ids = entry.block_ids;
    workload.push_back(std::move(arrival));
  }
  return workload;
}

std::vector<TokenId> prompt_tokens(const Arrival& arrival, std::int64_t index, std::int64_t vocab) {
  std::vector<TokenId> tokens;
  tokens.reserve(static_cast<std::size_t>(arrival.prompt.count));
  const Remainder of_vocab(static_cast<std::uint64_t>(vocab));
  for (const TokenId id : arrival.prompt_ids) {
    if (std::ssize(tokens) == arrival.prompt.count) return tokens;
    tokens.push_back(static_cast<TokenId>(id % vocab));
  }
  while (std::ssize(tokens) < arrival.prompt.count) {
    const std::int64_t at = std::ssize(tokens), left = arrival.prompt.count - at;
    const std::int64_t block = at / kTraceBlock, first = at % kTraceBlock;
    if (block < std::ssize(arrival.block_ids)) {
      const auto stream =
          static_cast<std::uint64_t>(arrival.block_ids[static_cast<std::size_t>(block)]) * 2;
      append({stream, first, std::min(left, kTraceBlock - first)}, of_vocab, tokens);
    } else {
      append({static_cast<std::uint64_t>(index) * 2 + 1, at, left}, of_vocab, tokens);
    }
  }
  return tokens;
}

request::Request request_of(const Arrival& arrival, std::int64_t index, std::int64_t vocab) {
  return request_with(prompt_tokens(arrival, index, vocab), arrival, index);
}

request::Request blank_request_of(const Arrival& arrival, std::int64_t index) {
  const auto size_of = [](Tokens tokens) {
    return static_cast<std::size_t>(std::max<std::int64_t>(0, tokens.count));
  };
  std::vector<TokenId> prompt;
  prompt.reserve(size_of(arrival.prompt) + size_of(arrival.output));  // the answer follows
  prompt.resize(size_of(arrival.prompt));
  return request_with(std::move(prompt), arrival, index);
}

}  // namespace causeway::simulate
