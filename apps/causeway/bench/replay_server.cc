#include "bench/replay_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/slice_parts.h"

namespace causeway::bench {
namespace {

constexpr std::int64_t kPromptTokensMax = 500'000'000;  // of all requests: 2 GB
constexpr Nanos kReadyPoll = millis(500);

bool is_ready(const ServedModel& model) {
  return model.status == "ready" || model.status == "active" || model.status.empty();
}

// The models, when the server answers and all are ready if that is waited for.
Result<std::vector<ServedModel>> catalogue_of(const ReplayTarget& target, const Clock& clock) {
  const Nanos begin = clock.now();
  while (true) {
    auto models = served_models(target.endpoint);
    const bool late = clock.now() - begin >= target.ready_max;
    // What stands before a server that starts may answer 404.
    const bool may_come = !models.ok() && (models.error().code == ErrorCode::kUnavailable ||
                                           models.error().code == ErrorCode::kNotFound);
    if (!models.ok() && (late || !may_come)) return models.error();
    const std::int64_t all = models.ok() ? std::ssize(*models) : 0;
    const std::int64_t ready =
        all > 0 ? std::count_if(models->begin(), models->end(), is_ready) : 0;
    if (models.ok() && (target.ready_max == Nanos(0) || ready == all)) return models;
    if (late) {
      return Error{ErrorCode::kDeadlineExceeded,
                   fmt::format("{} of {} models are ready after {:.0f} s: see the server's log, or "
                               "--wait-ready",
                               ready, all, to_seconds(target.ready_max))};
    }
    pause_until(clock.now() + kReadyPoll, clock);
  }
}

Result<std::vector<MetricSample>> metrics_of(const Endpoint& endpoint) {
  Endpoint root = endpoint;
  root.prefix = "";
  CAUSEWAY_ASSIGN(const std::string text, get(root, "/metrics", seconds(10)));
  return parse_metrics(text);
}

std::vector<std::pair<std::string, std::string>> headers_of(const request::Slo& slo) {
  return {{"x-slo-ttft-ms", fmt::format("{}", to_millis(slo.ttft))},
          {"x-slo-tpot-ms", fmt::format("{}", to_millis(slo.tpot))}};
}

ReplayCounters counters_of(const Result<std::vector<MetricSample>>& before,
                           const Result<std::vector<MetricSample>>& after, Nanos took) {
  for (const auto* metrics : {&before, &after}) {
    if (metrics->ok()) continue;
    ReplayCounters unknown;
    unknown.missing = metrics->error().message;
    return unknown;
  }
  return counters_between(*before, *after, took);
}

// Below which all of the models take token ids.
Result<std::int64_t> vocab_of(const std::vector<ServedModel>& models, std::int64_t wanted) {
  if (wanted < 0) return invalid_argument("--vocab-size is at least 1");
  std::int64_t vocab = wanted > 0 ? wanted : kPromptVocab;
  for (const ServedModel& model : models) {
    if (model.vocab == 0 || model.vocab >= vocab) continue;
    if (wanted > 0) {
      return invalid_argument(fmt::format(
          "--vocab-size {}: {} has {} tokens only; leave it out, or give what all models have",
          wanted, model.name, model.vocab));
    }
    vocab = model.vocab;
  }
  return vocab;
}

}  // namespace

Result<std::vector<LoadRequest>> replay_requests(const simulate::Workload& list,
                                                 const std::vector<ServedModel>& models,
                                                 std::int64_t wanted_vocab) {
  CAUSEWAY_ASSIGN(const std::int64_t vocab, vocab_of(models, wanted_vocab));
  std::int64_t tokens = 0;
  std::vector<LoadRequest> requests;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const simulate::Arrival& arrival = list[i];
    const ServedModel& model = models[arrival.model];
    const Tokens length = arrival.prompt + arrival.output;
    if (model.max_model_len > Tokens(0) && length > model.max_model_len) {
      return invalid_argument(fmt::format(
          "a request of {} and {} tokens is more than the {} that {} takes: give "
          "--input-max and --output-max",
          arrival.prompt.count, arrival.output.count, model.max_model_len.count, model.name));
    }
    tokens += arrival.prompt.count;
    if (tokens > kPromptTokensMax) {
      return invalid_argument(fmt::format(
          "more than {} tokens of prompts: give --max-requests or --input-max", kPromptTokensMax));
    }
    requests.push_back(
        {.arrival = arrival.at,
         .model = model.name,
         .prompt = simulate::prompt_tokens(arrival, static_cast<std::int64_t>(i), vocab),
         .output_tokens = arrival.output.count});
  }
  return requests;
}

Result<ReplayReport> replay_on_server(const ReplayTarget& target, const ReplayOptions& options,
                                      const Clock& clock) {
  CAUSEWAY_ASSIGN(const auto models, catalogue_of(target, clock));
  CAUSEWAY_ASSIGN(const auto list, replay_list(options, models.size()));
  CAUSEWAY_ASSIGN(const auto requests, replay_requests(list, models, target.vocab));
  LoadOptions load;
  load.endpoint = target.endpoint;
  load.endpoint.headers = headers_of(options.slo);
  load.timeout = target.request_max;
  load.request_max = target.request_max;
  load.progress = target.progress;
  const auto before = metrics_of(target.endpoint);
  const Nanos begin = clock.now();
  const auto records = run_load(requests, load, clock);
  const Nanos took = clock.now() - begin;
  const auto after = metrics_of(target.endpoint);
  ReplayReport report =
      report_replay(list, records, {.ttft = options.slo.ttft, .tpot = options.slo.tpot},
                    counters_of(before, after, took));
  report.mode = "server";
  report.source = fmt::format("http://{}:{}", target.endpoint.host, target.endpoint.port);
  report.models = models.size();
  return report;
}

}  // namespace causeway::bench
