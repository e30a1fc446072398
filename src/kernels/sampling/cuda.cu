// A cluster of eight CTAs a row: each keeps an eighth of the row in shared memory, ids ascending,
// and they agree by distributed shared memory, so that logits cross the HBM once.
//
// Nothing is sorted. Of the order "largest logit first, lowest id among equals", a prefix is kept:
// top-k is the shortest with k tokens, top-p the shortest with the weight wanted. Its last key is
// found digit by digit (a histogram of 2,048 bins, three times at most). Weights are 64-bit fixed
// point, so that sums do not depend on the order of additions.
#include <cooperative_groups.h>

#include <cfloat>
#include <string>

#include "kernels/cuda_launch.cuh"
#include "kernels/sampling/sampling.h"
#include "kernels/sampling/sampling_cuda.h"

namespace causeway::kernels::sampling {
namespace {

namespace cg = cooperative_groups;

constexpr int kCluster = 8;
constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kBins = 2048;
constexpr int kBinsOfCta = kBins / kCluster;
constexpr float kOne = 0x1.0p44f;  // the largest weight

using u64 = unsigned long long;

struct Args {
  const float* logits;
  int64_t stride;
  const RowCuda* row;
  const TokenId* history;
  TokenId* token;
  float* logprob;
  TokenId* top_token;
  float* top_logprob;
  int64_t top_stride;
  int vocab;
  int slice;    // ids of a CTA, a multiple of 4
  int counted;  // of these, how many have counts at once
  bool penalties;
};

struct EditArgs {
  const RowEditsCuda* row;
  const TokenEditCuda* edit;
  const uint32_t* mask;
};

// Keys order as floats do, with NaN below all and both zeros equal.
__device__ uint32_t key_of(float x) {
  if (isnan(x)) return 0;
  const uint32_t bits = __float_as_uint(x + 0.0f);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ float value_of(uint32_t key) {
  return __uint_as_float((key >> 31) != 0 ? key & 0x7FFFFFFFu : ~key);
}
constexpr uint32_t kKeyOfMinusInfinity = 0x007FFFFFu;

// Whether the first of a row's order, packed as best() gives it, is a number.
__device__ bool is_number(u64 best) { return best >> 32 != 0; }

__device__ u64 mix(u64 x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// The first Random(seed).uniform() of base/random.h, seeded as the host's draw is.
__device__ double uniform(const RowCuda& row) {
  constexpr u64 kStep = 0x9E3779B97F4A7C15ull;
  const u64 seed = mix(row.seed) ^ mix(static_cast<u64>(row.position) + 0x5EEDull);
  const u64 first = mix(seed + kStep), last = mix(seed + 4 * kStep), sum = first + last;
  const u64 bits = ((sum << 23) | (sum >> 41)) + first;
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

// A prefix of the order: keys above `key`, and of equal ones the ids up to `id`.
struct Prefix {
  uint32_t key = 0;
  int id = INT32_MAX;
  __device__ bool has(uint32_t k, int i) const { return k > key || (k == key && i <= id); }
};

struct Shared {
  u64 histogram[kBins];
  u64 sums[kBins];          // of all CTAs, bins in order
  u64 reduced[kBinsOfCta];  // of all CTAs, this CTA's bins
  u64 exchange[2];          // what a CTA publishes to the others, alternating
  u64 warp[kWarps];
  u64 top[kTopLogprobsMax];  // of the first CTA
  u64 found;
  int top_count;
  int answer;
};

constexpr int slice_of(int vocab) { return (vocab + 4 * kCluster - 1) / (4 * kCluster) * 4; }

// With penalties tokens have counts beside the slice's logits: of the whole slice where there is
// room, else of a part at a time.
constexpr int kSharedMax = 227 * 1024;
constexpr int counted_of(int slice, bool penalties) {
  const int room = (kSharedMax - static_cast<int>(sizeof(Shared)) - slice * 4) / 4;
  return !penalties ? 0 : room < slice ? room : slice;
}
constexpr int shared_bytes(int slice, bool penalties) {
  return static_cast<int>(sizeof(Shared)) + (slice + counted_of(slice, penalties)) * 4;
}
static_assert(counted_of(slice_of(kVocabMax), true) > 4096);

// One row, one CTA of its cluster.
struct Row {
  const Args& a;
  const RowCuda& row;
  cg::cluster_group cluster;
  Shared& shared;
  float* values;  // [count] of this CTA
  int first;      // id of values[0]
  int count;
  int turn = 0;  // of shared.exchange

  __device__ int thread() const { return static_cast<int>(threadIdx.x); }

  // ---- sums and maxima over the cluster; the same result in every thread -----------------------
  template <typename Combine>
  __device__ u64 over_block(u64 mine, Combine combine) {
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      mine = combine(mine, __shfl_xor_sync(0xFFFFFFFFu, mine, lanes));
    }
    __syncthreads();
    if (thread() % 32 == 0) shared.warp[thread() / 32] = mine;
    __syncthreads();
    mine = shared.warp[thread() % kWarps];
    for (int lanes = kWarps / 2; lanes > 0; lanes /= 2) {
      mine = combine(mine, __shfl_xor_sync(0xFFFFFFFFu, mine, lanes));
    }
    return mine;
  }

  // What the CTAs of lower rank have, and all.
  struct Totals {
    u64 before, all;
  };
  template <typename Combine>
  __device__ Totals over_cluster(u64 of_block, Combine combine) {
    // Two places in turn: a thread may still read the one that was written before.
    u64* place = &shared.exchange[turn ^= 1];
    if (thread() == 0) *place = of_block;
    cluster.sync();
    Totals totals = {};
    u64 of_rank[kCluster];
#pragma unroll
    for (unsigned r = 0; r < kCluster; ++r) of_rank[r] = *cluster.map_shared_rank(place, r);
#pragma unroll
    for (unsigned r = 0; r < kCluster; ++r) {
      if (r == cluster.block_rank()) totals.before = totals.all;
      totals.all = combine(totals.all, of_rank[r]);
    }
    return totals;
  }

  static __device__ u64 add(u64 x, u64 y) { return x + y; }
  static __device__ u64 larger(u64 x, u64 y) { return x > y ? x : y; }

  // The first of the order, packed: key, and the complement of the id.
  __device__ u64 best() {
    u64 mine = 0;
#pragma unroll 4
    for (int i = thread(); i < count; i += kThreads) {
      mine = larger(mine, u64{key_of(values[i])} << 32 | static_cast<uint32_t>(~(first + i)));
    }
    return over_cluster(over_block(mine, larger), larger).all;
  }

  template <typename Measure>
  __device__ u64 total(Measure measure) {
    u64 mine = 0;
#pragma unroll 4
    for (int i = thread(); i < count; i += kThreads) mine += measure(values[i], first + i);
    return over_cluster(over_block(mine, add), add).all;
  }

  // ---- the shortest prefix whose measure reaches `target` (> 0); all when it never does ---------
  // `high`: the largest key. measure(value, id): the same for equal values, or 0.
  template <typename Measure>
  __device__ Prefix shortest(u64 target, uint32_t high, Measure measure) {
    uint32_t low = kKeyOfMinusInfinity;
    u64 before = 0;
    for (;;) {
      int shift = 0;
      while (((high - low) >> shift) >= kBins) ++shift;
      count_bins(low, high, shift, measure);
      const u64 mine = scan_bins(before, target);  // bin + 1, or 0: the target is never reached
      if (mine == 0) return {};
      const auto bin = static_cast<uint32_t>(mine - 1);
      before += bin == 0 ? 0 : shared.sums[bin - 1];
      const uint32_t top = high - (bin << shift);
      if (shift == 0) return among_equals(top, target - before, shared.sums[bin], bin, measure);
      const uint32_t width = (1u << shift) - 1;
      low = top - low > width ? top - width : low;
      high = top;
    }
  }

  // Leaves in shared.sums the running sums over the bins.
  template <typename Measure>
  __device__ void count_bins(uint32_t low, uint32_t high, int shift, Measure measure) {
    __syncthreads();
    for (int i = thread(); i < kBins; i += kThreads) shared.histogram[i] = 0;
    __syncthreads();
#pragma unroll 4
    for (int i = thread(); i < count; i += kThreads) {
      const uint32_t key = key_of(values[i]);
      if (key < low || key > high) continue;
      const u64 m = measure(values[i], first + i);
      if (m != 0) add_to_bin((high - key) >> shift, m);
    }
    cluster.sync();
    if (thread() < kBinsOfCta) {
      const int bin = static_cast<int>(cluster.block_rank()) * kBinsOfCta + thread();
      u64 sum = 0;
#pragma unroll
      for (unsigned r = 0; r < kCluster; ++r) {
        sum += *cluster.map_shared_rank(&shared.histogram[bin], r);
      }
      shared.reduced[thread()] = sum;
    }
    cluster.sync();
    // Running sums: four bins a thread, then over the block.
    constexpr int kEach = kBins / kThreads;
    u64 running[kEach], sum = 0;
    for (int i = 0; i < kEach; ++i) {
      const int bin = thread() * kEach + i;
      sum += *cluster.map_shared_rank(&shared.reduced[bin % kBinsOfCta],
                                      static_cast<unsigned>(bin / kBinsOfCta));
      running[i] = sum;
    }
    const u64 before = block_prefix(sum);
    for (int i = 0; i < kEach; ++i) shared.sums[thread() * kEach + i] = before + running[i];
    __syncthreads();
  }

  // By 32-bit halves: 64-bit additions to shared memory are loops of compare and swap.
  __device__ void add_to_bin(uint32_t bin, u64 m) {
    auto* halves = reinterpret_cast<uint32_t*>(&shared.histogram[bin]);
    const auto low = static_cast<uint32_t>(m);
    auto high = static_cast<uint32_t>(m >> 32);
    if (low != 0 && atomicAdd(&halves[0], low) + low < low) ++high;
    if (high != 0) atomicAdd(&halves[1], high);
  }

  // Sum over the threads before this one.
  __device__ u64 block_prefix(u64 mine) {
    const int lane = thread() % 32;
    u64 through = mine;
    for (int lanes = 1; lanes < 32; lanes *= 2) {
      const u64 other = __shfl_up_sync(0xFFFFFFFFu, through, lanes);
      if (lane >= lanes) through += other;
    }
    __syncthreads();
    if (lane == 31) shared.warp[thread() / 32] = through;
    __syncthreads();
    u64 before = 0;
    for (int w = 0; w < thread() / 32; ++w) before += shared.warp[w];
    return before + through - mine;
  }

  // The first bin with which `target` is reached, plus one.
  __device__ u64 scan_bins(u64 before, u64 target) {
    if (thread() == 0) shared.found = 0;
    __syncthreads();
    for (int bin = thread(); bin < kBins; bin += kThreads) {
      const u64 below = before + (bin == 0 ? 0 : shared.sums[bin - 1]);
      if (below < target && before + shared.sums[bin] >= target) {
        shared.found = static_cast<u64>(bin) + 1;
      }
    }
    __syncthreads();
    return shared.found;
  }

  // All keys above `key` are in; `missing` is what its equals must still bring, lowest ids first.
  template <typename Measure>
  __device__ Prefix among_equals(uint32_t key, u64 missing, u64 through, uint32_t bin,
                                 Measure measure) {
    const u64 brought = through - (bin == 0 ? 0 : shared.sums[bin - 1]);
    u64 mine = 0, one = 0;
    for (int i = thread(); i < count; i += kThreads) {
      const u64 m = key_of(values[i]) == key ? measure(values[i], first + i) : 0;
      if (m == 0) continue;
      ++mine;
      one = m;
    }
    one = over_cluster(over_block(one, larger), larger).all;
    const u64 wanted = (missing + one - 1) / one;
    if (wanted * one >= brought) return {key, INT32_MAX};
    const u64 here = over_block(mine, add);
    const Totals totals = over_cluster(here, add);
    if (totals.before < wanted && wanted <= totals.before + here && thread() < 32) {
      u64 seen = totals.before;
      for (int base = 0; base < count; base += 32) {
        const int i = base + thread();
        const bool equal =
            i < count && key_of(values[i]) == key && measure(values[i], first + i) != 0;
        const unsigned equals = __ballot_sync(0xFFFFFFFFu, equal);
        if (equal && seen + __popc(equals & ((2u << thread()) - 1)) == wanted) answer(first + i);
        seen += __popc(equals);
        if (seen >= wanted) break;
      }
    }
    cluster.sync();
    const int last = shared.answer;
    cluster.sync();
    return {key, last};
  }

  // Tells all CTAs; one thread.
  __device__ void answer(int value) {
    for (unsigned r = 0; r < kCluster; ++r) *cluster.map_shared_rank(&shared.answer, r) = value;
  }

  // ---- stages ----------------------------------------------------------------------------------
  // The place of a token in this CTA's slice, or -1.
  __device__ int place_of(TokenId token) const {
    const int at = token - first;
    return at >= 0 && at < count ? at : -1;
  }

  // Allowed tokens may be listed twice: both threads keep and put back the same.
  __device__ void keep_only(const TokenEditCuda* list, int tokens) {
    constexpr int kEach = kAllowedMax / kThreads;
    int place[kEach];
    float kept[kEach];
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int i = thread() + k * kThreads;
      place[k] = i < tokens ? place_of(list[i].token) : -1;
      kept[k] = place[k] >= 0 ? values[place[k]] : 0.0f;
    }
    __syncthreads();
    for (int i = thread(); i < count; i += kThreads) values[i] = -INFINITY;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      if (place[k] >= 0) values[place[k]] = kept[k];
    }
    __syncthreads();
  }

  __device__ void keep_masked(const uint32_t* mask, int words) {
    for (int i = thread(); i < count; i += kThreads) {
      const int id = first + i;
      const uint32_t word = id / 32 < words ? __ldg(mask + id / 32) : 0u;
      if (((word >> (id % 32)) & 1u) == 0) values[i] = -INFINITY;
    }
    __syncthreads();
  }

  __device__ void edit(const RowEditsCuda& edits, const TokenEditCuda* list, const uint32_t* mask) {
    if (edits.mask_words > 0) keep_masked(mask + edits.mask_begin, edits.mask_words);
    if (edits.allowed > 0) keep_only(list, edits.allowed);
    list += edits.allowed;
    for (int i = thread(); i < edits.biased; i += kThreads) {
      const int at = place_of(list[i].token);
      if (at >= 0) values[at] = __fadd_rn(values[at], list[i].bias);
    }
    __syncthreads();
    list += edits.biased;
    for (int i = thread(); i < edits.banned; i += kThreads) {
      const int at = place_of(list[i].token);
      if (at >= 0) values[at] = -INFINITY;
    }
    __syncthreads();
  }

  __device__ void penalise(int* counts) {
#pragma unroll 1
    for (int begin = 0; begin < count; begin += a.counted) {
      penalise_part(counts, begin, min(count - begin, a.counted));
    }
  }

  // Ids [begin, begin + part) of the slice.
  __device__ void penalise_part(int* counts, int begin, int part) {
    constexpr int kSeen = 1 << 30;
    for (int i = thread(); i < part; i += kThreads) counts[i] = 0;
    __syncthreads();
    const TokenId* history = a.history + row.history_begin;
    for (int i = thread(); i < row.history_tokens; i += kThreads) {
      const int at = history[i] - first - begin;
      if (history[i] < 0 || at < 0 || at >= part) continue;
      atomicOr(&counts[at], kSeen);
      if (i >= row.prompt_tokens) atomicAdd(&counts[at], 1);
    }
    __syncthreads();
    for (int i = thread(); i < part; i += kThreads) {
      if (counts[i] == 0) continue;
      float x = values[begin + i];
      if (row.repetition_penalty != 1.0f) {
        x = x > 0 ? __fdiv_rn(x, row.repetition_penalty) : __fmul_rn(x, row.repetition_penalty);
      }
      const int outputs = counts[i] & (kSeen - 1);
      if (outputs > 0) {
        // Rounded step by step, as the host does.
        const float by = __fadd_rn(row.presence_penalty,
                                   __fmul_rn(row.frequency_penalty, static_cast<float>(outputs)));
        x = __fsub_rn(x, by);
      }
      values[begin + i] = x;
    }
    __syncthreads();
  }

  // The log of the raw logits' softmax denominator; writes the best tokens' log-probabilities, too.
  __device__ double normalise(uint32_t high, int64_t index) {
    const float largest = value_of(high);
    const u64 sum = total([largest](float x, int) -> u64 {
      return isnan(x) ? 0 : __float2ull_rn(expf(x - largest) * kOne);
    });
    const double normaliser =
        static_cast<double>(largest) + log(static_cast<double>(sum) / static_cast<double>(kOne));
    const int wanted = min(row.top_logprobs, kTopLogprobsMax);
    if (wanted <= 0 || a.top_token == nullptr) return normaliser;
    const Prefix top = shortest(static_cast<u64>(wanted), high,
                                [](float x, int) -> u64 { return isnan(x) ? 0 : 1; });
    if (thread() == 0) shared.top_count = 0;
    cluster.sync();
    Shared& leader = *cluster.map_shared_rank(&shared, 0);
    for (int i = thread(); i < count; i += kThreads) {
      const uint32_t key = key_of(values[i]);
      if (key == 0 || !top.has(key, first + i)) continue;
      const int at = atomicAdd(&leader.top_count, 1);
      if (at < wanted) leader.top[at] = u64{key} << 32 | static_cast<uint32_t>(~(first + i));
    }
    cluster.sync();
    const int found = min(shared.top_count, wanted);
    if (cluster.block_rank() != 0 || thread() >= wanted) return normaliser;
    if (thread() >= found) {  // there are no more that are numbers
      a.top_token[index * a.top_stride + thread()] = -1;
      a.top_logprob[index * a.top_stride + thread()] = -INFINITY;
      return normaliser;
    }
    const u64 mine = shared.top[thread()];
    int place = 0;
    for (int i = 0; i < found; ++i) place += shared.top[i] > mine ? 1 : 0;
    a.top_token[index * a.top_stride + place] = static_cast<TokenId>(~static_cast<uint32_t>(mine));
    a.top_logprob[index * a.top_stride + place] = static_cast<float>(
        static_cast<double>(value_of(static_cast<uint32_t>(mine >> 32))) - normaliser);
    return normaliser;
  }

  __device__ int draw(uint32_t high) {
    const float largest = value_of(high);
    // Finite: of a temperature below 2^-128 it would not be, and the best logit's weight a NaN.
    const float inverse = fminf(1.0f / row.temperature, FLT_MAX);
    const auto weight = [=](float x) { return expf((x - largest) * inverse); };
    Prefix k_best, p_best;
    if (row.top_k > 0 && row.top_k < a.vocab) {
      k_best = shortest(static_cast<u64>(row.top_k), high,
                        [](float x, int) -> u64 { return x > -INFINITY ? 1 : 0; });
    }
    if (row.top_p < 1.0f) {
      const auto measure = [=](float x, int id) -> u64 {
        return x > -INFINITY && k_best.has(key_of(x), id) ? __float2ull_rn(weight(x) * kOne) : 0;
      };
      const double wanted =
          ceil(static_cast<double>(total(measure)) * fmax(0.0, static_cast<double>(row.top_p)));
      p_best = shortest(max(u64{1}, static_cast<u64>(wanted)), high, measure);
    }
    const float floor = row.min_p > 0 ? fminf(1.0f, row.min_p) : 0.0f;
    return pick([=](float x, int id) -> u64 {
      const uint32_t key = key_of(x);
      if (!(x > -INFINITY) || !k_best.has(key, id) || !p_best.has(key, id)) return 0;
      const float w = weight(x);
      return w >= floor ? __float2ull_rn(w * kOne) : 0;
    });
  }

  // Where the draw falls in the running sum over ids. A warp has consecutive ids.
  template <typename Measure>
  __device__ int pick(Measure measure) {
    const int warp = thread() / 32, lane = thread() % 32;
    const int each = (count + kThreads - 1) / kThreads * 32;
    const int begin = min(count, warp * each), end = min(count, begin + each);
    u64 mine = 0;
#pragma unroll 4
    for (int i = begin + lane; i < end; i += 32) mine += measure(values[i], first + i);
    const u64 here = over_block(mine, add);
    const Totals totals = over_cluster(here, add);
    u64 target = static_cast<u64>(uniform(row) * static_cast<double>(totals.all));
    target = min(target, totals.all - 1);
    u64 running = totals.before;
    for (int w = 0; w < warp; ++w) running += shared.warp[w];
    if (target >= running && target < running + shared.warp[warp]) {
      for (int base = begin; base < end; base += 32) {
        const int i = base + lane;
        const u64 own = i < end ? measure(values[i], first + i) : 0;
        u64 through = own;
        for (int lanes = 1; lanes < 32; lanes *= 2) {
          const u64 other = __shfl_up_sync(0xFFFFFFFFu, through, lanes);
          if (lane >= lanes) through += other;
        }
        through += running;
        if (target < through && target >= through - own) answer(first + i);
        running = __shfl_sync(0xFFFFFFFFu, through, 31);
      }
    }
    cluster.sync();
    return shared.answer;
  }
};

// One CTA's part of a row. Shared memory: Shared, the slice's logits, with penalties its counts.
template <bool kEdits>
__device__ __forceinline__ void sample_row(const Args& a, const EditArgs& with) {
  extern __shared__ __align__(16) char memory[];
  wait_for_predecessor();
  const int64_t index = blockIdx.x / kCluster;
  const cg::cluster_group cluster = cg::this_cluster();
  const RowCuda row = a.row[index];
  if (row.active == 0) {
    if (blockIdx.x % kCluster == 0 && threadIdx.x == 0) a.token[index] = kNoToken;
    return;
  }

  // ---- the slice -------------------------------------------------------------------------------
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  float* values = reinterpret_cast<float*>(memory + sizeof(Shared));
  const int first = static_cast<int>(cluster.block_rank()) * a.slice;
  Row r{a, row, cluster, shared, values, first, max(0, min(a.slice, a.vocab - first))};
  const float* logits = a.logits + index * a.stride;
#pragma unroll 8
  for (int i = r.thread(); i < r.count; i += kThreads) values[i] = __ldcs(logits + first + i);
  __syncthreads();

  // ---- raw, edited, penalised, drawn -----------------------------------------------------------
  u64 best = r.best();
  double normaliser = 0;
  if (row.top_logprobs >= 0) normaliser = r.normalise(static_cast<uint32_t>(best >> 32), index);
  if (!is_number(best)) {
    if (cluster.block_rank() == 0 && threadIdx.x == 0) {
      a.token[index] = kNoToken;
      if (row.top_logprobs >= 0 && a.logprob != nullptr) a.logprob[index] = 0;
    }
    cluster.sync();  // as at the end
    return;
  }
  if constexpr (kEdits) {
    const RowEditsCuda edits = with.row[index];
    if (edits.allowed + edits.biased + edits.banned + edits.mask_words > 0) {
      r.edit(edits, with.edit + edits.begin, with.mask);
      best = r.best();
    }
  }
  const bool penalised =
      row.presence_penalty != 0 || row.frequency_penalty != 0 || row.repetition_penalty != 1.0f;
  if (a.penalties && penalised) {
    r.penalise(reinterpret_cast<int*>(values + a.slice));
    best = r.best();
  }
  const auto high = static_cast<uint32_t>(best >> 32);
  int token = static_cast<int>(~static_cast<uint32_t>(best));
  if (row.temperature > 0 && isfinite(value_of(high))) token = r.draw(high);
  if (cluster.block_rank() == 0 && threadIdx.x == 0) {
    a.token[index] = token;
    if (row.top_logprobs >= 0 && a.logprob != nullptr) {
      a.logprob[index] = static_cast<float>(static_cast<double>(logits[token]) - normaliser);
    }
  }
  cluster.sync();  // no CTA leaves while another still reads its shared memory
}

// Grid: rows × kCluster.
__global__ void __launch_bounds__(kThreads, 2) sample_kernel(const Args a) {
  sample_row<false>(a, {});
}
__global__ void __launch_bounds__(kThreads, 2)
    edited_sample_kernel(const Args a, const EditArgs with) {
  sample_row<true>(a, with);
}

// Grid: rows × kCluster; the largest logit of each row only.
__global__ void __launch_bounds__(kThreads) greedy_kernel(const Args a) {
  __shared__ u64 warp_best[kWarps];
  __shared__ u64 block_best[kCluster];
  wait_for_predecessor();
  const int64_t index = blockIdx.x / kCluster;
  const cg::cluster_group cluster = cg::this_cluster();
  cluster.barrier_arrive();
  const auto rank = static_cast<int>(cluster.block_rank());
  const int thread = static_cast<int>(threadIdx.x), first = rank * a.slice;
  const int end = min(a.vocab, first + a.slice);
  const float* logits = a.logits + index * a.stride;
  u64 best = 0;
  const auto take = [&best](float x, int id) {
    const u64 packed = u64{key_of(x)} << 32 | static_cast<uint32_t>(~id);
    best = packed > best ? packed : best;
  };
  const bool aligned = reinterpret_cast<uintptr_t>(logits) % 16 == 0;
  const int whole = aligned && end > first ? first + (end - first) / 4 * 4 : first;
#pragma unroll 4
  for (int i = first + thread * 4; i < whole; i += kThreads * 4) {
    const float4 four = __ldcs(reinterpret_cast<const float4*>(logits + i));
    take(four.x, i);
    take(four.y, i + 1);
    take(four.z, i + 2);
    take(four.w, i + 3);
  }
  for (int i = whole + thread; i < end; i += kThreads) take(logits[i], i);
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    const u64 other = __shfl_xor_sync(0xFFFFFFFFu, best, lanes);
    best = other > best ? other : best;
  }
  if (thread % 32 == 0) warp_best[thread / 32] = best;
  __syncthreads();
  if (thread == 0) {
    for (const u64 other : warp_best) best = other > best ? other : best;
  }
  cluster.barrier_wait();  // the first CTA has begun: its shared memory is there
  if (thread == 0) {
    cluster.map_shared_rank(block_best, 0)[rank] = best;
  }
  cluster.sync();
  if (rank != 0 || thread != 0) return;
  for (const u64 other : block_best) best = other > best ? other : best;
  const bool chosen = a.row[index].active != 0 && is_number(best);
  a.token[index] = chosen ? static_cast<int>(~static_cast<uint32_t>(best)) : kNoToken;
}

}  // namespace

Status run(const ParamsCuda& p, CudaStream stream) {
  if (p.vocab < 1 || p.vocab > kVocabMax || p.rows < 0 || p.rows > 1 << 20 ||
      p.logits_stride < p.vocab) {
    return invalid_argument("sampling: " + std::to_string(p.rows) + " rows of " +
                            std::to_string(p.vocab) + " logits, " +
                            std::to_string(p.logits_stride) + " apart");
  }
  Args a = {};
  a.logits = p.logits;
  a.stride = p.logits_stride;
  a.row = p.row;
  a.history = p.history;
  a.token = p.token;
  a.logprob = p.logprob;
  a.top_token = p.top_token;
  a.top_logprob = p.top_logprob;
  a.top_stride = p.top_stride;
  a.vocab = static_cast<int>(p.vocab);
  a.slice = slice_of(a.vocab);
  a.penalties = p.penalties && p.history != nullptr;
  a.counted = counted_of(a.slice, a.penalties);
  LaunchShape shape = {dim3(static_cast<unsigned>(p.rows * kCluster)), dim3(kThreads)};
  shape.cluster = kCluster;
  if (p.all_greedy) return launch("greedy sampling", stream, shape, greedy_kernel, a);
  shape.shared_bytes = shared_bytes(a.slice, a.penalties);
  shape.shared_bytes_max = kSharedMax;
  if (p.row_edits == nullptr) return launch("sampling", stream, shape, sample_kernel, a);
  return launch("edited sampling", stream, shape, edited_sample_kernel, a,
                EditArgs{p.row_edits, p.edit, p.mask});
}

}  // namespace causeway::kernels::sampling
