// Products of many rows by own loops in f32: bf16 weights are widened, and both operands laid out
// in the order in which a tile of the result meets them, on the way.
#pragma once

#include "kernels/buffer.h"
#include "kernels/gemm/gemm.h"

namespace causeway::kernels::gemm {

// Scratch memory: x once, and for each thread a panel of w of at most 512 KiB. One call at a time;
// uses all of the kernels' threads. Throws std::bad_alloc only.
class Tiles {
 public:
  // out = x · wᵀ; the bias is not added. x is rounded to bf16 beside bf16 weights. The bits of a
  // row of out depend neither on other rows nor on how many there are.
  void run(const Params& params);

 private:
  Buffer<float> x_;
  Buffer<float> panels_;
};

}  // namespace causeway::kernels::gemm
