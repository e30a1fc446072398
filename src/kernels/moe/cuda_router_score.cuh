// Norm and router's product in the kernels for small batches and for one, and the choices' weights.
#pragma once

#include "kernels/cuda_bf16.cuh"
#include "kernels/moe/cuda_fused_shared.cuh"
#include "kernels/moe/cuda_route.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/copy.cuh"
#include "kernels/ptx/memory.cuh"

namespace causeway::kernels::moe {

// What it uses of shared memory.
struct ScorePlace {
  SharedPlace shared;
  uint32_t ring;     // bf16 [rows][hidden]: the norm's weight, then the CTA's rows of router
  uint32_t x;        // bf16 [tokens], x_pitch bytes apart: normed
  uint32_t x_pitch;  // a multiple of 16
  uint32_t partial;  // float [2][kWorkerWarps]
  uint32_t full;     // barrier: what lies in the ring has come
};

// A token's scores, as words and as keys: experts, and what fills up 16 (never better than one that
// is).
__host__ __device__ constexpr int keys_pitch(int64_t experts) {
  return static_cast<int>((experts + 15) / 16 * 16);
}

// Every CTA computes all tokens' norms and keeps them, and the scores of its own experts (every
// gridDim.x-th), which it hands to all others. The norm's weight and the CTA's rows of the router,
// which do not depend on the kernel in front, lie in the ring, which has nothing else to do yet.
struct RouterScore {
  const ExpertsArgs& args;
  const ScorePlace place;
  int warp, lane;
  uint32_t turn = 0;  // of adding up

  // A token of a team: a warp, or all multiplying threads.
  struct Token {
    int number, self, team;
  };

  CAUSEWAY_DEVICE int thread() const { return warp * 32 + lane; }
  CAUSEWAY_DEVICE Token of_warp(int number) const { return {number, lane, 32}; }
  CAUSEWAY_DEVICE Token of_all(int number) const { return {number, thread(), kWorkers}; }

  // One thread, before it waits for the kernel in front.
  static CAUSEWAY_DEVICE void ask(const ExpertsArgs& args, const ScorePlace& place) {
    const int bytes = args.hidden * 2, ctas = static_cast<int>(gridDim.x);
    int all = bytes;
#pragma unroll 1
    for (int e = static_cast<int>(blockIdx.x); e < args.experts; e += ctas) all += bytes;
    ptx::barrier_arrive_expect(place.full, static_cast<uint32_t>(all));
    uint32_t target = place.shared.address + place.ring;
    const char* source = static_cast<const char*>(args.front.norm_weight);
    int expert = static_cast<int>(blockIdx.x);
#pragma unroll 1
    for (; all > 0; all -= bytes) {
      ptx::load_bytes(target, source, static_cast<uint32_t>(bytes), place.full);
      target += static_cast<uint32_t>(bytes);
      source = static_cast<const char*>(args.front.router) + int64_t{expert} * bytes;
      expert += ctas;
    }
  }

  // The sum over a warp, or over all four in their order.
  CAUSEWAY_DEVICE float team_sum(const Token& token, float value) {
    value = warp_sum(value);
    if (token.team == 32) return value;
    float* parts = place.shared.of<float>(place.partial) + turn++ % 2 * kWorkerWarps;
    if (lane == 0) parts[warp] = value;
    workers_sync();
    value = parts[0];
#pragma unroll
    for (int w = 1; w < kWorkerWarps; ++w) value += parts[w];
    return value;
  }

  CAUSEWAY_DEVICE const Bf16x8* residual_of(const Token& token) const {
    return reinterpret_cast<const Bf16x8*>(args.residual) +
           int64_t{token.number} * (args.hidden / 8);
  }
  CAUSEWAY_DEVICE Bf16x8* x_of(const Token& token) const {
    return place.shared.of<Bf16x8>(place.x + token.number * place.x_pitch);
  }

  // The sum of squares of this thread's vectors, every team-th, which go to shared memory as they
  // are. Loops over vectors are not unrolled, because all code is fetched for every launch; instead
  // the next vector is on its way while one is used.
  CAUSEWAY_DEVICE float take(const Token& token, const Bf16x8* source, bool real) const {
    const int vectors = args.hidden / 8, readable = real ? vectors : 0;
    Bf16x8* x = x_of(token);
    Bf16x8 own = {};
    if (token.self < readable) own = source[token.self];
    float squares = 0;
#pragma unroll 1
    for (int v = token.self; v < vectors; v += token.team) {
      Bf16x8 next = {};
      if (v + token.team < readable) next = source[v + token.team];
      x[v] = own;
      float values[8];
      widen(own, values);
#pragma unroll
      for (int j = 0; j < 8; ++j) squares += values[j] * values[j];
      own = next;
    }
    return squares;
  }

  // Each of this thread's vectors of x beside the one of `weights` at its place, widened.
  template <typename Body>
  CAUSEWAY_DEVICE void beside(const Token& token, const Bf16x8* weights, Body body) const {
    const int vectors = args.hidden / 8;
    const Bf16x8* x = x_of(token);
    Bf16x8 own = {}, other = {};
    if (token.self < vectors) own = x[token.self], other = weights[token.self];
#pragma unroll 1
    for (int v = token.self; v < vectors; v += token.team) {
      const int next = v + token.team;
      Bf16x8 next_own = {}, next_other = {};
      if (next < vectors) next_own = x[next], next_other = weights[next];
      float a[8], w[8];
      widen(own, a);
      widen(other, w);
      body(v, a, w);
      own = next_own;
      other = next_other;
    }
  }

  // The token's norm, and the words with its scores by this CTA's experts. Not real: without
  // effect.
  CAUSEWAY_DEVICE void run(const Token& token, const Bf16x8* source, uint32_t tag,
                           bool real = true) {
    const float squares = take(token, source, real);
    const float mean = divide(team_sum(token, squares), static_cast<float>(args.hidden));
    const float factor = rsqrtf(mean + args.front.epsilon);
    ptx::barrier_wait_covered(place.full, 0);  // not before: residual and weights come together
    const auto* weights = place.shared.of<const Bf16x8>(place.ring);
    beside(token, weights, [&](int v, float(&x)[8], const float(&w)[8]) {
#pragma unroll
      for (int j = 0; j < 8; ++j) x[j] *= factor * w[j];
      x_of(token)[v] = narrow(x);
    });
    const int pitch = keys_pitch(args.experts);
    unsigned long long* words = args.sync->scores + token.number * pitch;
#pragma unroll 1
    for (int e = static_cast<int>(blockIdx.x); e < pitch; e += gridDim.x) {
      weights += args.hidden / 8;
      float score = 0;
      if (e < args.experts) {
        beside(token, weights, [&](int, const float(&x)[8], const float(&w)[8]) {
#pragma unroll
          for (int j = 0; j < 8; ++j) score += x[j] * w[j];
        });
        score = team_sum(token, score);
      } else {
        score = __int_as_float(0x7FC00000);  // NaN: never better than one that is
      }
      if (real && token.self == 0) {
        ptx::store_relaxed_long(words + e, tagged(tag, __float_as_uint(score)));
      }
    }
  }
};

// A token's order keys (cuda_route.cuh): of its choices, the best one first, and of all experts.
struct ChosenKeys {
  const uint32_t *chosen, *all;
};

// `better`, and how many of four keys are better than one: of so many the sum with its complement
// carries.
CAUSEWAY_DEVICE int better_of(const uint4& four, uint32_t than, int better = 0) {
  asm("{\n.reg .u32 sum;\n"
      "add.cc.u32 sum, %1, %5;\naddc.u32 %0, %0, 0;\n"
      "add.cc.u32 sum, %2, %5;\naddc.u32 %0, %0, 0;\n"
      "add.cc.u32 sum, %3, %5;\naddc.u32 %0, %0, 0;\n"
      "add.cc.u32 sum, %4, %5;\naddc.u32 %0, %0, 0;\n}"
      : "+r"(better)
      : "r"(four.x), "r"(four.y), "r"(four.z), "r"(four.w), "r"(~than));
  return better;
}

// A choice's weight: softmax over the token's choices, or over all experts.
CAUSEWAY_DEVICE float weight_of(const ExpertsArgs& args, const ChosenKeys& keys, int choice) {
  const uint32_t* over = args.normalise ? keys.chosen : keys.all;
  const int count = args.normalise ? args.k : args.experts;
  const float top = score_of(keys.chosen[0]);
  float total = 0;
#pragma unroll 1
  for (int i = 0; i < count; ++i) total += expf(score_of(over[i]) - top);
  return divide(expf(score_of(keys.chosen[choice]) - top), total);
}

}  // namespace causeway::kernels::moe
