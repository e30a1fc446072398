#include "bench/replay_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/random.h"
#include "bench/zipf.h"
#include "request/trace.h"

namespace causeway::bench {
namespace {

using request::Trace;
using request::TraceEntry;

constexpr std::int64_t kEntriesMax = 5'000'000;  // of a trace, or that a Poisson process makes
constexpr std::int64_t kCopiesMax = 10'000;
constexpr double kCopiesWithin = 60;  // seconds of the trace
constexpr std::int64_t kTokensMax = 1 << 20;
constexpr double kZipf = 1.0;
constexpr std::int64_t kInput = 512, kOutput = 64;

// Each has numbers of its own, so that one does not change with another's options.
enum class Stream : std::uint64_t { kArrivals = 1, kLengths, kModels, kCopies };
Random random_of(const ReplayOptions& options, Stream stream) {
  return Random(mix64(options.seed ^ mix64(static_cast<std::uint64_t>(stream))));
}

Status check_range(const char* name, double value, double least, double most) {
  if (value >= least && value <= most) return {};  // not a number fails
  return invalid_argument(fmt::format("{} is from {} to {}, not {}", name, least, most, value));
}

Status check(const ReplayOptions& options, std::size_t models) {
  if (models == 0) return invalid_argument("the catalogue has no models");
  CAUSEWAY_TRY(check_range("--compress", options.compress, 1e-3, 1e9));
  CAUSEWAY_TRY(check_range("--skip", options.skip, 0, 1e10));
  CAUSEWAY_TRY(check_range("--seconds", options.seconds, 0, 1e9));
  CAUSEWAY_TRY(check_range("--rate", options.rate, 1e-6, 1e6));
  CAUSEWAY_TRY(check_range("--zipf", options.zipf.value_or(kZipf), 0, 10));
  CAUSEWAY_TRY(simulate::check_burstiness(options.burstiness));
  CAUSEWAY_TRY(request::check_slo(options.slo));
  for (const std::int64_t tokens : {options.input, options.output}) {
    if (tokens < 0 || tokens > kTokensMax) {
      return invalid_argument(fmt::format("--input-len and --output-len are to {}", kTokensMax));
    }
  }
  if (options.input_max < 1 || options.output_max < 1) {
    return invalid_argument("--input-max and --output-max are at least 1");
  }
  if (options.requests_max < 0) return invalid_argument("--max-requests is 0 or more");
  if (!options.lengths.empty() && (options.input > 0 || options.output > 0)) {
    return invalid_argument(
        "lengths are fixed or of a file: --lengths excludes --input-len and "
        "--output-len");
  }
  if (options.trace.empty() &&
      (options.compress != 1 || options.skip != 0 || options.copies != 1)) {
    return invalid_argument("--compress, --skip and --copies are of a trace: give --trace");
  }
  if (options.copies < 1 || options.copies > kCopiesMax) {
    return invalid_argument(fmt::format("--copies is from 1 to {}", kCopiesMax));
  }
  return {};
}

Result<Trace> read_trace(const std::string& file) {
  CAUSEWAY_ASSIGN(Trace trace, request::load_trace(file, kEntriesMax));
  if (trace.entries.empty()) return invalid_argument(file + ": has no requests");
  return trace;
}

// When a request comes, and the trace's entry that it is of.
struct Due {
  Nanos at;
  const TraceEntry* entry = nullptr;  // null: made
  std::int64_t copy = 0;              // of it
};

Result<std::vector<Due>> made_arrivals(const ReplayOptions& options) {
  const bool endless = options.seconds == 0;
  if (endless && options.requests_max == 0) {
    return invalid_argument("a Poisson process has no end: give --seconds or --max-requests");
  }
  double count = 2 * options.rate * options.seconds + 100;
  if (options.requests_max > 0) {
    const auto most = static_cast<double>(options.requests_max);
    count = endless ? most : std::min(count, most);
  }
  if (count > static_cast<double>(kEntriesMax)) {
    return invalid_argument(
        fmt::format("more than {} requests: less of --rate × --seconds, or "
                    "--max-requests",
                    kEntriesMax));
  }
  Random random = random_of(options, Stream::kArrivals);
  std::vector<Due> due;
  for (const Nanos at : request::gamma_arrivals(static_cast<std::int64_t>(count), options.rate,
                                                options.burstiness, random)) {
    if (!endless && to_seconds(at) >= options.seconds) break;
    due.push_back({.at = at});
  }
  return due;
}

// The first copy of each stays where it is.
std::vector<Due> copied(const std::vector<Due>& due, const ReplayOptions& options) {
  if (options.copies == 1) return due;
  std::vector<Due> all;
  all.reserve(due.size() * static_cast<std::size_t>(options.copies));
  Random random = random_of(options, Stream::kCopies);
  for (const Due& one : due) {
    all.push_back(one);
    for (std::int64_t copy = 1; copy < options.copies; ++copy) {
      const double later = random.uniform() * kCopiesWithin / options.compress;
      all.push_back({one.at + nanos_from_seconds(later), one.entry, copy});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Due& a, const Due& b) { return a.at < b.at; });
  return all;
}

Result<std::vector<Due>> recorded_arrivals(const ReplayOptions& options, const Trace& trace) {
  if (!trace.has_arrivals) {
    return invalid_argument(options.trace +
                            ": has lengths and no arrivals: give it as --lengths, and --rate");
  }
  std::vector<Due> due;
  for (const TraceEntry& entry : trace.entries) {
    const double at = (to_seconds(entry.arrival) - options.skip) / options.compress;
    if (at < 0) continue;
    if (options.seconds > 0 && at >= options.seconds) break;
    due.push_back({nanos_from_seconds(at), &entry});
    if (options.requests_max > 0 && std::ssize(due) == options.requests_max) break;
  }
  if (std::ssize(due) * options.copies > kEntriesMax) {
    return invalid_argument(fmt::format("more than {} requests: fewer --copies", kEntriesMax));
  }
  if (!due.empty()) return copied(due, options);
  return invalid_argument(fmt::format(
      "{}: none of its {} requests is within {:g} s from {:g} s on, of {:.0f} s: see --skip, "
      "--compress and --seconds",
      options.trace, trace.entries.size(), options.seconds * options.compress, options.skip,
      to_seconds(trace.entries.back().arrival)));
}

// Which place of the catalogue a trace's model has: the most popular the first; of equals the first
// by name.
std::map<std::string, std::size_t> places_of(const Trace& trace, std::size_t models) {
  std::map<std::string, std::int64_t> counts;
  for (const TraceEntry& entry : trace.entries) ++counts[entry.model];
  std::vector<std::pair<std::string, std::int64_t>> order(counts.begin(), counts.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < order.size(); ++i) places[order[i].first] = i % models;
  return places;
}

Tokens cut(std::int64_t tokens, std::int64_t most) {
  return Tokens(std::clamp<std::int64_t>(tokens, 1, most));
}

void set_models(const ReplayOptions& options, const Trace& trace, const std::vector<Due>& due,
                std::size_t models, simulate::Workload& list) {
  if (trace.has_models && !options.zipf) {
    const auto places = places_of(trace, models);
    const auto copies = static_cast<std::size_t>(options.copies);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto copy = static_cast<std::size_t>(due[i].copy);
      list[i].model = (places.at(due[i].entry->model) * copies + copy) % models;
    }
    return;
  }
  const Zipf zipf(static_cast<std::int64_t>(models), options.zipf.value_or(kZipf));
  Random random = random_of(options, Stream::kModels);
  for (simulate::Arrival& arrival : list) {
    arrival.model = static_cast<std::size_t>(zipf.choose(random));
  }
}

// Prompts keep the blocks that they share in the trace; their tokens are made up, as the ids of a
// trace are of another vocabulary.
Status set_lengths(const ReplayOptions& options, const Trace& trace, const std::vector<Due>& due,
                   simulate::Workload& list) {
  Trace lengths;
  if (!options.lengths.empty()) {
    CAUSEWAY_ASSIGN(lengths, read_trace(options.lengths));
    if (!lengths.has_lengths) return invalid_argument(options.lengths + ": has no lengths");
  }
  const bool fixed = options.input > 0 || options.output > 0 || !trace.has_lengths;
  Random random = random_of(options, Stream::kLengths);
  for (std::size_t i = 0; i < list.size(); ++i) {
    Tokens prompt(options.input > 0 ? options.input : kInput);
    Tokens output(options.output > 0 ? options.output : kOutput);
    if (!lengths.entries.empty()) {
      const auto drawn = static_cast<std::size_t>(random.below(std::ssize(lengths.entries)));
      prompt = lengths.entries[drawn].prompt;
      output = lengths.entries[drawn].output;
    } else if (!fixed) {
      prompt = due[i].entry->prompt;
      output = due[i].entry->output;
      list[i].block_ids = due[i].entry->block_ids;
    }
    list[i].prompt = cut(prompt.count, options.input_max);
    list[i].output = cut(output.count, options.output_max);
  }
  return {};
}

}  // namespace

Result<simulate::Workload> replay_list(const ReplayOptions& options, std::size_t models) {
  CAUSEWAY_TRY(check(options, models));
  Trace trace;
  if (!options.trace.empty()) {
    CAUSEWAY_ASSIGN(trace, read_trace(options.trace));
  }
  CAUSEWAY_ASSIGN(const auto due, options.trace.empty() ? made_arrivals(options)
                                                        : recorded_arrivals(options, trace));
  simulate::Workload list(due.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    list[i].at = due[i].at;
    list[i].slo = options.slo;
  }
  set_models(options, trace, due, models, list);
  CAUSEWAY_TRY(set_lengths(options, trace, due, list));
  return list;
}

}  // namespace causeway::bench
