// Norm and router's product in the kernels for few tokens and for one, and the choices' weights.
#pragma once

#include "kernels/cuda_bf16.cuh"
#include "kernels/moe/cuda_few_shared.cuh"
#include "kernels/moe/cuda_route.cuh"

namespace causeway::kernels::moe {

// What it uses of shared memory.
struct ScorePlace {
  SharedPlace shared;
  uint32_t ring;     // bf16 [1 + router_rows][hidden]: the norm's weight, the CTA's rows of router
  uint32_t x;        // bf16 [tokens], x_pitch bytes apart: normed
  uint32_t x_pitch;  // a multiple of 16
  uint32_t partial;  // float [2][kFewWarps]
  uint32_t full;     // barrier: what lies in the ring has come
};

// Every CTA computes all tokens' norms and keeps them, and the scores of its own experts (every
// gridDim.x-th), which it hands to all others. The norm's weight and the CTA's rows of the router,
// which do not depend on the kernel in front, lie in the ring, which has nothing else to do yet.
struct FewScore {
  static constexpr int kVectors = kFrontHiddenMax / 8;
  const ExpertsArgs& args;
  const ScorePlace place;
  int warp, lane;
  int turn = 0;  // of adding up

  static CAUSEWAY_DEVICE int router_rows(const ExpertsArgs& args) {
    const int cta = static_cast<int>(blockIdx.x), ctas = static_cast<int>(gridDim.x);
    return cta < args.experts ? (args.experts - 1 - cta) / ctas + 1 : 0;
  }
  static CAUSEWAY_DEVICE int64_t expert_of(int row) {
    return blockIdx.x + int64_t{row} * gridDim.x;
  }
  CAUSEWAY_DEVICE int thread() const { return warp * 32 + lane; }

  // One thread, before it waits for the kernel in front.
  static CAUSEWAY_DEVICE void ask(const ExpertsArgs& args, const ScorePlace& place) {
    const uint32_t bytes = static_cast<uint32_t>(args.hidden) * 2;
    const uint32_t target = place.shared.address + place.ring;
    const int rows = router_rows(args);
    ptx::barrier_arrive_expect(place.full, static_cast<uint32_t>(rows + 1) * bytes);
    hybrid_gemm::ptx::load_bytes(target, args.front.norm_weight, bytes, place.full);
    for (int r = 0; r < rows; ++r) {
      hybrid_gemm::ptx::load_bytes(
          target + static_cast<uint32_t>(r + 1) * bytes,
          static_cast<const char*>(args.front.router) + expert_of(r) * bytes, bytes, place.full);
    }
  }

  // Of a warp, or of all four in their order.
  template <int kTeam>
  CAUSEWAY_DEVICE float team_sum(float value) {
    value = warp_sum(value);
    if (kTeam == 32) return value;
    float* parts = place.shared.of<float>(place.partial) + turn++ % 2 * kFewWarps;
    if (lane == 0) parts[warp] = value;
    workers_sync();
    value = parts[0];
#pragma unroll
    for (int w = 1; w < kFewWarps; ++w) value += parts[w];
    return value;
  }

  // One token by a team: a warp, or all multiplying threads. Its x stays in registers. Not real:
  // without effect.
  template <int kTeam>
  struct Token {
    static constexpr int kEach = kVectors / kTeam;  // vectors of eight a lane
    FewScore& score;
    int token, self, vectors;
    Bf16x8 kept[kEach];

    CAUSEWAY_DEVICE Token(FewScore& s, int t)
        : score(s), token(t), self(kTeam == 32 ? s.lane : s.thread()), vectors(s.args.hidden / 8) {}

    CAUSEWAY_DEVICE void load(bool real) {
      const auto* source = reinterpret_cast<const Bf16x8*>(score.args.residual);
      source += int64_t{token} * vectors;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        kept[i] = {};
        if (real && self + i * kTeam < vectors) kept[i] = source[self + i * kTeam];
      }
    }

    CAUSEWAY_DEVICE float factor() {
      float squares = 0;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (self + i * kTeam >= vectors) continue;
        float x[8];
        widen(kept[i], x);
#pragma unroll
        for (int j = 0; j < 8; ++j) squares += x[j] * x[j];
      }
      const float mean = score.team_sum<kTeam>(squares) / static_cast<float>(score.args.hidden);
      return rsqrtf(mean + score.args.front.epsilon);
    }

    // Each of this thread's vectors beside the one of `weights` at its place, widened.
    template <typename Body>
    CAUSEWAY_DEVICE void beside(const Bf16x8* weights, Body body) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int v = self + i * kTeam;
        if (v >= vectors) continue;
        float x[8], w[8];
        widen(kept[i], x);
        widen(weights[v], w);
        body(i, v, x, w);
      }
    }

    CAUSEWAY_DEVICE void norm(float factor) {
      auto* normed = score.place.shared.of<Bf16x8>(score.place.x + token * score.place.x_pitch);
      beside(score.place.shared.of<const Bf16x8>(score.place.ring),
             [&](int i, int v, float (&x)[8], const float (&w)[8]) {
#pragma unroll
               for (int j = 0; j < 8; ++j) x[j] *= factor * w[j];
               kept[i] = narrow(x);
               normed[v] = kept[i];
             });
    }

    CAUSEWAY_DEVICE float product(const Bf16x8* router) {
      float sum = 0;
      beside(router, [&](int, int, const float (&x)[8], const float (&w)[8]) {
#pragma unroll
        for (int j = 0; j < 8; ++j) sum += x[j] * w[j];
      });
      return score.team_sum<kTeam>(sum);
    }
  };

  // Its norm, and the words with its scores by this CTA's experts.
  template <int kTeam>
  CAUSEWAY_DEVICE void run(int index, uint32_t tag, bool real = true) {
    Token<kTeam> token(*this, index);
    token.load(real);
    const float factor = token.factor();
    ptx::barrier_wait(place.full, 0);  // not before: residual and weights come together
    token.norm(factor);
    const int rows = router_rows(args);
    for (int r = 0; r < rows; ++r) {
      const auto* router = place.shared.of<const Bf16x8>(place.ring);
      const float score = token.product(router + int64_t{r + 1} * token.vectors);
      if (!real || token.self != 0) continue;
      relaxed_store(args.sync->scores + index * int64_t{args.experts} + expert_of(r),
                    tagged(tag, __float_as_uint(score)));
    }
  }
};

// A token's order keys (cuda_route.cuh): of its choices, the best one first, and of all experts.
struct ChosenKeys {
  const uint32_t *chosen, *all;
};

// `better`, and how many of four keys are better than one.
CAUSEWAY_DEVICE int better_of(const uint4& four, uint32_t than, int better = 0) {
  better += four.x > than ? 1 : 0;
  better += four.y > than ? 1 : 0;
  better += four.z > than ? 1 : 0;
  better += four.w > than ? 1 : 0;
  return better;
}

// A choice's weight: softmax over the token's choices, or over all experts.
CAUSEWAY_DEVICE float weight_of(const ExpertsArgs& args, const ChosenKeys& keys, int choice) {
  const uint32_t* over = args.normalise ? keys.chosen : keys.all;
  const int count = args.normalise ? args.k : args.experts;
  const float top = score_of(keys.chosen[0]);
  float total = 0;
  for (int i = 0; i < count; ++i) total += expf(score_of(over[i]) - top);
  return expf(score_of(keys.chosen[choice]) - top) / total;
}

}  // namespace causeway::kernels::moe
