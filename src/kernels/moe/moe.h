// Mixture of experts: softmax over the router's scores, the best k experts a token, each expert a
// gated MLP over the tokens that chose it, and the weighted sum of their outputs.
//
// Tokens are grouped by expert, so that each chosen expert's weights are read once, and experts
// that no token chose are not read at all.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cpu.h"
#include "kernels/gemm/gemm.h"
#include "kernels/weights_ref.h"

namespace causeway::kernels::moe {

struct Params {
  std::int64_t tokens = 0;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;  // of one expert
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;
  bool normalise_top_k = true;  // the chosen experts' weights sum to 1
  const float* x = nullptr;     // [tokens][hidden]
  WeightsRef router{};          // [experts][hidden]
  WeightsRef gate_up{};         // [experts][gate of intermediate, up of intermediate][hidden]
  WeightsRef down{};            // [experts][hidden][intermediate]
  // Or, where experts lie apart, of each: [experts] of [2 × intermediate][hidden] and of
  // [hidden][intermediate]. They have the type of `gate_up` and `down`, which are not read.
  const std::byte* const* gate_up_of = nullptr;
  const std::byte* const* down_of = nullptr;
  std::uint32_t* chosen = nullptr;  // or null: [experts], tokens that choose each are added
  float* out = nullptr;             // [tokens][hidden]; does not overlap x
  Variant variant = best_variant();
};

// The best `k` of `count` scores by softmax, written to `chosen` (descending; the lower index among
// equals) with their weights.
struct Routing {
  const float* scores = nullptr;
  std::int64_t count = 0;
  std::int64_t k = 0;
  bool normalise = true;
};
void route(const Routing& routing, std::int32_t* chosen, float* weights);

// Holds scratch memory. One call at a time. Throws std::bad_alloc only.
class Moe {
 public:
  Moe();
  ~Moe();
  Moe(Moe&&) noexcept;
  Moe& operator=(Moe&&) noexcept;

  void run(const Params& params, gemm::Gemm& gemm);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace causeway::kernels::moe
