// Tuners of α and of the way (fleet/alpha_tuner.h) on measured curves, while others take a part of
// link and HBM and give it back: what they gain over what is fixed. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/tuner_curves.h"
#include "fleet/alpha_tuner.h"

namespace causeway::bench {

struct TunerPhase {
  Shares shares;
  std::int64_t products = 200;  // control intervals
};

struct TunerBenchOptions {
  std::vector<TunerPhase> phases = {
      {.shares = {}}, {.shares = {.link = 0.25}}, {.shares = {.hbm = 0.25}}, {.shares = {}}};
  double noise = 0.01;   // of each measured time, its spread
  double budget = 1.05;  // L_slo, of what the best α takes alone
  std::uint64_t seed = 1;
};

// Mean seconds of a product over all phases.
struct TunerOutcome {
  double best = 0;             // of every phase the best there is, way or α
  double best_alpha = 0;       // of every phase the best α
  double fixed_zero = 0;       // α 0
  double fixed_one = 0;        // α 1
  double fixed_best = 0;       // the α that is best in all, seen from the end
  double tuned_alpha = 0;      // Algorithm 2, from α 0
  double tuned_way = 0;        // staged, symmetric or ring, by measured time
  std::vector<double> alphas;  // at the end of each phase
};

TunerOutcome try_tuners(const AlphaCurve& curve, const TunerBenchOptions& options,
                        const fleet::AlphaTunerOptions& alpha, const fleet::WayTunerOptions& way);

}  // namespace causeway::bench
