// What a product whose weight is at home takes by α and by way, as `causeway bench gemm` measured
// it: what tuners (fleet/alpha_tuner.h) are tried on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace causeway::bench {

struct AlphaPoint {
  double alpha = 0;  // share of columns that go the symmetric way
  double seconds = 0;
  double link_bytes = 0;
  double hbm_bytes = 0;
};

// One product on one slice. Between points everything is linear in α.
struct AlphaCurve {
  std::string name;
  std::vector<AlphaPoint> points;  // by α, from 0 to 1
  double weight_bytes = 0;
  double staged_seconds = 0;  // by copy engines; 0: not measured
  double link_rate = 0;       // bytes a second: kernels that read the weight, alone
  double copy_rate = 0;       // and copy engines
  double hbm_rate = 0;        // the slice's

  AlphaPoint at(double alpha) const;
};

// What a slice has of link and HBM at the time, others beside it.
struct Shares {
  double link = 1;
  double hbm = 1;
};

// No sooner than its bytes have crossed what is left of either.
double seconds_under(const AlphaCurve& curve, double alpha, const Shares& shares);
double staged_under(const AlphaCurve& curve, const Shares& shares);

// From the rows of `bench gemm --json`, an array of them or one a line: those with a sweep of α,
// by home, slice and M. `hbm_rate`: of the whole GPU, of which a slice has a part by its SMs.
// kCorrupt names the row; kNotFound: no curve is in it.
Result<std::vector<AlphaCurve>> curves_of(std::string_view rows, double hbm_rate);

// The paper's kernel on a GH200's slices, modelled, not measured: traffic as in its Fig. 4(b) (over
// C2C 0.13 GB at α 0 and 5.37 at 1; of HBM 5.18 GB and 1.23), and the products' arithmetic.
std::vector<AlphaCurve> paper_curves();

}  // namespace causeway::bench
