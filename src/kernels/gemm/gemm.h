// Matrix product of activations with a weight as it lies in a checkpoint:
//
//   out [m][n] = x [m][k] · w [n][k]ᵀ + bias [n]
//
// When w is bf16, x is rounded to bf16 first; accumulation and output are f32. From kLargeRows rows
// on it is compute-bound and oneDNN's; below it is bound by reading w once, and done by own loops.
// w is never packed: it is read where it lies. But where the CPU has no instructions for bf16, or
// the build no oneDNN, kTiledRows rows and more take w in panels that are laid out as f32 on the
// way (tiles.h).
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cpu.h"
#include "kernels/weights_ref.h"

namespace causeway::kernels::gemm {

// Rows of x from which oneDNN is faster than the own loops.
inline constexpr std::int64_t kLargeRows = 16;

// Rows of x from which tiles are faster than the own loops.
inline constexpr std::int64_t kTiledRows = 24;

enum class Path {
  kBest,
  kOwnLoops,
  kOwnPairs,  // own loops, of bf16 weights by the instruction for pairs of bf16, with AVX-512
  kTiles,     // own loops on panels of w in f32
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
