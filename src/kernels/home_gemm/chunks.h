// How a weight that copy engines bring into HBM is cut along its rows (the columns of out), so that
// copying and multiplying overlap. Pure.
//
//   link      │ 0 │   1   │     2     │     3     │  4  │5│
//   multiply      │0│       │ 1  │      │  2  │     │ 3  │4│5│
//
// The first piece is small where multiplying is the limit, so that it starts early; the last ones
// are small where the link is, so that little is left to do when the last byte arrives.
//
// Pieces pass through `scratch` as through a ring: a piece that takes the place of earlier ones is
// copied when their products have ended. When all of the weight fits nothing ever waits.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "kernels/gemm/gemm_cuda.h"

namespace causeway::kernels::home_gemm {

// What cutting depends on. Times are of one slice of one machine.
struct ChunkRates {
  double link_bytes_per_s = 55e9;  // of a copy engine, long copies
  double product_seconds = 0;      // of the whole product with w in HBM
  // A piece costs, beside its bytes: the copy's start, the product's start behind an event, and the
  // host's time to enqueue both. Measured as the difference between 8 and 32 pieces (2 µs) and as
  // launch latency.
  double copy_start = 2e-6;
  double product_start = 4e-6;
  double enqueue = 10e-6;
  int sm_count = 132;
};

struct Chunk {
  std::int64_t first = 0;    // column of out
  std::int64_t columns = 0;  // and so many; of silu_mul the same columns of gate and of up
  Bytes offset;              // in the scratch: w's rows, of silu_mul gate's and then up's
  int waits_for = -1;        // the piece whose product must have ended before; −1: none
  gemm::CudaPlan product = {};
};

// Columns that pieces are multiples of, but for the last one: whole tiles of gemm's kernels.
inline constexpr std::int64_t kChunkColumns = 128;

// Cuts the product's weight; one of silu_mul with biases is a single piece. kUnsupported when the
// scratch does not hold two pieces of kChunkColumns, or that one; errors of gemm::choose(). Offsets
// are multiples of 256 bytes.
Result<std::vector<Chunk>> cut(const gemm::CudaRequest& request, Bytes scratch,
                               const ChunkRates& rates);

// When the last product of these pieces ends, in seconds from the start of the first copy: the
// model that cut() minimises, and with the ring's waits.
double staged_seconds(const gemm::CudaRequest& request, const std::vector<Chunk>& chunks,
                      const ChunkRates& rates);

}  // namespace causeway::kernels::home_gemm
