#include "bench/load_bench.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/file_model.h"
#include "bench/serve_start.h"
#include "catalogue/model_files.h"
#include "slice/model_home.h"

namespace causeway::bench {
namespace {

constexpr double kPercentile = 0.99;
constexpr ModelId kLoaded(1);  // the first decodes

void say(const LoadBenchSettings& settings, const std::string& what) {
  if (settings.progress) settings.progress(what);
}

// A read and a start in turns.
Status measure_starts(const LoadBenchSettings& settings, const std::filesystem::path& model,
                      const WeightFiles& files, const Clock& clock, std::vector<Figure>& rows) {
  Samples plain, first;
  for (std::int64_t i = 0; i < settings.starts; ++i) {
    say(settings, "start " + std::to_string(i + 1) + " of " + std::to_string(settings.starts));
    CAUSEWAY_ASSIGN(const Nanos read, files.read_plainly(false, clock));
    plain.add(to_seconds(read));
    CAUSEWAY_ASSIGN(const Nanos took, serve_to_first_token(model, settings.slice, clock));
    first.add(to_seconds(took));
  }
  const double limit = plain.median();
  rows.push_back(figure_of("causeway serve to the first token", first,
                           {limit, "a plain read of the files", 1.2 * limit + 1.5})
                     .in("s"));
  return {};
}

// Between tokens, by round: of all of them together, and of each.
struct Gaps {
  Samples all, medians, tails;
  void add(const Samples& round) {
    all.add(round);
    medians.add(round.median());
    tails.add(round.at(kPercentile));
  }
};

struct BesideSamples {
  Gaps alone, loading;
  Samples plain, load;  // seconds
};

// One answer a round: alone, while the other is loaded, alone again. So both kinds are of the same
// time, and of contexts that are as long.
Status one_round(const LoadBenchSettings& settings, LocalSlice& local, FileModel& model,
                 BesideSamples& samples) {
  const Clock& clock = local.clock();
  const std::size_t half = static_cast<std::size_t>(
      std::max<std::int64_t>(1, settings.tokens_alone / settings.loads / 2));
  Neighbour decode(local, settings.decode);
  CAUSEWAY_TRY(decode.start());
  Samples alone;
  const auto wait_alone = [&]() -> Status {
    const Nanos begin = clock.now();
    CAUSEWAY_TRY(decode.wait(half));
    alone.add(decode.gaps(begin, clock.now()));
    return {};
  };
  CAUSEWAY_TRY(wait_alone());
  const Nanos begin = clock.now();
  CAUSEWAY_TRY(model.load());
  const Nanos end = clock.now();
  CAUSEWAY_TRY(decode.wait(2));
  CAUSEWAY_TRY(wait_alone());
  samples.alone.add(alone);
  samples.loading.add(decode.gaps(begin, end));
  samples.load.add(to_seconds(end - begin));
  CAUSEWAY_TRY(decode.stop());
  return model.forget();
}

Figure gap_figure(std::string what, const Samples& rounds, const Samples& all, double share,
                  const Limit& limit) {
  Figure figure = figure_of(std::move(what), rounds, limit);
  figure.measured = all.at(share);
  figure.samples = all.count();
  return figure;
}

void add_gap_rows(const BesideSamples& samples, std::vector<Figure>& rows) {
  const Gaps &alone = samples.alone, &loading = samples.loading;
  const double tail = alone.all.at(kPercentile);
  rows.push_back(gap_figure("between tokens, alone, median", alone.medians, alone.all, 0.5, {}));
  rows.push_back(gap_figure("between tokens, another is loaded, median", loading.medians,
                            loading.all, 0.5, {.value = alone.all.median(), .name = "alone"}));
  rows.push_back(gap_figure("between tokens, alone, p99", alone.tails, alone.all, kPercentile, {}));
  rows.push_back(gap_figure("between tokens, another is loaded, p99", loading.tails, loading.all,
                            kPercentile, {tail, "alone", 1.05 * tail}));
}

Status measure_beside(const LoadBenchSettings& settings, const std::filesystem::path& path,
                      const WeightFiles& files, const Clock& clock, std::vector<Figure>& rows) {
  say(settings, "a slice, and the model that decodes");
  CAUSEWAY_ASSIGN(const Bytes budget, settings.slice.home());
  slice::ModelHome home(clock, budget);
  LocalSlice local(home, clock);
  SliceSettings slice = settings.slice;
  slice.engine.core.prefix_caching = false;
  const Tokens longest(settings.decode.context + settings.decode.output);
  CAUSEWAY_TRY(local.open(slice, {{ModelId(0), settings.config.config, longest},
                                  {kLoaded, settings.config.config, longest}}));
  CAUSEWAY_TRY(status_of(local.add(ModelId(0))));
  CAUSEWAY_ASSIGN(const auto model, FileModel::open(kLoaded, path, home, local));
  BesideSamples samples;
  for (std::int64_t i = 0; i <= settings.loads; ++i) {
    say(settings, i == 0 ? "a load, to warm up"
                         : "load " + std::to_string(i) + " of " + std::to_string(settings.loads));
    CAUSEWAY_ASSIGN(const Nanos plain, files.read_plainly(false, clock));
    samples.plain.add(to_seconds(plain));
    CAUSEWAY_TRY(one_round(settings, local, *model, samples));
    if (i == 0) samples = {};
  }
  add_gap_rows(samples, rows);
  rows.push_back(figure_of("the load beside it", samples.load,
                           {.value = samples.plain.median(), .name = "a plain read of the files"})
                     .in("s"));
  return {};
}

}  // namespace

Result<std::vector<Figure>> bench_load(const LoadBenchSettings& settings, const Clock& clock) {
  say(settings, "writing the model's files");
  CAUSEWAY_ASSIGN(const BenchFolder folder, BenchFolder::open(settings.disk_dir));
  CAUSEWAY_ASSIGN(const auto path,
                  write_model(folder.path(), settings.config.name, settings.config.config));
  CAUSEWAY_ASSIGN(const WeightFiles files, WeightFiles::open(path));
  CAUSEWAY_TRY(files.bring_into_page_cache());
  std::vector<Figure> rows;
  if (settings.starts > 0) CAUSEWAY_TRY(measure_starts(settings, path, files, clock, rows));
  if (settings.loads > 0) CAUSEWAY_TRY(measure_beside(settings, path, files, clock, rows));
  return rows;
}

nlohmann::ordered_json load_json(const std::vector<Figure>& rows) {
  return {{"bench", "load"}, {"rows", figures_json(rows)}};
}

}  // namespace causeway::bench
