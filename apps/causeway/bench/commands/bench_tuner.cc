#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "bench/commands/measuring.h"
#include "bench/tuner_bench.h"
#include "commands/json_file.h"
#include "weights/checked_json.h"

namespace causeway::app {
namespace {

using bench::AlphaCurve;
using bench::TunerOutcome;

constexpr double kHbmRate = 4.3e12;  // of an H200, as products read it (simulate's profile)

nlohmann::ordered_json json_of(const AlphaCurve& curve, const TunerOutcome& outcome) {
  return {{"product", curve.name},
          {"best_ms", outcome.best * 1e3},
          {"best_alpha_ms", outcome.best_alpha * 1e3},
          {"fixed_0_ms", outcome.fixed_zero * 1e3},
          {"fixed_1_ms", outcome.fixed_one * 1e3},
          {"fixed_best_ms", outcome.fixed_best * 1e3},
          {"tuned_alpha_ms", outcome.tuned_alpha * 1e3},
          {"tuned_way_ms", outcome.tuned_way * 1e3},
          {"alphas", outcome.alphas}};
}

class BenchTuner final : public Command {
 public:
  explicit BenchTuner(Options& parent)
      : Command(parent, "tuner",
                "Try the tuners of HybridGEMM's alpha and of the way on measured curves") {
    auto& app = options();
    app.add_option("curves", file_, "output of `bench gemm --json` with several values of alpha")
        .required()
        .existing_file();
    const auto number = [&](const char* name, double& value, const char* what) {
      app.add_option(name, value, what).show_default();
    };
    number("--ema", alpha_.ema, "weight of a new measurement, above 0 to 1");
    number("--tau", alpha_.tau, "imbalance of link and HBM that is tolerated, 0 to 1");
    number("--eta-fast", alpha_.eta_fast, "step of alpha while a product is late, above 0 to 1");
    number("--eta-slow", alpha_.eta_slow, "step of alpha otherwise, at most --eta-fast");
    app.add_option("--seed", bench_.seed, "seed of the measurements' noise").show_default();
    app.add_flag("--sweep", sweep_,
                 "also vary each of these constants by itself, over all products");
    app.add_option("--json", json_file_, "also write the rows to this file ('-': standard output)");
  }

  Status run() override {
    CAUSEWAY_TRY(fleet::check_alpha_tuner(alpha_));
    CAUSEWAY_ASSIGN(const std::string text, weights::read_small_file(file_, mib(16)));
    CAUSEWAY_ASSIGN(auto curves, bench::curves_of(text, kHbmRate));
    const auto paper = bench::paper_curves();
    curves.insert(curves.end(), paper.begin(), paper.end());
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    fmt::print(
        "Milliseconds of a product, the mean over four phases: alone, with a quarter of the "
        "link, with a quarter of HBM, alone.\n\n");
    fmt::print("{:32}{:>8}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}  alpha at the phases' ends\n", "product",
               "best", "best a", "a 0", "a 1", "fixed a", "tuned a", "tuned way");
    for (const AlphaCurve& curve : curves) {
      const TunerOutcome outcome = bench::try_tuners(curve, bench_, alpha_, way_);
      print(curve, outcome);
      rows.push_back(json_of(curve, outcome));
    }
    if (sweep_) sweep(curves);
    return write_json(json_file_, rows);
  }

 private:
  static void print(const AlphaCurve& curve, const TunerOutcome& outcome) {
    fmt::print("{:32}", curve.name);
    for (const double seconds :
         {outcome.best, outcome.best_alpha, outcome.fixed_zero, outcome.fixed_one,
          outcome.fixed_best, outcome.tuned_alpha, outcome.tuned_way}) {
      fmt::print("{:9.3f}", seconds * 1e3);
    }
    fmt::print("  {:.2f}\n", fmt::join(outcome.alphas, " "));
  }

  // Times of the tuned α over those of the best α, the mean of all products.
  double loss(const std::vector<AlphaCurve>& curves, const fleet::AlphaTunerOptions& tuner) const {
    double sum = 0;
    for (const AlphaCurve& curve : curves) {
      const TunerOutcome outcome = bench::try_tuners(curve, bench_, tuner, way_);
      sum += outcome.tuned_alpha / outcome.best_alpha;
    }
    return sum / static_cast<double>(curves.size());
  }

  void sweep(const std::vector<AlphaCurve>& curves) const {
    fmt::print("\nTuned alpha over the best alpha, the mean of all products:\n");
    const auto row = [&](const char* name, double fleet::AlphaTunerOptions::*field,
                         std::vector<double> values) {
      fmt::print("{:10}", name);
      for (const double value : values) {
        fleet::AlphaTunerOptions tuner = alpha_;
        tuner.*field = value;
        if (!fleet::check_alpha_tuner(tuner).ok()) continue;
        fmt::print("  {:g}: {:.3f}", value, loss(curves, tuner));
      }
      fmt::print("\n");
    };
    using fleet::AlphaTunerOptions;
    row("ema", &AlphaTunerOptions::ema, {0.05, 0.1, 0.25, 0.5, 1});
    row("tau", &AlphaTunerOptions::tau, {0, 0.05, 0.1, 0.2, 0.4});
    row("eta_fast", &AlphaTunerOptions::eta_fast, {0.02, 0.05, 0.1, 0.2, 0.4});
    row("eta_slow", &AlphaTunerOptions::eta_slow, {0.005, 0.01, 0.02, 0.05, 0.1});
    row("start", &AlphaTunerOptions::alpha, {0, 0.5, 1});
  }

  std::string file_, json_file_;
  bench::TunerBenchOptions bench_;
  fleet::AlphaTunerOptions alpha_;
  fleet::WayTunerOptions way_;
  bool sweep_ = false;
};

}  // namespace

std::unique_ptr<Command> make_bench_tuner(Options& parent) {
  return std::make_unique<BenchTuner>(parent);
}

}  // namespace causeway::app
