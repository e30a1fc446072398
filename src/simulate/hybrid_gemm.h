// What C2CServe's HybridGEMM moves and computes by α (paper §5), for the steps of a device on which
// weights are read at home. The figures are those that the paper measured of one product on a GH200
// (Fig. 4: 10,240 rows, N 16,384, K 4,096), not of our kernels, which keep no sums in HBM
// (kernels/home_gemm/traffic.h). Pure.
//
//   over the link   α of the weight as often as there are tiles of 256 rows, the rest once
//   HBM             what is multiplied, and of the rest partial sums: in proportion to the FLOPs
//   arithmetic      the rest at 0.44 of the rate of products, since its 4.0 ms are neither what the
//                   link takes (0.3 ms) nor what HBM does (1.4)
#pragma once

namespace causeway::simulate {

inline constexpr double kHybridRows = 256;  // of a tile of the symmetric way: 5.37 GB are 40 × W
inline constexpr double kHybridFlops = 2.0 * 10'240 * 16'384 * 4'096;  // of that product
inline constexpr double kSymmetricHbm = 1.23e9;                        // bytes that it moved
inline constexpr double kAsymmetricHbm = 5.18e9;
// The asymmetric way's share of the rate of products: 1.37 TFLOP in 4.0 ms, of 780 TFLOP/s.
inline constexpr double kAsymmetricRate = 0.44;

struct HybridWork {
  double link_bytes = 0;
  double hbm_bytes = 0;  // without resident weights
  double flops = 0;      // that at the rate of products would take as long
};

// Whether α makes a difference: products of few rows read the weight once either way, and what
// their partial sums move is little.
bool depends_on_alpha(double weight_bytes, double flops);

// The work of products with bf16 weights of `weight_bytes` at home, which compute `flops` in all.
// alpha in [0, 1]. Their rows follow: each does two FLOPs with an element of two bytes.
HybridWork hybrid_work(double weight_bytes, double flops, double alpha);

}  // namespace causeway::simulate
