// Matrix product of activations with a weight as it lies in a checkpoint:
//
//   out [m][n] = x [m][k] · w [n][k]ᵀ + bias [n]
//
// When w is bf16, x is rounded to bf16 first; accumulation and output are f32. From kLargeRows rows
// on it is compute-bound and oneDNN's; below it is bound by reading w once, and done by own loops
// (also above, in a build without oneDNN). w is never packed: it is read where it lies. But where
// the CPU has no instructions for bf16, kPanelRows rows and more take w in panels, converted to f32
// on the way, for oneDNN's product in f32.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cpu.h"
#include "kernels/weights_ref.h"

namespace causeway::kernels::gemm {

// Rows of x from which oneDNN is faster than the own loops.
inline constexpr std::int64_t kLargeRows = 16;

// On a CPU without instructions for bf16: from which panels are faster.
inline constexpr std::int64_t kPanelRows = 32;

enum class Path {
  kBest,
  kOwnLoops,
  kOwnPairs,  // own loops, of bf16 weights by the instruction for pairs of bf16, with AVX-512
  kPanels
};

struct Params {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  const float* x = nullptr;  // [m][k], rows x_stride floats apart
  std::int64_t x_stride = 0;
  WeightsRef w{};        // [n][k]
  WeightsRef bias{};     // [n]; may be absent
  float* out = nullptr;  // [m][n], rows out_stride floats apart; does not overlap x
  std::int64_t out_stride = 0;
  Variant variant = best_variant();  // of the own loops
  Path path = Path::kBest;
};

// Holds scratch memory and oneDNN's prepared products, so that a repeated shape costs microseconds.
// One call at a time; uses all of the kernels' threads. Throws std::bad_alloc only.
class Gemm {
 public:
  Gemm();
  ~Gemm();
  Gemm(Gemm&&) noexcept;
  Gemm& operator=(Gemm&&) noexcept;

  void run(const Params& params);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace causeway::kernels::gemm
