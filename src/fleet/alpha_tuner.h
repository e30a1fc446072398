// The feedback control of HybridGEMM's α (C2CServe §7, Algorithm 2), and beyond the paper that of
// the way a weight at home is read. Both are told what was measured of products, between layers or
// requests and never inside a kernel, and say how the next ones are computed. Pure: no clock, no
// threads; the same calls give the same answers. docs/design/tuner.md says what they gain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace causeway::fleet {

// The paper gives no values; these are ours, swept by `causeway bench tuner`.
struct AlphaTunerOptions {
  double alpha = 0;        // to begin with: link-frugal (§6.4) [0, 1]
  double ema = 0.25;       // weight of a new measurement (0, 1]
  double tau = 0.1;        // imbalance that is left alone [0, 1]
  double eta_fast = 0.1;   // step while the latency exceeds its budget (0, 1]
  double eta_slow = 0.02;  // and otherwise (0, eta_fast]
};

// kInvalidArgument names the range.
Status check_alpha_tuner(const AlphaTunerOptions& options);

// What was measured of the products of one control interval. Utilisations are shares of what the
// slice may use: 1 is all of it. They come from the bytes that the kernels are known to move
// (kernels/home_gemm/traffic.h) over measured time, since an ordinary user may not read hardware
// counters.
struct GemmObservation {
  Nanos latency;
  Nanos budget;  // L_slo: the request's target, distributed over the profiled times of its products
  double hbm_utilisation = 0;
  double link_utilisation = 0;
};

// Which share of `rate`, in bytes a second, `bytes` in `time` are. Zero where time or rate is.
double utilisation(Bytes bytes, Nanos time, double rate);

class AlphaTuner {
 public:
  explicit AlphaTuner(const AlphaTunerOptions& options);

  // Share of columns that go the symmetric way (which fetches weights over the link again and
  // again); the rest goes the asymmetric way (which costs HBM traffic). In [0, 1].
  double alpha() const { return alpha_; }
  // An interval has ended: α for the next one. What is not a number, or negative, is no
  // measurement, and changes nothing.
  double update(const GemmObservation& seen);

 private:
  struct Average {
    double latency = 0, budget = 0, hbm = 0, link = 0;
  };

  AlphaTunerOptions options_;
  double alpha_;
  std::optional<Average> average_;
};

struct WayTunerOptions {
  double ema = 0.25;     // weight of a new measurement (0, 1]
  double margin = 0.03;  // another way must be faster by so much to be taken [0, 1)
  // After this many measurements another way is measured once, one of those that were last known to
  // take no more than probe_max times as long: it may have become faster meanwhile. Zero: never.
  std::int64_t probe_every = 50;
  double probe_max = 1.5;  // ≥ 1
};

Status check_way_tuner(const WayTunerOptions& options);

// Which of several ways computes a product, by what each was measured to take. Ways are numbered
// by the caller, in the order of preference among equals.
class WayTuner {
 public:
  // `predicted`: of each way, by the profile; not a positive number: it cannot be used. At least
  // one can.
  WayTuner(const WayTunerOptions& options, std::span<const double> predicted);

  // The way of the next product: the best, or one that is probed. Until measured() it stays.
  std::size_t way() const { return probing_.value_or(best_); }
  std::size_t best() const { return best_; }
  // A product by way() has taken so long.
  void measured(Nanos took);

 private:
  std::optional<std::size_t> next_probe() const;

  WayTunerOptions options_;
  std::vector<double> seconds_;            // by way; 0: it cannot be used
  std::vector<std::int64_t> measured_at_;  // by way; in measurements
  std::int64_t measurements_ = 0;
  std::size_t best_ = 0;
  std::optional<std::size_t> probing_;
};

}  // namespace causeway::fleet
