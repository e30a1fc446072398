#include "bench/tuner_bench.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/random.h"

namespace causeway::bench {
namespace {

constexpr int kAlphas = 41;  // that are looked at for the best

double alpha_at(int i) { return static_cast<double>(i) / (kAlphas - 1); }

// The ways between which a tuner chooses, in the order of preference.
std::array<double, 3> ways_under(const AlphaCurve& curve, const Shares& shares) {
  const double staged = curve.staged_seconds > 0 ? staged_under(curve, shares) : 0;
  return {staged, seconds_under(curve, 1, shares), seconds_under(curve, 0, shares)};
}

class Trial {
 public:
  Trial(const AlphaCurve& curve, const TunerBenchOptions& options)
      : curve_(curve), options_(options) {
    for (const TunerPhase& phase : options.phases) products_ += phase.products;
  }

  // The mean over all phases of what of(shares) is in each.
  template <typename Of>
  double mean(Of of) const {
    double sum = 0;
    for (const TunerPhase& phase : options_.phases) {
      sum += static_cast<double>(phase.products) * of(phase.shares);
    }
    return sum / static_cast<double>(products_);
  }

  double best_alpha_under(const Shares& shares) const {
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kAlphas; ++i) {
      best = std::min(best, seconds_under(curve_, alpha_at(i), shares));
    }
    return best;
  }

  double run_alpha(const fleet::AlphaTunerOptions& tuner, std::vector<double>& ends) const;
  double run_way(const fleet::WayTunerOptions& tuner) const;

 private:
  // What a clock would say of it.
  Nanos noisy(double seconds, Random& random) const {
    return nanos_from_seconds(seconds * std::max(0.5, 1 + options_.noise * random.normal()));
  }

  const AlphaCurve& curve_;
  const TunerBenchOptions& options_;
  std::int64_t products_ = 0;
};

double Trial::run_alpha(const fleet::AlphaTunerOptions& options, std::vector<double>& ends) const {
  fleet::AlphaTuner tuner(options);
  Random random(options_.seed);
  const Nanos budget = nanos_from_seconds(options_.budget * best_alpha_under({}));
  double sum = 0;
  for (const TunerPhase& phase : options_.phases) {
    for (std::int64_t i = 0; i < phase.products; ++i) {
      const double seconds = seconds_under(curve_, tuner.alpha(), phase.shares);
      sum += seconds;
      const AlphaPoint point = curve_.at(tuner.alpha());
      const Nanos took = noisy(seconds, random);
      const auto used = [&](double bytes, double rate) {
        return fleet::utilisation(Bytes(static_cast<std::int64_t>(bytes)), took, rate);
      };
      tuner.update(
          {.latency = took,
           .budget = budget,
           .hbm_utilisation = used(point.hbm_bytes, curve_.hbm_rate * phase.shares.hbm),
           .link_utilisation = used(point.link_bytes, curve_.link_rate * phase.shares.link)});
    }
    ends.push_back(tuner.alpha());
  }
  return sum / static_cast<double>(products_);
}

double Trial::run_way(const fleet::WayTunerOptions& options) const {
  const std::array<double, 3> alone = ways_under(curve_, {});
  fleet::WayTuner tuner(options, alone);
  Random random(options_.seed);
  double sum = 0;
  for (const TunerPhase& phase : options_.phases) {
    const std::array<double, 3> ways = ways_under(curve_, phase.shares);
    for (std::int64_t i = 0; i < phase.products; ++i) {
      sum += ways[tuner.way()];
      tuner.measured(noisy(ways[tuner.way()], random));
    }
  }
  return sum / static_cast<double>(products_);
}

}  // namespace

TunerOutcome try_tuners(const AlphaCurve& curve, const TunerBenchOptions& options,
                        const fleet::AlphaTunerOptions& alpha, const fleet::WayTunerOptions& way) {
  const Trial trial(curve, options);
  const auto fixed = [&](double share) {
    return trial.mean([&](const Shares& shares) { return seconds_under(curve, share, shares); });
  };
  TunerOutcome outcome;
  outcome.best_alpha =
      trial.mean([&](const Shares& shares) { return trial.best_alpha_under(shares); });
  outcome.best = trial.mean([&](const Shares& shares) {
    const double staged = ways_under(curve, shares).front();
    const double in_place = trial.best_alpha_under(shares);
    return staged > 0 ? std::min(staged, in_place) : in_place;
  });
  outcome.fixed_zero = fixed(0);
  outcome.fixed_one = fixed(1);
  outcome.fixed_best = outcome.fixed_zero;
  for (int i = 1; i < kAlphas; ++i) {
    outcome.fixed_best = std::min(outcome.fixed_best, fixed(alpha_at(i)));
  }
  outcome.tuned_alpha = trial.run_alpha(alpha, outcome.alphas);
  outcome.tuned_way = trial.run_way(way);
  return outcome;
}

}  // namespace causeway::bench
