// The experts of few tokens in one kernel, bound by reading the chosen experts' weights once. One
// CTA an SM, all there at once:
//
//   [norm, router's scores | exchanged | choice]  gate and up → active  |counted|  down → out
//
// The bracket is the front, or else a kernel of its own left its result in Groups. An expert's
// tokens are cut into items of up to eight. Gate and up: the tiles (item, 8 features) make one line
// that is dealt out in equal shares. Down: a CTA owns columns of out, 16 at a time, and walks all
// items, so that the sum over experts crosses no CTA.
//
// Three warps feed a ring of stages [16 rows of weights | 8 of tokens] by bulk copies of rows, the
// weights' across the border between the phases: while active is still being counted, the first
// weights of down are on their way. (A lane's copy takes 40 ns to ask for, whatever its size up to
// 1.5 KiB; and tokens that the multiplying warps read for themselves come too late, because the
// memory is busy.) Four warps multiply by tensor cores, each every fourth 64 columns of a stage,
// and add up through shared memory in the order of warps.
//
// Sixteen bytes of a row, eight neighbouring k, are what a lane loads at once; a product takes k in
// any order, so the eight go to two products of the tensor core as they come, from weights and
// tokens alike. Of a block's two halves even rows load the first one first, odd rows the second:
// rows lie a multiple of 128 bytes apart, and so they do not meet in a bank.
//
// The ring takes an SM's shared memory: all that a CTA will read of down for one token of Qwen3-30B
// fits, so that the memory does not idle while active is counted. Half of it, so that the next
// kernel's CTAs come early, made one token's experts no slower but the kernels after them.
#pragma once

#include "kernels/cuda_mma.cuh"
#include "kernels/gemm/sm90_ptx.cuh"
#include "kernels/moe/cuda_route.cuh"

namespace causeway::kernels::moe {

namespace ptx = gemm::ptx;

constexpr int kFewWarps = 4;    // that multiply
constexpr int kFewFeeders = 3;  // the upper eight rows of weights, the lower eight, tokens
constexpr int kFewThreads = 32 * (kFewWarps + kFewFeeders);
constexpr int kWeightRows = 16;  // of a stage
constexpr int kItemRows = 8;     // tokens of a product
constexpr int kGroup = 32;       // columns of a product's two steps: four lanes × 8
constexpr int kBlock = 64;       // columns that a warp takes at a time: the banks' width
constexpr int kRound = kBlock * kFewWarps;
constexpr int kFrontHiddenMax = 4096;
constexpr int kRoundsMax = 3;  // of a stage
constexpr int kColumnsMax = kRound * kRoundsMax;

// Tokens of one chosen expert (rows, row_weight).
struct FewItem {
  const char* weight[3];  // gate, up, down
  int first, rows;
};

// A row's token and pair.
struct FewRow {
  uint16_t token, pair;
};

// Offsets into shared memory; the ring lies at 0. What is only there with a front is marked.
struct FewLayout {
  uint32_t partial;     // float4 [2][kFewWarps][32]
  uint32_t sums;        // float [tokens][kWeightRows]
  uint32_t items;       // FewItem [few_items_max]
  uint32_t rows;        // FewRow [pairs]
  uint32_t row_weight;  // float [pairs]
  uint32_t keys;        // front: uint32_t [tokens][keys_pitch], order_key of the scores
  uint32_t choices;     // front: uint8_t [tokens][experts], which choice of the token it is
  uint32_t pair_key;    // front: uint32_t [pairs]
  uint32_t x;           // front: bf16 [tokens], x_pitch bytes apart
  uint32_t active;      // direct: bf16 [pairs][intermediate]
  uint32_t down_parts;  // direct: float [pairs][kFewWarps][kWeightRows]
  uint32_t words;       // int [4 + kFewWarps]: items; front: of a scan
  uint32_t barriers;    // full and empty [stages], and the front's
  uint32_t bytes;
  uint32_t tables;   // front: in the ring, const char* [3][experts]
  uint32_t pitch;    // bytes of a stage's row, a multiple of 128
  uint32_t x_pitch;  // likewise
  uint32_t stage_bytes;
  int stages;
  int gated_step, down_step;  // columns of a stage
  bool direct;  // of one token: CTAs hand active to each other in words that say their launch
};

__host__ __device__ constexpr int keys_pitch(int64_t experts) {
  return static_cast<int>((experts + 3) / 4 * 4);
}

// Trials.
enum : uint32_t {
  kOneLane = 1,      // one lane of a feeding warp asks for all its rows
  kEachArrives = 2,  // each asking lane arrives for what it asks
  kAllArrive = 4,    // all lanes of the multiplying warps say that a stage is read
  kReadFence = 8,    // with a proxy fence in front
  kDirect = 16,
  kLateWeights = 32,  // the pairs' weights after the experts are known
  kAheadStays = 64,   // what is asked for the next kernels leaves L2 last
  kTensor = 128,      // rows by tensor copies, of maps of all memory
};

// What the next kernels read, asked into L2 when this kernel begins, and when it has asked for all
// its own.
struct FewAhead {
  const char* data;
  uint32_t early, late;  // bytes; the late ones lie behind the early ones
};
constexpr int kAheadMax = 4;

// A map of all memory for copies of so many bytes: [2^13 slabs][2^31 doubles] from map_base on.
constexpr int kMaps = 4, kSlabBits = 34;

struct FewArgs {
  CUtensorMap maps[kMaps];
  uint32_t map_bytes[kMaps];
  uint64_t map_base;
  uint32_t trial;
  FewAhead ahead[kAheadMax];
  FewLayout layout;
  FrontCuda front;
  Sync* sync;
  Groups groups;                  // without a front
  const void* const* tables[3];   // gate, up, down
  const __nv_bfloat16* x;         // [tokens][hidden], without a front
  const __nv_bfloat16* residual;  // [tokens][hidden]
  __nv_bfloat16* active;          // [pairs][intermediate]
  __nv_bfloat16* out;             // [tokens][hidden]
  unsigned long long* experts_read;
  int tokens, hidden, intermediate, experts, k;
  bool normalise;
};

// This CTA's shared memory, with types.
struct FewPlace {
  const FewLayout& at;
  char* memory;
  uint32_t address;

  template <typename T>
  CAUSEWAY_DEVICE T* of(uint32_t offset) const {
    return reinterpret_cast<T*>(memory + offset);
  }
  CAUSEWAY_DEVICE uint32_t full(int stage) const { return address + at.barriers + stage * 8; }
  CAUSEWAY_DEVICE uint32_t empty(int stage) const { return full(at.stages + stage); }
  CAUSEWAY_DEVICE uint32_t front_full() const { return full(2 * at.stages); }
  CAUSEWAY_DEVICE int& items() const { return *of<int>(at.words); }
  CAUSEWAY_DEVICE const FewItem& item(int index) const { return of<FewItem>(at.items)[index]; }
};

CAUSEWAY_DEVICE void bulk_load(uint32_t target, const void* source, uint32_t bytes,
                               uint32_t barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1], %2, [%3], %4;" ::"r"(target),
      "l"(source), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}

CAUSEWAY_DEVICE void row_load(const FewArgs& args, uint32_t target, const void* source,
                              uint32_t bytes, uint32_t barrier, uint64_t policy) {
  const uint64_t at = reinterpret_cast<uint64_t>(source) - args.map_base;
  const uint64_t in_slab = at & ((uint64_t{1} << kSlabBits) - 1);
  if (in_slab + bytes <= uint64_t{1} << kSlabBits) {
#pragma unroll
    for (int i = 0; i < kMaps; ++i) {
      if (args.map_bytes[i] != bytes) continue;
      ptx::load_box_streamed(target, &args.maps[i], static_cast<int>(in_slab / 8),
                             static_cast<int>(at >> kSlabBits), barrier, policy);
      return;
    }
  }
  bulk_load(target, source, bytes, barrier, policy);
}

CAUSEWAY_DEVICE unsigned long long relaxed_load(const unsigned long long* word) {
  unsigned long long value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
// Each word by itself, in no order.
CAUSEWAY_DEVICE ulonglong2 relaxed_load_two(const unsigned long long* words) {
  ulonglong2 two;
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(two.x), "=l"(two.y)
               : "l"(words)
               : "memory");
  return two;
}
CAUSEWAY_DEVICE void prefetch_bytes(const void* source, uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(source), "r"(bytes) : "memory");
}
CAUSEWAY_DEVICE void prefetch_bytes(const void* source, uint32_t bytes, uint64_t policy) {
  asm volatile("cp.async.bulk.prefetch.L2.global.L2::cache_hint [%0], %1, %2;" ::"l"(source),
               "r"(bytes), "l"(policy)
               : "memory");
}
// This CTA's share of `bytes`, one thread.
CAUSEWAY_DEVICE void prefetch_share(const char* data, uint32_t bytes, bool stays) {
  constexpr uint32_t kPiece = 8192;
  if (stays) {
    uint64_t policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    for (uint32_t at = blockIdx.x * kPiece; at < bytes; at += gridDim.x * kPiece) {
      prefetch_bytes(data + at, min(kPiece, bytes - at), policy);
    }
    return;
  }
  for (uint32_t at = blockIdx.x * kPiece; at < bytes; at += gridDim.x * kPiece) {
    prefetch_bytes(data + at, min(kPiece, bytes - at));
  }
}
CAUSEWAY_DEVICE void relaxed_store(unsigned long long* word, unsigned long long value) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

// The multiplying warps.
CAUSEWAY_DEVICE void workers_sync() {
  __syncwarp();
  asm volatile("bar.sync 1, %0;" ::"n"(32 * kFewWarps) : "memory");
}

// Place in a ring of so many stages.
struct FewCursor {
  int stages, stage = 0;
  uint32_t phase = 0;

  CAUSEWAY_DEVICE void advance() {
    if (++stage == stages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

// The tiles of gate and up that this CTA does: a range of the line.
struct GatedShare {
  int tiles;  // of an item
  int begin, end;

  CAUSEWAY_DEVICE GatedShare(const FewArgs& args, int items) : tiles(args.intermediate / 8) {
    // all × cta ÷ ctas, in 32 bits.
    const uint32_t all = static_cast<uint32_t>(items * tiles), ctas = gridDim.x;
    const uint32_t cta = blockIdx.x, each = all / ctas, left = all - each * ctas;
    begin = static_cast<int>(each * cta + left * cta / ctas);
    end = static_cast<int>(each * (cta + 1) + left * (cta + 1) / ctas);
  }
};

// ---- feeding -----------------------------------------------------------------------------------

// One of the three warps; each has its part of every stage.
template <bool kFront>
struct FewFeeder {
  const FewArgs& args;
  const FewPlace& place;
  int part, lane;   // part: 0, 1: eight rows of weights each; 2: tokens
  uint32_t parity;  // of the launch
  FewCursor cursor;

  // Waits for the stage, and says how many bytes this warp will bring.
  CAUSEWAY_DEVICE void enter(uint32_t bytes, uint32_t mine) {
    ptx::barrier_wait(place.empty(cursor.stage), cursor.phase ^ 1);
    if ((args.trial & kEachArrives) != 0) {
      if (lane < 8) ptx::barrier_arrive_expect(place.full(cursor.stage), mine);
      return;
    }
    if (lane == 0) ptx::barrier_arrive_expect(place.full(cursor.stage), bytes);
    __syncwarp();
  }
  CAUSEWAY_DEVICE uint32_t target(int row) const {
    return place.address + cursor.stage * place.at.stage_bytes + row * place.at.pitch;
  }

  // Eight rows from `rows` on, `depth` wide, a stage for each step.
  CAUSEWAY_DEVICE void feed_weights(const char* rows, int depth, int step, uint64_t policy) {
    const char* source = rows + int64_t{lane % 8} * depth * 2;
    for (int column = 0; column < depth; column += step) {
      const uint32_t bytes = static_cast<uint32_t>(min(step, depth - column)) * 2;
      const bool tensor = (args.trial & kTensor) != 0;
      const bool whole = !tensor && column == 0 && step == depth && bytes == place.at.pitch;
      enter(8 * bytes, whole ? (lane == 0 ? 8 * bytes : 0) : bytes);
      const uint32_t full = place.full(cursor.stage);
      if (whole) {
        if (lane == 0) bulk_load(target(part * 8), rows, 8 * bytes, full, policy);
      } else if ((args.trial & kOneLane) != 0) {
        if (lane == 0) {
          for (int r = 0; r < 8; ++r) {
            bulk_load(target(part * 8 + r), rows + (int64_t{r} * depth + column) * 2, bytes, full,
                      policy);
          }
        }
      } else if (tensor) {
        if (lane < 8) {
          row_load(args, target(part * 8 + lane), source + column * 2, bytes, full, policy);
        }
      } else if (lane < 8) {
        bulk_load(target(part * 8 + lane), source + column * 2, bytes, full, policy);
      }
      cursor.advance();
    }
  }

  // Up to eight rows; this lane's `source`.
  CAUSEWAY_DEVICE void feed_tokens(const __nv_bfloat16* source, int rows, int depth, int step) {
    for (int column = 0; column < depth; column += step) {
      const uint32_t bytes = static_cast<uint32_t>(min(step, depth - column)) * 2;
      enter(static_cast<uint32_t>(rows) * bytes, lane < rows ? bytes : 0);
      if ((args.trial & kOneLane) != 0) {
        for (int r = 0; r < rows; ++r) {
          const auto from = reinterpret_cast<const __nv_bfloat16*>(
              __shfl_sync(0xFFFFFFFFu, reinterpret_cast<unsigned long long>(source), r));
          if (lane == 0) {
            hybrid_gemm::ptx::load_bytes(target(kWeightRows + r), from + column, bytes,
                                         place.full(cursor.stage));
          }
        }
      } else if ((args.trial & kTensor) != 0) {
        if (lane < rows) {
          row_load(args, target(kWeightRows + lane), source + column, bytes,
                   place.full(cursor.stage), ptx::policy_stream());
        }
      } else if (lane < rows) {
        hybrid_gemm::ptx::load_bytes(target(kWeightRows + lane), source + column, bytes,
                                     place.full(cursor.stage));
      }
      cursor.advance();
    }
  }

  CAUSEWAY_DEVICE FewRow row_of(const FewItem& item) const {
    return place.of<FewRow>(place.at.rows)[item.first + min(lane, item.rows - 1)];
  }

  CAUSEWAY_DEVICE void gated(uint64_t policy) {
    const GatedShare share(args, place.items());
    const int step = place.at.gated_step;
    for (int tile = share.begin; tile < share.end; ++tile) {
      const FewItem& item = place.item(tile / share.tiles);
      if (part < 2) {
        const int64_t row = int64_t{tile % share.tiles} * 8 * args.hidden * 2;
        feed_weights(item.weight[part] + row, args.hidden, step, policy);
      } else if (kFront) {
        feed_tokens(nullptr, 0, args.hidden, step);  // they are there
      } else {
        feed_tokens(args.x + int64_t{row_of(item).token} * args.hidden, item.rows, args.hidden,
                    step);
      }
    }
  }

  // Until all that gate and up leave is there, and the copy engine sees it.
  CAUSEWAY_DEVICE void wait_for_active() {
    const uint32_t tiles = static_cast<uint32_t>(args.intermediate / 8);
    for (int i = lane; i < place.items(); i += 32) {
      hybrid_gemm::ptx::SpinGuard guard;
      while (hybrid_gemm::ptx::flag_load(args.sync->tiles_done[parity] + i) < tiles) guard.spin();
    }
    __syncwarp();
    hybrid_gemm::ptx::proxy_fence();
  }

  CAUSEWAY_DEVICE void down(uint64_t policy) {
    const int64_t row_bytes = int64_t{args.intermediate} * 2;
    const int items = place.items(), step = place.at.down_step;
    for (int64_t row = int64_t{blockIdx.x} * kWeightRows; row < args.hidden;
         row += int64_t{gridDim.x} * kWeightRows) {
      for (int i = 0; i < items; ++i) {
        const FewItem& item = place.item(i);
        if (part < 2) {
          feed_weights(item.weight[2] + (row + part * 8) * row_bytes, args.intermediate, step,
                       policy);
        } else if (place.at.direct) {
          feed_tokens(nullptr, 0, args.intermediate, step);
        } else {
          feed_tokens(args.active + int64_t{row_of(item).pair} * args.intermediate, item.rows,
                      args.intermediate, step);
        }
      }
    }
  }

  CAUSEWAY_DEVICE void run() {
    const uint64_t policy = ptx::policy_stream();
    hybrid_gemm::ptx::proxy_fence();  // the front wrote to the ring
    gated(policy);
    if (int64_t{blockIdx.x} * kWeightRows >= args.hidden) return;
    if (part == 2 && !place.at.direct) wait_for_active();
    down(policy);
    if (part == 0 && lane == 0) {
      for (const FewAhead& ahead : args.ahead) {
        prefetch_share(ahead.data + ahead.early, ahead.late, (args.trial & kAheadStays) != 0);
      }
    }
  }
};

// ---- multiplying, four warps -------------------------------------------------------------------

template <bool kFront>
struct FewWorker {
  const FewArgs& args;
  const FewPlace& place;
  int warp, lane;
  uint32_t launch;
  FewCursor cursor;
  int turn = 0;          // of adding up
  float sum[4][4] = {};  // four that take turns: a chain of products is long

  CAUSEWAY_DEVICE int thread() const { return warp * 32 + lane; }
  CAUSEWAY_DEVICE const FewRow& row_of(const FewItem& item, int in_item) const {
    return place.of<FewRow>(place.at.rows)[item.first + in_item];
  }

  // A block of eight rows, from this lane's piece of its row on.
  struct Halves {
    uint4 half[2];
  };
  CAUSEWAY_DEVICE Halves load_block(const char* piece) const {
    const bool odd = lane / 4 % 2 != 0;
    const uint4 a = *reinterpret_cast<const uint4*>(piece + (odd ? 64 : 0));
    const uint4 b = *reinterpret_cast<const uint4*>(piece + (odd ? 0 : 64));
    return {{odd ? b : a, odd ? a : b}};
  }
  CAUSEWAY_DEVICE void multiply_half(const Halves& top, const Halves& bottom, const Halves& token,
                                     int h) {
    const uint4 t = top.half[h], b = bottom.half[h], x = token.half[h];
    const uint32_t low[4] = {t.x, b.x, t.y, b.y}, high[4] = {t.z, b.z, t.w, b.w};
    mma::multiply_add(sum[2 * h], low, x.x, x.y);
    mma::multiply_add(sum[2 * h + 1], high, x.z, x.w);
  }

  // This warp's blocks of so many rounds. Pointers: to the lane's piece of the stage's first
  // column.
  template <int kRounds>
  CAUSEWAY_DEVICE void multiply_rounds(const char* weights, const char* tokens) {
    Halves top[kRounds], bottom[kRounds], token[kRounds];
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      const int at = (warp + kFewWarps * i) * kBlock * 2;
      top[i] = load_block(weights + at);
      bottom[i] = load_block(weights + 8 * place.at.pitch + at);
      token[i] = load_block(tokens + at);
    }
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      multiply_half(top[i], bottom[i], token[i], 0);
      multiply_half(top[i], bottom[i], token[i], 1);
    }
  }
  CAUSEWAY_DEVICE void multiply_some(const char* weights, const char* tokens, int columns) {
    for (int column = warp * kBlock; column < columns; column += kRound) {
      const Halves top = load_block(weights + column * 2);
      const Halves bottom = load_block(weights + 8 * place.at.pitch + column * 2);
      const Halves token = load_block(tokens + column * 2);
      multiply_half(top, bottom, token, 0);
      if (column + kGroup < columns) multiply_half(top, bottom, token, 1);
    }
  }

  // The next stage. `row`: this lane's token in the stage, any where there is none: its sums are
  // not read. `x`: the token at the stage's first column if the stage does not bring it.
  CAUSEWAY_DEVICE void multiply(int row, const char* x, int columns) {
    const char* stage = place.memory + cursor.stage * place.at.stage_bytes;
    const int piece = lane % 4 * 16;
    const char* weights = stage + lane / 4 * place.at.pitch + piece;
    const char* tokens = (x != nullptr ? x : stage + (kWeightRows + row) * place.at.pitch) + piece;
    ptx::barrier_wait(place.full(cursor.stage), cursor.phase);
    switch (columns) {
      case 3 * kRound: multiply_rounds<3>(weights, tokens); break;
      case 2 * kRound: multiply_rounds<2>(weights, tokens); break;
      case kRound: multiply_rounds<1>(weights, tokens); break;
      default: multiply_some(weights, tokens, columns); break;
    }
    if ((args.trial & kReadFence) != 0) hybrid_gemm::ptx::proxy_fence();
    __syncwarp();
    if (lane == 0 || (args.trial & kAllArrive) != 0) ptx::barrier_arrive(place.empty(cursor.stage));
    cursor.advance();
  }

  // The sums, added in the order of warps; they begin anew. Thread t has component t % 4 of what
  // lane t / 4 of a warp holds: row t / 16 (components 0, 1) or 8 further (2, 3), token t / 4 % 4 ×
  // 2 and the next.
  CAUSEWAY_DEVICE float add_up() {
    auto* partial = place.of<float4>(place.at.partial) + turn++ % 2 * (kFewWarps * 32);
    float mine[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      mine[i] = (sum[0][i] + sum[1][i]) + (sum[2][i] + sum[3][i]);
      sum[0][i] = sum[1][i] = sum[2][i] = sum[3][i] = 0.0f;
    }
    partial[warp * 32 + lane] = make_float4(mine[0], mine[1], mine[2], mine[3]);
    workers_sync();  // also: what was added up two turns ago has been read
    const float* parts = reinterpret_cast<const float*>(partial) + thread();
    float total = parts[0];
#pragma unroll
    for (int w = 1; w < kFewWarps; ++w) total += parts[w * 128];
    return total;
  }
  CAUSEWAY_DEVICE int total_row() const { return thread() / 16 + thread() % 4 / 2 * 8; }
  CAUSEWAY_DEVICE int total_token() const { return thread() / 4 % 4 * 2 + thread() % 2; }

  static CAUSEWAY_DEVICE float silu(float x) { return x / (1.0f + __expf(-x)); }

  CAUSEWAY_DEVICE void store_active(const FewItem& item, int tile, float total) {
    const float up = __shfl_down_sync(0xFFFFFFFFu, total, 2);  // eight rows further
    if (total_row() >= 8 || total_token() >= item.rows) return;
    const int64_t pair = row_of(item, total_token()).pair;
    args.active[pair * args.intermediate + tile * 8 + total_row()] =
        __float2bfloat16(silu(total) * up);
  }

  // One token's two features of this warp as one word.
  CAUSEWAY_DEVICE void hand_over_active(const FewItem& item, int tile, float total) {
    const float up = __shfl_down_sync(0xFFFFFFFFu, total, 2);
    const float mine = silu(total) * up;
    const float next = __shfl_down_sync(0xFFFFFFFFu, mine, 16);
    if (lane != 0) return;
    const int64_t at = int64_t{row_of(item, 0).pair} * args.intermediate + tile * 8 + 2 * warp;
    relaxed_store(args.sync->active + at / 2,
                  static_cast<unsigned long long>(launch + 1) << 32 | mma::pack(mine, next));
  }

  // All CTAs' words, as they come.
  CAUSEWAY_DEVICE void collect_active() {
    constexpr int kEach = 12, kStep = 2 * 32 * kFewWarps;
    const int words = args.k * args.intermediate / 2;
    auto* target = place.of<uint2>(place.at.active);
    for (int begin = 2 * thread(); begin < words; begin += kEach * kStep) {
      uint32_t missing = 0;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (begin + i * kStep < words) missing |= 1u << i;
      }
      hybrid_gemm::ptx::SpinGuard guard;
      while (missing != 0) {
        ulonglong2 two[kEach];
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          if ((missing >> i & 1) != 0) {
            two[i] = relaxed_load_two(args.sync->active + begin + i * kStep);
          }
        }
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          if ((missing >> i & 1) == 0 || static_cast<uint32_t>(two[i].x >> 32) != launch + 1 ||
              static_cast<uint32_t>(two[i].y >> 32) != launch + 1) {
            continue;
          }
          target[(begin + i * kStep) / 2] =
              make_uint2(static_cast<uint32_t>(two[i].x), static_cast<uint32_t>(two[i].y));
          missing &= ~(1u << i);
        }
        guard.spin();
      }
    }
    workers_sync();
  }

  // The sums of one token's row of weights, of this warp's columns.
  CAUSEWAY_DEVICE void leave_part(int index) {
    float* part = place.of<float>(place.at.down_parts) + (index * kFewWarps + warp) * kWeightRows;
    float mine[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      mine[i] = (sum[0][i] + sum[1][i]) + (sum[2][i] + sum[3][i]);
      sum[0][i] = sum[1][i] = sum[2][i] = sum[3][i] = 0.0f;
    }
    if (lane % 4 != 0) return;
    part[lane / 4] = mine[0];
    part[lane / 4 + 8] = mine[2];
  }
  // As add_up and add_weighted do it item by item.
  CAUSEWAY_DEVICE void add_parts(int items) {
    if (thread() >= kWeightRows) return;
    const float* part = place.of<float>(place.at.down_parts) + thread();
    float total = 0.0f;
#pragma unroll 8
    for (int index = 0; index < items; ++index) {
      float of_item = part[index * kFewWarps * kWeightRows];
#pragma unroll
      for (int w = 1; w < kFewWarps; ++w) {
        of_item += part[(index * kFewWarps + w) * kWeightRows];
      }
      total += place.of<float>(place.at.row_weight)[place.item(index).first] * of_item;
    }
    place.of<float>(place.at.sums)[thread()] = total;
  }

  CAUSEWAY_DEVICE void add_weighted(const FewItem& item, float total) {
    if (total_token() >= item.rows) return;
    const float weight = place.of<float>(place.at.row_weight)[item.first + total_token()];
    float* sums = place.of<float>(place.at.sums);
    sums[row_of(item, total_token()).token * kWeightRows + total_row()] += weight * total;
  }

  CAUSEWAY_DEVICE void gate_and_up() {
    const GatedShare share(args, place.items());
    const int step = place.at.gated_step;
    int since = share.begin;
    for (int tile = share.begin; tile < share.end; ++tile) {
      const int index = tile / share.tiles;
      const FewItem item = place.item(index);
      const int row = min(lane / 4, item.rows - 1);
      const char* x = nullptr;
      if (kFront) x = place.memory + place.at.x + row_of(item, row).token * place.at.x_pitch;
      for (int column = 0; column < args.hidden; column += step) {
        multiply(row, kFront ? x + column * 2 : nullptr, min(step, args.hidden - column));
      }
      if (place.at.direct) {
        hand_over_active(item, tile % share.tiles, add_up());
        continue;
      }
      store_active(item, tile % share.tiles, add_up());
      if (tile + 1 != share.end && (tile + 1) % share.tiles != 0) continue;
      workers_sync();
      if (thread() == 0) {
        hybrid_gemm::ptx::flag_add(args.sync->tiles_done[launch % 2] + index,
                                   static_cast<uint32_t>(tile + 1 - since));
      }
      since = tile + 1;
    }
  }

  CAUSEWAY_DEVICE void down() {
    const int items = place.items(), step = place.at.down_step;
    float* sums = place.of<float>(place.at.sums);
    const bool direct = place.at.direct;
    if (direct && int64_t{blockIdx.x} * kWeightRows < args.hidden) collect_active();
    for (int64_t begin = int64_t{blockIdx.x} * kWeightRows; begin < args.hidden;
         begin += int64_t{gridDim.x} * kWeightRows) {
      for (int i = thread(); i < args.tokens * kWeightRows; i += 32 * kFewWarps) sums[i] = 0.0f;
      const float2 first_residual = residual_at(begin, thread());  // early: it takes a while
      for (int index = 0; index < items; ++index) {
        const FewItem item = place.item(index);
        const char* x = nullptr;
        if (direct) {
          x = place.memory + place.at.active + row_of(item, 0).pair * args.intermediate * 2;
        }
        for (int column = 0; column < args.intermediate; column += step) {
          multiply(min(lane / 4, item.rows - 1), direct ? x + column * 2 : nullptr,
                   min(step, args.intermediate - column));
        }
        if (direct) {
          leave_part(index);
        } else {
          add_weighted(item, add_up());
        }
      }
      workers_sync();
      if (direct) {
        add_parts(items);
        __syncwarp();
      }
      store(begin, first_residual);
      workers_sync();
    }
  }

  // Where the pair `i` of sums goes: in the 16 columns of out from `begin` on.
  CAUSEWAY_DEVICE int64_t place_of(int64_t begin, int i) const {
    return i / (kWeightRows / 2) * int64_t{args.hidden} + begin + i % (kWeightRows / 2) * 2;
  }
  CAUSEWAY_DEVICE float2 residual_at(int64_t begin, int i) const {
    if (args.residual == nullptr || i >= args.tokens * kWeightRows / 2) return make_float2(0, 0);
    const __nv_bfloat16* from = args.residual + place_of(begin, i);
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(from));
  }
  CAUSEWAY_DEVICE void store(int64_t begin, float2 residual) {
    const float* sums = place.of<float>(place.at.sums);
    for (int i = thread(); i < args.tokens * kWeightRows / 2; i += 32 * kFewWarps) {
      if (i != thread()) residual = residual_at(begin, i);
      *reinterpret_cast<__nv_bfloat162*>(args.out + place_of(begin, i)) =
          __floats2bfloat162_rn(sums[i * 2] + residual.x, sums[i * 2 + 1] + residual.y);
    }
  }
};

// ---- who chose what, the multiplying warps -----------------------------------------------------

// As the kernels in front left it.
CAUSEWAY_DEVICE void take_groups(const FewArgs& args, const FewPlace& place, int thread) {
  const int items = *args.groups.chunks, pairs = args.tokens * args.k;
  for (int i = thread; i < items; i += 32 * kFewWarps) {
    const int4 chunk = args.groups.chunk[i];
    FewItem& item = place.of<FewItem>(place.at.items)[i];
    for (int w = 0; w < 3; ++w) {
      item.weight[w] = static_cast<const char*>(args.tables[w][chunk.x]);
    }
    item.first = chunk.y;
    item.rows = chunk.z;
  }
  for (int r = thread; r < pairs; r += 32 * kFewWarps) {
    const int pair = args.groups.row_pair[r];
    place.of<FewRow>(place.at.rows)[r] = {static_cast<uint16_t>(pair / args.k),
                                          static_cast<uint16_t>(pair)};
    place.of<float>(place.at.row_weight)[r] = args.groups.weight[pair];
  }
  if (thread == 0) place.items() = items;
}

// Norm, router, choice. Every CTA computes all tokens' norms and keeps them, the scores of its own
// experts (every gridDim.x-th), which it hands to all others, and every CTA chooses for itself.
// The norm's weight and the CTA's rows of the router, which do not depend on the kernel in front,
// lie in the ring, which has nothing else to do yet.
struct FewFront {
  const FewArgs& args;
  const FewPlace& place;
  int warp, lane;
  uint32_t tag;  // of this launch
  int turn = 0;

  static CAUSEWAY_DEVICE int router_rows(const FewArgs& args) {
    const int cta = static_cast<int>(blockIdx.x), ctas = static_cast<int>(gridDim.x);
    return cta < args.experts ? (args.experts - 1 - cta) / ctas + 1 : 0;
  }
  CAUSEWAY_DEVICE int thread() const { return warp * 32 + lane; }

  // One thread, before it waits for the kernel in front.
  static CAUSEWAY_DEVICE void ask(const FewArgs& args, const FewPlace& place) {
    const uint32_t bytes = static_cast<uint32_t>(args.hidden) * 2, full = place.front_full();
    const int rows = router_rows(args);
    ptx::barrier_arrive_expect(full, static_cast<uint32_t>(rows + 1) * bytes);
    hybrid_gemm::ptx::load_bytes(place.address, args.front.norm_weight, bytes, full);
    for (int r = 0; r < rows; ++r) {
      const int64_t expert = blockIdx.x + int64_t{r} * gridDim.x;
      hybrid_gemm::ptx::load_bytes(place.address + static_cast<uint32_t>(r + 1) * bytes,
                                   static_cast<const char*>(args.front.router) + expert * bytes,
                                   bytes, full);
    }
  }

  // Of a warp, or of all four in their order.
  template <int kTeam>
  CAUSEWAY_DEVICE float team_sum(float value) {
    value = warp_sum(value);
    if (kTeam == 32) return value;
    float* parts = place.of<float>(place.at.partial) + turn++ % 2 * kFewWarps;
    if (lane == 0) parts[warp] = value;
    workers_sync();
    value = parts[0];
#pragma unroll
    for (int w = 1; w < kFewWarps; ++w) value += parts[w];
    return value;
  }

  // A token's x stays in registers, kEach vectors of eight a lane.
  template <int kTeam, int kEach>
  CAUSEWAY_DEVICE void score_token(int token) {
    const int self = kTeam == 32 ? lane : thread(), vectors = args.hidden / 8;
    const auto* source = reinterpret_cast<const Bf16x8*>(args.residual) + int64_t{token} * vectors;
    const auto* weight = place.of<const Bf16x8>(0);
    auto* normed = place.of<Bf16x8>(place.at.x + token * place.at.x_pitch);
    Bf16x8 kept[kEach];
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (self + i * kTeam < vectors) kept[i] = source[self + i * kTeam];
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (self + i * kTeam >= vectors) continue;
      float x[8];
      widen(kept[i], x);
#pragma unroll
      for (int j = 0; j < 8; ++j) squares += x[j] * x[j];
    }
    const float mean = team_sum<kTeam>(squares) / static_cast<float>(args.hidden);
    const float factor = rsqrtf(mean + args.front.epsilon);
    ptx::barrier_wait(place.front_full(), 0);  // not before: residual and weights come together
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int v = self + i * kTeam;
      if (v >= vectors) continue;
      float x[8], w[8];
      widen(kept[i], x);
      widen(weight[v], w);
#pragma unroll
      for (int j = 0; j < 8; ++j) x[j] *= factor * w[j];
      kept[i] = narrow(x);
      normed[v] = kept[i];
    }
    const int rows = router_rows(args);
    for (int r = 0; r < rows; ++r) {
      const auto* router = weight + int64_t{r + 1} * vectors;
      float score = 0;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int v = self + i * kTeam;
        if (v >= vectors) continue;
        float x[8], w[8];
        widen(kept[i], x);
        widen(router[v], w);
#pragma unroll
        for (int j = 0; j < 8; ++j) score += x[j] * w[j];
      }
      score = team_sum<kTeam>(score);
      const int64_t expert = blockIdx.x + int64_t{r} * gridDim.x;
      if (self == 0) {
        relaxed_store(args.sync->scores + token * int64_t{args.experts} + expert,
                      static_cast<unsigned long long>(tag) << 32 | __float_as_uint(score));
      }
    }
  }

  // All CTAs' scores, as they come: a word says itself whether it is of this launch.
  CAUSEWAY_DEVICE void collect() {
    constexpr int kEach = 8, kWorkers = 32 * kFewWarps;
    const int words = args.tokens * args.experts;
    auto* keys = place.of<uint32_t>(place.at.keys);
    const int pitch = keys_pitch(args.experts);
    for (int begin = thread(); begin < words; begin += kEach * kWorkers) {
      uint32_t missing = 0;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (begin + i * kWorkers < words) missing |= 1u << i;
      }
      hybrid_gemm::ptx::SpinGuard guard;
      while (missing != 0) {
        unsigned long long word[kEach];
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          if ((missing >> i & 1) != 0) {
            word[i] = relaxed_load(args.sync->scores + begin + i * kWorkers);
          }
        }
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          if ((missing >> i & 1) == 0 || static_cast<uint32_t>(word[i] >> 32) != tag) continue;
          const int at = begin + i * kWorkers;
          keys[at / args.experts * pitch + at % args.experts] =
              order_key(__uint_as_float(static_cast<uint32_t>(word[i])));
          missing &= ~(1u << i);
        }
        guard.spin();
      }
    }
  }

  // An expert is the token's n-th choice when n others are better: all experts at once are sooner
  // counted than one choice after the other is found.
  CAUSEWAY_DEVICE int rank_of(const uint32_t* keys, int expert) const {
    const uint32_t key = keys[expert];
    int better = 0;
#pragma unroll 8
    for (int e = 0; e < args.experts; e += 4) {
      const uint4 four = *reinterpret_cast<const uint4*>(keys + e);
      better += four.x > (e < expert ? key - 1 : key) ? 1 : 0;  // the lower index among equals
      better += four.y > (e + 1 < expert ? key - 1 : key) ? 1 : 0;
      better += four.z > (e + 2 < expert ? key - 1 : key) ? 1 : 0;
      better += four.w > (e + 3 < expert ? key - 1 : key) ? 1 : 0;
    }
    return better;
  }

  CAUSEWAY_DEVICE void clear_padding() {
    const int pitch = keys_pitch(args.experts), padding = pitch - args.experts;
    for (int i = thread(); i < args.tokens * padding; i += 32 * kFewWarps) {
      place.of<uint32_t>(place.at.keys)[i / padding * pitch + args.experts + i % padding] = 0;
    }
  }

  // A pair's weight: softmax over the token's choices, or over all experts.
  CAUSEWAY_DEVICE float weight_of(int token, int choice) const {
    const uint32_t* chosen = place.of<uint32_t>(place.at.pair_key) + token * args.k;
    const uint32_t* keys = place.of<uint32_t>(place.at.keys) + token * keys_pitch(args.experts);
    const uint32_t* all = args.normalise ? chosen : keys;
    const float top = score_of(chosen[0]);
    float total = 0;
    const int count = args.normalise ? args.k : args.experts;
    for (int i = 0; i < count; ++i) total += expf(score_of(all[i]) - top);
    return expf(score_of(chosen[choice]) - top) / total;
  }

  // Chooses, and sorts the pairs by expert, a counting sort; a thread has neighbouring experts.
  CAUSEWAY_DEVICE void group() {
    const int each = (args.experts + 32 * kFewWarps - 1) / (32 * kFewWarps);
    const int first = thread() * each, end = min(first + each, args.experts);
    auto* choices = place.of<uint8_t>(place.at.choices);
    int count = 0;  // items << 16 | rows
    for (int expert = first; expert < end; ++expert) {
      int rows = 0;
      for (int token = 0; token < args.tokens; ++token) {
        const uint32_t* keys = place.of<uint32_t>(place.at.keys) + token * keys_pitch(args.experts);
        const int choice = min(rank_of(keys, expert), kChosenMax);
        choices[token * args.experts + expert] = static_cast<uint8_t>(choice);
        if (choice >= args.k) continue;
        place.of<uint32_t>(place.at.pair_key)[token * args.k + choice] = keys[expert];
        ++rows;
      }
      count += rows > 0 ? rows | 1 << 16 : 0;
    }
    int before = count;
    for (int lanes = 1; lanes < 32; lanes *= 2) {
      const int more = __shfl_up_sync(0xFFFFFFFFu, before, lanes);
      if (lane >= lanes) before += more;
    }
    int* of_warp = place.of<int>(place.at.words) + 4;
    if (lane == 31) of_warp[warp] = before;
    asm volatile("bar.sync 2, %0;" ::"n"(kFewThreads) : "memory");  // the tables are there too
    for (int w = 0; w < warp; ++w) before += of_warp[w];
    if (thread() == 32 * kFewWarps - 1) {
      place.items() = before >> 16;
      if (blockIdx.x == 0 && args.experts_read != nullptr) {
        *args.experts_read += static_cast<unsigned long long>(before >> 16);
      }
    }
    before -= count;
    int item = before >> 16, row = before & 0xFFFF;
    for (int expert = first; expert < end; ++expert) {
      const int begin = row;
      for (int token = 0; token < args.tokens; ++token) {
        const int choice = choices[token * args.experts + expert];
        if (choice >= args.k) continue;
        place.of<FewRow>(place.at.rows)[row] = {static_cast<uint16_t>(token),
                                                static_cast<uint16_t>(token * args.k + choice)};
        if ((args.trial & kLateWeights) == 0) {
          place.of<float>(place.at.row_weight)[row] = weight_of(token, choice);
        }
        ++row;
      }
      if (row == begin) continue;
      FewItem& made = place.of<FewItem>(place.at.items)[item++];
      for (int w = 0; w < 3; ++w) {
        made.weight[w] = place.of<const char*>(place.at.tables)[w * args.experts + expert];
      }
      made.first = begin;
      made.rows = row - begin;
    }
  }

  // Once the grouping is there.
  CAUSEWAY_DEVICE void weigh() const {
    for (int r = thread(); r < args.tokens * args.k; r += 32 * kFewWarps) {
      const FewRow& row = place.of<FewRow>(place.at.rows)[r];
      place.of<float>(place.at.row_weight)[r] = weight_of(row.token, row.pair % args.k);
    }
  }

  // One of the feeding warps: where the experts lie.
  static CAUSEWAY_DEVICE void take_table(const FewArgs& args, const FewPlace& place, int which,
                                         int lane) {
    const void** table = place.of<const void*>(place.at.tables) + which * args.experts;
    for (int e = lane; e < args.experts; e += 32) table[e] = args.tables[which][e];
    __syncwarp();
    asm volatile("bar.arrive 2, %0;" ::"n"(kFewThreads) : "memory");
  }

  CAUSEWAY_DEVICE void run() {
    constexpr int kWorkers = 32 * kFewWarps, kVectors = kFrontHiddenMax / 8;
    if (args.tokens == 1) {
      score_token<kWorkers, kVectors / kWorkers>(0);
    } else {
      for (int token = warp; token < args.tokens; token += kFewWarps) {
        score_token<32, kVectors / 32>(token);
      }
    }
    clear_padding();
    collect();
    workers_sync();
    group();
  }
};

// ---- the kernel --------------------------------------------------------------------------------

template <bool kFront>
__global__ void __launch_bounds__(kFewThreads, 1) few_kernel(const __grid_constant__ FewArgs args) {
  extern __shared__ __align__(128) char shared[];
  const FewPlace place = {args.layout, shared,
                          static_cast<uint32_t>(__cvta_generic_to_shared(shared))};
  const int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int part = warp - kFewWarps;  // of a feeding warp

  // ---- what does not depend on the kernel in front ---------------------------------------------
  if (part == 0 && lane == 0) {
    for (int stage = 0; stage < args.layout.stages; ++stage) {
      ptx::barrier_init(place.full(stage), kFewFeeders * ((args.trial & kEachArrives) != 0 ? 8 : 1));
      ptx::barrier_init(place.empty(stage), kFewWarps * ((args.trial & kAllArrive) != 0 ? 32 : 1));
    }
    ptx::barrier_init(place.front_full(), 1);
    ptx::barrier_init_fence();
    if (kFront) FewFront::ask(args, place);
    ptx::dependents_launch();
  }
  if (part == 1 && lane == 0) {
    for (const FewAhead& ahead : args.ahead) {
      prefetch_share(ahead.data, ahead.early, (args.trial & kAheadStays) != 0);
    }
  }
  __syncthreads();
  ptx::dependency_wait();

  // ---- who chose what --------------------------------------------------------------------------
  const uint32_t launch = args.sync->launches[blockIdx.x];
  if (part >= 0) {
    if (kFront) FewFront::take_table(args, place, part, lane);
    const int ctas = static_cast<int>(gridDim.x);
    for (int i = static_cast<int>(blockIdx.x) + lane * ctas; part == 0 && i < kItemsMax;
         i += 32 * ctas) {
      args.sync->tiles_done[(launch + 1) % 2][i] = 0;
    }
  } else if (kFront) {
    FewFront{args, place, warp, lane, launch + 1}.run();
  } else {
    take_groups(args, place, static_cast<int>(threadIdx.x));
  }
  __syncthreads();
  if (threadIdx.x == 0) args.sync->launches[blockIdx.x] = launch + 1;

  // ---- roles -----------------------------------------------------------------------------------
  if (part >= 0) {
    FewFeeder<kFront>{args, place, part, lane, launch % 2, {args.layout.stages}}.run();
    return;
  }
  if (kFront && (args.trial & kLateWeights) != 0) {
    FewFront{args, place, warp, lane, launch + 1}.weigh();
  }
  FewWorker<kFront> worker{args, place, warp, lane, launch, {args.layout.stages}};
  worker.gate_and_up();
  worker.down();
}

}  // namespace causeway::kernels::moe
