#include "bench/expert_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/expert_recorder.h"
#include "bench/limit_probe.h"
#include "bench/link_rate.h"
#include "bench/zipf_router.h"

namespace causeway::bench {
namespace {

constexpr double kTokenWanted = 1.30;
constexpr double kBaselineWanted = 0.9;
constexpr float kTemperature = 20;  // tokens that differ, so that their experts do

std::string routing_name(double exponent) {
  return exponent > 0 ? fmt::format("zipf:{:.1f}", exponent) : "uniform";
}

// One policy, with one way of choosing.
class Stage {
 public:
  Stage(const ExpertSettings& settings, slice::ModelHome& home, const Clock& clock)
      : settings_(settings), home_(home), clock_(clock), local_(home, clock) {}

  Status open(double exponent, const std::string& policy);
  Status measure(std::vector<Figure>& rows);
  const Samples& tokens() const { return tokens_; }  // ms, the mean of each round

 private:
  Result<TokenTimes> run(std::int64_t prompt, std::int64_t output);
  Status measure_limits();
  Limit limit() const;
  std::string name(const char* what) const {
    return fmt::format("{}, {}, {}", what, routing_, policy_);
  }
  double per_step(std::int64_t count) const {
    return static_cast<double>(count) /
           static_cast<double>(std::max<std::int64_t>(counts_.steps, 1));
  }
  void say(const std::string& what) const {
    if (settings_.progress) settings_.progress(what);
  }

  const ExpertSettings& settings_;
  slice::ModelHome& home_;
  const Clock& clock_;
  ExpertCounts counts_;
  LocalSlice local_;
  std::string routing_, policy_;
  Bytes expert_;
  Bytes dense_;               // what every token reads beside experts
  std::int64_t experts_ = 0;  // of a layer
  double link_ = 0;
  double memory_ = 0;
  Samples tokens_;
};

Status Stage::open(double exponent, const std::string& policy) {
  routing_ = routing_name(exponent);
  policy_ = policy;
  SliceSettings slice = settings_.slice;
  slice.engine.core.prefix_caching = false;
  slice.engine.core.schedule.tokens_per_step_max =
      std::max(settings_.warm_prompt, slice.engine.core.schedule.tokens_per_step_max);
  slice.executor_front = [this](engine::StepExecutor& inner) {
    return std::make_unique<ExpertRecorder>(inner, counts_);
  };
  CAUSEWAY_ASSIGN(slice.experts, weights::parse_expert_policy(policy));
  CAUSEWAY_ASSIGN(const model::ModelCard card, slice.card(settings_.model.config));
  const Bytes resident(
      static_cast<std::int64_t>(settings_.resident * static_cast<double>(card.layout.bytes.count)));
  if (!slice.on_gpu() && slice.weights == Bytes(0)) {
    slice.weights = slice.extent() * (resident / slice.extent());
  }
  const Tokens longest(std::max(settings_.warm_prompt + settings_.warm_output,
                                settings_.context + settings_.output));
  BenchModel model{kModel, settings_.model.config, longest, resident};
  model.adjust = [exponent](std::span<std::byte> weights, const model::ModelCard& of) {
    skew_routers(weights, of, exponent);
  };
  CAUSEWAY_TRY(local_.open(slice, {std::move(model)}));
  local_.draw_at(kTemperature);
  say(fmt::format("weights of {}", routing_));
  CAUSEWAY_TRY(status_of(local_.add(kModel)));
  const auto& plan = local_.facts(kModel).weights.experts;
  if (!plan) return invalid_argument("the model's experts are not cached one by one here");
  expert_ = plan->expert_bytes();
  for (const int group : plan->resident) {
    dense_ += plan->layout.groups.at(static_cast<std::size_t>(group)).bytes;
  }
  experts_ = plan->experts;
  return measure_limits();
}

Status Stage::measure_limits() {
  say("the link and the memory alone");
  CAUSEWAY_ASSIGN(const auto home, home_.pool.pin(kModel));
  CAUSEWAY_ASSIGN(link_, measure_link_rate(local_, *home, settings_.rounds));
  std::unique_ptr<LimitProbe> probe = probe_cpu(clock_);
  if (settings_.slice.on_gpu()) {
    CAUSEWAY_ASSIGN(probe, probe_gpu(local_.slice().device()));
  }
  CAUSEWAY_ASSIGN(const DeviceLimits limits, probe->measure());
  memory_ = limits.read_bytes_per_second;
  return {};
}

Result<TokenTimes> Stage::run(std::int64_t prompt, std::int64_t output) {
  CAUSEWAY_ASSIGN(const RequestId id, local_.submit(kModel, prompt, output));
  CAUSEWAY_ASSIGN(TokenTimes times, local_.sink().wait_for_end(id, kPatience));
  if (std::ssize(times.at) < output) return unavailable("a request ended early: " + times.error);
  return times;
}

Limit Stage::limit() const {
  const double missed = per_step(counts_.misses) * static_cast<double>(expert_.count);
  const double hit = per_step(counts_.hits) * static_cast<double>(expert_.count) +
                     static_cast<double>(dense_.count);
  const double floor = 1e3 * (missed / link_ + hit / memory_);
  return {floor,
          fmt::format("{:.2f} GB at {:.1f} GB/s, {:.2f} GB at {:.0f} GB/s", missed / 1e9,
                      link_ / 1e9, hit / 1e9, memory_ / 1e9),
          kTokenWanted * floor};
}

Status Stage::measure(std::vector<Figure>& rows) {
  say(fmt::format("{}, {}: the cache learns", routing_, policy_));
  CAUSEWAY_TRY(status_of(run(settings_.warm_prompt, settings_.warm_output)));
  counts_ = {};
  Samples loads;
  for (std::int64_t round = 0; round < settings_.rounds; ++round) {
    say(fmt::format("{}, {}: round {}", routing_, policy_, round + 1));
    const Bytes before = local_.slice().link_bytes();
    CAUSEWAY_ASSIGN(const TokenTimes times, run(settings_.context, settings_.output));
    const auto gaps = static_cast<double>(times.at.size() - 1);
    tokens_.add(to_millis(times.at.back() - times.at.front()) / gaps);
    loads.add(static_cast<double>((local_.slice().link_bytes() - before).count) /
              static_cast<double>(expert_.count) / static_cast<double>(settings_.output));
  }
  const double chosen = std::max(per_step(counts_.hits + counts_.misses), 1.0);
  const auto one = [](double value) {
    Samples samples;
    samples.add(value);
    return samples;
  };
  rows.push_back(figure_of(name("decode, batch 1"), tokens_, limit()));
  rows.push_back(figure_of(name("experts of a token that are in HBM"),
                           one(100 * per_step(counts_.hits) / chosen))
                     .in("%"));
  rows.push_back(figure_of(name("choices of the most popular quarter"),
                           one(100 * counts_.popular_share(experts_)))
                     .in("%"));
  rows.push_back(figure_of(name("experts loaded a token"), loads).in("experts"));
  return {};
}

}  // namespace

Result<std::vector<Figure>> bench_experts(const ExpertSettings& settings, const Clock& clock) {
  if (!settings.model.config.moe) return invalid_argument("the model has no experts");
  CAUSEWAY_ASSIGN(const Bytes budget, settings.slice.home());
  std::vector<Figure> rows;
  for (const double exponent : settings.exponents) {
    slice::ModelHome home(clock, budget);
    std::vector<std::pair<std::string, Samples>> tokens;
    for (const std::string& policy : settings.policies) {
      Stage stage(settings, home, clock);
      CAUSEWAY_TRY(stage.open(exponent, policy));
      CAUSEWAY_TRY(stage.measure(rows));
      tokens.emplace_back(policy, stage.tokens());
    }
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const double baseline = tokens.back().second.median();
      const double wanted = exponent > 0 ? kBaselineWanted * baseline : 0;
      rows.push_back(
          figure_of(fmt::format("decode, batch 1, {}, {} beside {}", routing_name(exponent),
                                tokens[i].first, tokens.back().first),
                    tokens[i].second, {baseline, "the baseline's time", wanted}));
    }
  }
  for (Figure& row : rows) row.model = settings.model.name;
  return rows;
}

}  // namespace causeway::bench
