// The order in which a CTA does its stages of one token's experts, gate and up interleaved with
// down (cuda_one_token.cuh). Plain arithmetic, the same for the thread that asks for the stages,
// the warps that multiply them, and a test on the host.
//
// Gate and up: pairs of features, `tiles` an expert, all experts' in one line that is dealt out
// one by one, so that all CTAs are done with an expert at about the same time. Down: groups of
// eight rows, dealt out likewise; those of expert e come behind the pairs of expert e + lag, at the
// latest behind the last expert's. So a stage is behind all of gate and up that it depends on.
#pragma once

#include "kernels/moe/cuda_divider.h"

#ifdef __CUDACC__
#define CAUSEWAY_STREAM __host__ __device__ __forceinline__
#else
#define CAUSEWAY_STREAM inline
#endif

namespace causeway::kernels::moe {

constexpr int kDownRows = 8;  // of a stage of down

// How many experts down lies behind gate and up. An expert's active must have gone to all CTAs by
// the time its down is next: on an H200 that takes 2 to 3 µs, an expert's gate and up 1.4 µs, and
// the CTAs are not all at the same place. From 4 of 8 on no CTA waits; more would only leave more
// of down for the end, where the memory has nothing else to do.
CAUSEWAY_STREAM int one_token_lag(int experts) { return experts < 4 ? 1 : experts / 2; }

struct OneTokenShape {
  int hidden, intermediate, experts;  // experts: that were chosen
  int lag;
  int ctas;
  Divider by_ctas = Divider(ctas);
};

struct OneTokenStream {
  int pair, limit;    // the next pair of the line; pairs up to here come before the next of down
  int expert, group;  // the next of down: of the CTA's groups
  int tiles, all, ctas, groups, experts;

  CAUSEWAY_STREAM OneTokenStream(const OneTokenShape& shape, int cta) {
    tiles = shape.intermediate / 2;
    experts = shape.experts;
    all = experts * tiles;
    ctas = shape.ctas;
    // From the last CTA on: the first ones have more of down.
    pair = ctas - 1 - cta;
    groups = shape.by_ctas.of(shape.hidden / kDownRows + ctas - 1 - cta);
    group = 0;
    expert = groups == 0 ? experts : 0;
    limit = groups == 0 ? all : (shape.lag + 1) * tiles;
    if (limit > all) limit = all;
  }

  CAUSEWAY_STREAM bool is_down() const { return pair >= limit; }
  CAUSEWAY_STREAM bool done() const { return pair >= limit && expert >= experts; }

  // Beyond the end too.
  CAUSEWAY_STREAM void advance() {
    if (pair < limit) {
      pair += ctas;
    } else if (++group == groups) {
      group = 0;
      ++expert;
      limit = limit + tiles < all ? limit + tiles : all;
    }
  }
};

}  // namespace causeway::kernels::moe

#undef CAUSEWAY_STREAM
