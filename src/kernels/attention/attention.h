// Causal attention over paged KV, for prefill chunks with or without earlier context and for
// decode, mixed in one call: softmax(scale · q kᵀ) v, grouped-query heads sharing a KV head.
//
// The KV of one layer lies in frames, block-first: token t of a sequence is in frame
// frames[t / block_tokens], at slot t % block_tokens:
//
//   base + frame × frame_bytes + key_offset + slot × token_stride      K [kv_heads][head_dim]
//                                          … + value_offset             V likewise
//
// Softmax is online over tiles of tokens (Milakov & Gimelshein 2018; FlashAttention), in f32;
// scores never go to memory. Long contexts of few queries are cut into ranges that threads take,
// and their partial results merged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "base/dtype.h"
#include "base/units.h"
#include "kernels/cpu.h"

namespace causeway::kernels::attention {

// A `window` that hides nothing. In a sliding window a token sees itself and the `window` − 1
// tokens in front of it (Mistral 7B, arXiv 2310.06825). Frames of tokens that have left it stay.
inline constexpr std::int64_t kNoWindow = std::numeric_limits<std::int64_t>::max();

// One layer's K and V in the slice's frames.
struct PagedKv {
  std::byte* base = nullptr;
  Bytes frame_bytes;
  Bytes key_offset;    // of the layer, from the frame's start
  Bytes value_offset;  // from K to V
  Bytes token_stride;
  std::int64_t block_tokens = 0;
  DType dtype = DType::kBF16;  // BF16 or F32
};

struct Sequence {
  std::span<const FrameId> frames{};  // cover context + query_count tokens
  std::int64_t query_begin = 0;       // row of q of its first query token
  std::int64_t query_count = 0;       // ≥ 1; token i stands at position context + i
  std::int64_t context = 0;
};

struct Heads {
  std::int64_t query = 0;
  std::int64_t kv = 0;  // divides `query`
  std::int64_t size = 0;
};

struct WriteParams {
  PagedKv kv{};
  Heads heads{};
  std::span<const Sequence> sequences{};
  const float* k = nullptr;  // [tokens][kv heads][size]
  const float* v = nullptr;
  std::int64_t stride = 0;  // floats from token to token, of k and of v
  Variant variant = best_variant();
};

// Writes K and V of the sequences' query tokens into their frames, rounded to the KV's type.
void write_kv(const WriteParams& params);

struct Params {
  PagedKv kv{};
  Heads heads{};
  std::span<const Sequence> sequences{};
  float scale = 1;
  const float* q = nullptr;  // [tokens][query heads][size]
  std::int64_t q_stride = 0;
  float* out = nullptr;  // as q; may be q
  std::int64_t out_stride = 0;
  std::int64_t window = kNoWindow;  // ≥ 1
  float cap = 0;                    // not 0: scores s, scaled, become cap · tanh(s / cap)
  Variant variant = best_variant();
};

// Holds scratch memory. One call at a time; uses all of the kernels' threads. Throws std::bad_alloc
// only.
class Attention {
 public:
  Attention();
  ~Attention();
  Attention(Attention&&) noexcept;
  Attention& operator=(Attention&&) noexcept;

  // KV of all tokens, the query tokens' own included, has been written.
  void run(const Params& params);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace causeway::kernels::attention
