#include "bench/stream_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "bench/link_rate.h"

namespace causeway::bench {
namespace {

constexpr ModelId kNeighbour = ModelId(0);  // the first, as Neighbour has it
constexpr double kDecodeWanted = 1.06;
constexpr double kPrefillWanted = 1.08;
constexpr double kNeighbourWanted = 1.15;

double gigabytes(Bytes bytes) { return static_cast<double>(bytes.count) / 1e9; }

Samples mean_of(const Samples& samples) {
  Samples mean;
  const double sum = std::accumulate(samples.values.begin(), samples.values.end(), 0.0);
  if (!samples.empty()) mean.add(sum / static_cast<double>(samples.count()));
  return mean;
}

class Stage {
 public:
  Stage(const StreamSettings& settings, slice::ModelHome& home, const Clock& clock)
      : settings_(settings), home_(home), local_(home, clock) {}

  Status open();
  Status measure(std::vector<Figure>& rows);

 private:
  Status decode(std::int64_t batch, std::vector<Figure>& rows);
  Status prefill(std::vector<Figure>& rows);
  Status beside(std::vector<Figure>& rows);
  // Gaps between tokens of `batch` sequences that run together, from when all have begun.
  Result<Samples> gaps_of(std::int64_t batch);
  Limit limit(double wanted) const {
    const double floor = 1e3 * static_cast<double>(streamed_.count) / link_;
    return {floor, fmt::format("{:.2f} GB over {:.1f} GB/s", gigabytes(streamed_), link_ / 1e9),
            wanted * floor};
  }
  void say(const std::string& what) const {
    if (settings_.progress) settings_.progress(what);
  }

  const StreamSettings& settings_;
  slice::ModelHome& home_;
  LocalSlice local_;
  ModelId model_;
  Bytes streamed_;  // at every step
  double link_ = 0;
};

Status Stage::open() {
  SliceSettings slice = settings_.slice;
  slice.engine.core.prefix_caching = false;
  slice.engine.core.schedule.tokens_per_step_max =
      std::max(settings_.prefill, slice.engine.core.schedule.tokens_per_step_max);
  CAUSEWAY_ASSIGN(const model::ModelCard card, slice.card(settings_.model.config));
  const Bytes resident(
      static_cast<std::int64_t>(settings_.resident * static_cast<double>(card.layout.bytes.count)));
  const Tokens longest(std::max(settings_.prefill, settings_.context) + settings_.output);
  std::vector<BenchModel> models;
  if (settings_.neighbour) {
    models.push_back({kNeighbour, settings_.neighbour->config,
                      Tokens(settings_.beside.context + settings_.beside.output)});
  }
  model_ = ModelId(std::ssize(models));
  models.push_back({model_, settings_.model.config, longest, resident});
  CAUSEWAY_TRY(local_.open(slice, std::move(models)));
  for (std::int64_t m = 0; m <= model_.value; ++m) {
    say(fmt::format("model {} of {}", m + 1, model_.value + 1));
    CAUSEWAY_TRY(status_of(local_.add(ModelId(m))));
  }
  streamed_ = local_.facts(model_).weights.streamed_bytes();
  if (streamed_ == Bytes(0)) {
    return invalid_argument("the model fits what HBM has for it: nothing is streamed");
  }
  say("the link alone");
  CAUSEWAY_ASSIGN(const auto home, home_.pool.pin(model_));
  CAUSEWAY_ASSIGN(link_, measure_link_rate(local_, *home, settings_.rounds));
  say("the first steps");
  return status_of(gaps_of(1));
}

Result<Samples> Stage::gaps_of(std::int64_t batch) {
  std::vector<RequestId> requests;
  for (std::int64_t i = 0; i < batch; ++i) {
    CAUSEWAY_ASSIGN(requests.emplace_back(),
                    local_.submit(model_, settings_.context, settings_.output));
  }
  std::vector<TokenTimes> times;
  Nanos begun;
  for (const RequestId request : requests) {
    CAUSEWAY_ASSIGN(times.emplace_back(), local_.sink().wait_for_end(request, kPatience));
    if (times.back().at.empty()) return unavailable("a request ended without a token");
    begun = std::max(begun, times.back().at.front());
  }
  Samples gaps;
  for (const TokenTimes& one : times) {
    for (std::size_t i = 1; i < one.at.size(); ++i) {
      if (one.at[i - 1] >= begun) gaps.add(to_millis(one.at[i] - one.at[i - 1]));
    }
  }
  return gaps;
}

Status Stage::decode(std::int64_t batch, std::vector<Figure>& rows) {
  say(fmt::format("decode of {}", batch));
  Samples medians, crossed;
  for (std::int64_t round = 0; round < settings_.rounds; ++round) {
    slice::Slice& slice = local_.slice();
    const Bytes before = slice.link_bytes();
    const std::int64_t steps = slice.engine().observe().steps;
    CAUSEWAY_ASSIGN(const Samples gaps, gaps_of(batch));
    medians.add(gaps.median());
    crossed.add(gigabytes(slice.link_bytes() - before) /
                static_cast<double>(slice.engine().observe().steps - steps));
  }
  rows.push_back(figure_of(fmt::format("decode, batch {}", batch), medians, limit(kDecodeWanted)));
  rows.push_back(figure_of(fmt::format("link bytes of a step, batch {}", batch), crossed,
                           {gigabytes(streamed_), "what a step streams"})
                     .in("GB"));
  return {};
}

Status Stage::prefill(std::vector<Figure>& rows) {
  say(fmt::format("prefill of {}", settings_.prefill));
  Samples firsts;
  for (std::int64_t round = 0; round < settings_.rounds; ++round) {
    const Nanos begin = local_.clock().now();
    CAUSEWAY_ASSIGN(const RequestId id, local_.submit(model_, settings_.prefill, 1));
    CAUSEWAY_ASSIGN(const TokenTimes times, local_.sink().wait_for_end(id, kPatience));
    if (times.at.empty()) return unavailable("a request ended without a token");
    firsts.add(to_millis(times.at.front() - begin));
  }
  rows.push_back(figure_of(fmt::format("first token, prompt of {}", settings_.prefill), firsts,
                           limit(kPrefillWanted)));
  return {};
}

Status Stage::beside(std::vector<Figure>& rows) {
  if (!settings_.neighbour) return {};
  say("beside a neighbour that decodes");
  constexpr std::size_t kAloneTokens = 200;
  const Clock& clock = local_.clock();
  Neighbour neighbour(local_, settings_.beside);
  CAUSEWAY_TRY(neighbour.start());
  Samples alone, during, steps;
  for (std::int64_t round = 0; round < settings_.rounds; ++round) {
    const Nanos quiet = clock.now();
    CAUSEWAY_TRY(neighbour.wait(kAloneTokens));
    const Nanos begin = clock.now();
    alone.add(mean_of(neighbour.gaps(quiet, begin)));
    CAUSEWAY_ASSIGN(const Samples gaps, gaps_of(1));
    during.add(mean_of(neighbour.gaps(begin, clock.now())));
    steps.add(gaps.median());
  }
  CAUSEWAY_TRY(neighbour.stop());
  rows.push_back(figure_of("decode beside the neighbour, batch 1", steps, limit(0)));
  rows.push_back(
      figure_of("the neighbour's tokens meanwhile, mean", during,
                {alone.median(), "the neighbour alone", kNeighbourWanted * alone.median()}));
  return {};
}

Status Stage::measure(std::vector<Figure>& rows) {
  for (const std::int64_t batch : settings_.batches) CAUSEWAY_TRY(decode(batch, rows));
  CAUSEWAY_TRY(prefill(rows));
  CAUSEWAY_TRY(beside(rows));
  for (Figure& row : rows) row.model = settings_.model.name;
  return {};
}

}  // namespace

Result<StreamReport> bench_stream(const StreamSettings& settings, const Clock& clock) {
  CAUSEWAY_ASSIGN(const Bytes budget, settings.slice.home());
  slice::ModelHome home(clock, budget);
  Stage stage(settings, home, clock);
  StreamReport report;
  CAUSEWAY_TRY(stage.open());
  CAUSEWAY_TRY(stage.measure(report.rows));
  return report;
}

nlohmann::ordered_json report_json(const StreamReport& report) {
  return {{"bench", "stream"}, {"rows", figures_json(report.rows)}};
}

}  // namespace causeway::bench
