#include "client/workload.h"

#include <algorithm>
#include <map>

#include "base/random.h"
#include "request/trace.h"

namespace causeway::bench {
namespace {

constexpr std::int64_t kMooncakeBlock = 512;

std::int64_t spread(std::int64_t mean, double share, Random& random) {
  const auto half = static_cast<std::int64_t>(static_cast<double>(mean) * share);
  return std::max<std::int64_t>(1, random.between(mean - half, mean + half));
}

std::vector<TokenId> random_ids(std::int64_t count, std::int64_t vocab, Random& random) {
  std::vector<TokenId> ids(static_cast<std::size_t>(count));
  for (TokenId& id : ids) id = static_cast<TokenId>(random.below(vocab));
  return ids;
}

// Prompt ids of a trace entry: its own, or its blocks' (equal ids give equal tokens, so prefixes
// are shared as in the trace), or random ones of its length.
std::vector<TokenId> prompt_of(const request::TraceEntry& entry, std::int64_t length,
                               const WorkloadOptions& options, Random& random) {
  std::vector<TokenId> ids;
  for (const TokenId id : entry.prompt_ids) {
    ids.push_back(static_cast<TokenId>(id % options.vocab));
  }
  for (const std::int64_t block : entry.block_ids) {
    Random content(options.seed ^ mix64(static_cast<std::uint64_t>(block)));
    const auto part = random_ids(kMooncakeBlock, options.vocab, content);
    ids.insert(ids.end(), part.begin(), part.end());
  }
  const auto wanted = static_cast<std::size_t>(length);
  if (ids.size() < wanted) {
    const auto rest =
        random_ids(static_cast<std::int64_t>(wanted - ids.size()), options.vocab, random);
    ids.insert(ids.end(), rest.begin(), rest.end());
  }
  ids.resize(wanted);
  return ids;
}

std::int64_t at_most(std::int64_t value, std::int64_t most) {
  return std::max<std::int64_t>(1, most > 0 ? std::min(value, most) : value);
}

// The trace's models mapped onto ours, in order of first appearance.
class ModelChoice {
 public:
  ModelChoice(const std::vector<std::string>& models, Random& random)
      : models_(models), random_(random) {}

  const std::string& choose(const std::string& trace_model) {
    if (trace_model.empty()) {
      return models_[static_cast<std::size_t>(
          random_.below(static_cast<std::int64_t>(models_.size())))];
    }
    const auto [found, added] = seen_.emplace(trace_model, seen_.size());
    return models_[found->second % models_.size()];
  }

 private:
  const std::vector<std::string>& models_;
  Random& random_;
  std::map<std::string, std::size_t> seen_;
};

}  // namespace

Result<std::vector<LoadRequest>> make_workload(const WorkloadOptions& options) {
  if (options.models.empty()) return invalid_argument("no model to send requests to");
  if (options.vocab < 1) return invalid_argument("--vocab-size must be at least 1");
  Random random(options.seed);
  request::Trace trace;
  if (options.trace.empty()) {
    trace.entries.resize(static_cast<std::size_t>(options.requests));
  } else {
    CAUSEWAY_ASSIGN(trace, request::load_trace(options.trace, options.requests));
  }
  const auto count = static_cast<std::int64_t>(trace.entries.size());
  const bool poisson = options.requests_per_second > 0 || !trace.has_arrivals;
  const auto arrivals = request::poisson_arrivals(count, options.requests_per_second, random);

  ModelChoice models(options.models, random);
  std::vector<LoadRequest> requests;
  for (std::size_t i = 0; i < trace.entries.size(); ++i) {
    request::TraceEntry& entry = trace.entries[i];
    if (!trace.has_lengths) {
      entry.prompt = Tokens(spread(options.input_tokens, options.length_spread, random));
      entry.output = Tokens(spread(options.output_tokens, options.length_spread, random));
    }
    LoadRequest request;
    request.arrival = poisson ? arrivals[i]
                              : Nanos(static_cast<std::int64_t>(
                                    static_cast<double>(entry.arrival.count) * options.time_scale));
    request.model = models.choose(entry.model);
    request.prompt =
        prompt_of(entry, at_most(entry.prompt.count, options.input_tokens_max), options, random);
    request.output_tokens = at_most(entry.output.count, options.output_tokens_max);
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace causeway::bench
