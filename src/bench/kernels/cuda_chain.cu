#include "bench/kernels/cuda_chain.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "bench/kernels/cuda_timer.h"
#include "kernels/cuda_graph.h"
#include "kernels/cuda_launch.cuh"
#include "kernels/cuda_status.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/copy.cuh"
#include "kernels/ptx/launch.cuh"
#include "kernels/ptx/memory.cuh"

namespace causeway::kernels::bench {
namespace {

constexpr int kThreads = 256;
constexpr std::uint32_t kPiece = 8192;  // of one bulk copy
constexpr int kPiecesMax = 14;          // of a CTA's ring
constexpr int kRingShares[] = {2, 3, 4};
constexpr std::int64_t kVectorMax = 64 << 10;

struct LinkArgs {
  const char* memory;  // this link's bytes
  std::int64_t bytes;  // a multiple of 16
  const uint4* in;     // [vector]
  uint4* out;
  int vector;  // of 16 bytes
  int pieces;  // of the ring
  bool early;
  unsigned long long* sum;
};

// This CTA's bytes, as one thread reads them piece by piece through its ring; kSums: and adds up.
template <bool kSums>
struct Reader {
  std::uint32_t ring, barriers;
  int pieces;
  const char* at;
  std::int64_t left;
  std::uint64_t policy;
  const char* come;     // the ring, as it is read
  std::int64_t unseen;  // of kSums
  int asked = 0, seen = 0;
  unsigned long long sum = 0;

  CAUSEWAY_DEVICE bool ask() {
    if (left == 0 || asked - seen == pieces) return false;
    const int slot = asked++ % pieces;
    const auto bytes = static_cast<std::uint32_t>(min(std::int64_t{kPiece}, left));
    ptx::barrier_arrive_expect(barriers + slot * 8, bytes);
    ptx::load_bytes(ring + slot * kPiece, at, bytes, barriers + slot * 8, policy);
    at += bytes;
    left -= bytes;
    return true;
  }
  CAUSEWAY_DEVICE void fill() {
    while (ask()) {
    }
  }
  // Bytes that have come may be overwritten: they are not looked at, or add() has done so.
  CAUSEWAY_DEVICE void finish() {
    fill();
    while (seen < asked) {
      // Bytes that were asked for: they come, or the read faults.
      ptx::barrier_wait_covered(barriers + seen % pieces * 8,
                                static_cast<std::uint32_t>(seen / pieces) & 1);
      if constexpr (kSums) add();
      ++seen;
      ask();
    }
  }
  // The words of the piece that has come.
  CAUSEWAY_DEVICE void add() {
    const auto* piece = reinterpret_cast<const uint4*>(come + seen % pieces * kPiece);
    const std::int64_t bytes = min(std::int64_t{kPiece}, unseen);
    for (int i = 0; i < bytes / 16; ++i) {
      const uint4 value = piece[i];
      sum += std::uint64_t{value.x} + value.y + value.z + value.w;
    }
    unseen -= bytes;
    ptx::proxy_fence();  // before a copy overwrites it
  }
};

template <bool kSums>
__global__ void __launch_bounds__(kThreads) read_link(const __grid_constant__ LinkArgs args) {
  extern __shared__ __align__(128) char shared[];
  __shared__ __align__(8) std::uint64_t barriers[kPiecesMax];
  __shared__ unsigned mixed_shared;
  const bool reads = threadIdx.x == 0;
  const std::int64_t vectors = args.bytes / 16, ctas = gridDim.x, cta = blockIdx.x;
  const std::int64_t begin = vectors * cta / ctas * 16, end = vectors * (cta + 1) / ctas * 16;
  Reader<kSums> reader = {ptx::shared_address(shared),
                          ptx::shared_address(barriers),
                          args.pieces,
                          args.memory + begin,
                          end - begin,
                          ptx::policy_stream(),
                          shared,
                          end - begin};
  if (reads) {
    for (int i = 0; i < args.pieces; ++i) ptx::barrier_init(reader.barriers + i * 8, 1);
    ptx::barrier_init_fence();
    if (args.early) reader.fill();
    mixed_shared = 0;
  }
  ptx::dependents_launch();
  __syncthreads();
  ptx::dependency_wait();
  if (reads) {
    reader.finish();
    if constexpr (kSums) atomicAdd(args.sum, reader.sum);
  } else {
    // All threads but the one that reads: the vector, so that the next one depends on all of it.
    unsigned mixed = 0;
    for (int i = static_cast<int>(threadIdx.x) - 1; i < args.vector; i += kThreads - 1) {
      const uint4 value = ptx::load_relaxed(args.in + i);
      mixed ^= value.x ^ value.y ^ value.z ^ value.w;
    }
    if (mixed != 0) atomicXor(&mixed_shared, mixed);
  }
  __syncthreads();
  const int share_begin = static_cast<int>(args.vector * cta / ctas);
  const int share_end = static_cast<int>(args.vector * (cta + 1) / ctas);
  for (int i = share_begin + static_cast<int>(threadIdx.x); i < share_end; i += kThreads) {
    args.out[i] = make_uint4(mixed_shared + 1, static_cast<unsigned>(i), 0, 1);
  }
}

Status check(const ChainRead& chain) {
  if (chain.links.empty()) return invalid_argument("a chain without links");
  if (chain.vector.count < 16 || chain.vector.count % 16 != 0 || chain.vector.count > kVectorMax) {
    return invalid_argument("a chain's vector has 16 to 65536 bytes, a multiple of 16");
  }
  for (const ChainLink& link : chain.links) {
    if (link.bytes.count < 0 || link.bytes.count > chain.memory_bytes.count) {
      return invalid_argument("a chain's link of " + std::to_string(link.bytes.count) +
                              " bytes, of memory of " + std::to_string(chain.memory_bytes.count));
    }
  }
  return {};
}

// All links' launches; CTAs of `share` neighbours fit on an SM.
Status enqueue(const ChainRead& chain, int share, CudaStream stream) {
  int device = 0, sms = 0, per_sm = 0;
  (void)cudaGetDevice(&device);
  (void)cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  (void)cudaDeviceGetAttribute(&per_sm, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
  constexpr int kOwn = 1024 + 256;  // the system's of each CTA, barriers
  const int pieces = std::clamp((per_sm / share - kOwn) / static_cast<int>(kPiece), 1, kPiecesMax);
  const int ring = pieces * static_cast<int>(kPiece);
  const LaunchShape shape{.grid = dim3(static_cast<unsigned>(sms)),
                          .block = dim3(kThreads),
                          .shared_bytes = ring,
                          .shared_bytes_max = kPiecesMax * static_cast<int>(kPiece)};
  const char* base = static_cast<const char*>(chain.memory);
  char* const scratch = static_cast<char*>(chain.scratch);
  const std::size_t vector = to_size(chain.vector);
  void (*const kernel)(LinkArgs) = chain.sum != nullptr ? read_link<true> : read_link<false>;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < chain.links.size(); ++i) {
    const ChainLink& link = chain.links[i];
    const std::int64_t bytes = link.bytes.count / 16 * 16;
    if (at + bytes > chain.memory_bytes.count) at = 0;
    const LinkArgs args = {.memory = base + at,
                           .bytes = bytes,
                           .in = reinterpret_cast<const uint4*>(scratch + i % 2 * vector),
                           .out = reinterpret_cast<uint4*>(scratch + (i + 1) % 2 * vector),
                           .vector = static_cast<int>(chain.vector.count / 16),
                           .pieces = pieces,
                           .early = link.early,
                           .sum = reinterpret_cast<unsigned long long*>(chain.sum)};
    CAUSEWAY_TRY(launch("a link of a chain of reads", stream, shape, kernel, args));
    at += (bytes + 127) / 128 * 128;
  }
  return {};
}

}  // namespace

class CudaChain::State {
 public:
  std::vector<CudaGraph> graphs;
};

CudaChain::CudaChain(std::unique_ptr<State> state) : state_(std::move(state)) {}
CudaChain::~CudaChain() = default;
CudaChain::CudaChain(CudaChain&&) noexcept = default;
CudaChain& CudaChain::operator=(CudaChain&&) noexcept = default;

Result<CudaChain> CudaChain::create(const ChainRead& chain, CudaStream stream) {
  CAUSEWAY_TRY(check(chain));
  auto state = std::make_unique<State>();
  for (const int share : kRingShares) {
    CAUSEWAY_ASSIGN(state->graphs.emplace_back(),
                    capture_graph(
                        "a chain", [&] { return enqueue(chain, share, stream); }, stream));
  }
  return CudaChain(std::move(state));
}

Result<Nanos> CudaChain::time(int times, CudaStream stream) {
  if (times < 1) return invalid_argument("a chain timed no times");
  std::optional<Nanos> best;
  for (const CudaGraph& graph : state_->graphs) {
    const auto run = [&](int count) -> Status {
      for (int i = 0; i < count; ++i) {
        CAUSEWAY_TRY(cuda_status(cudaGraphLaunch(graph.get(), stream), "launching a chain"));
      }
      return {};
    };
    CAUSEWAY_TRY(run(1));
    CAUSEWAY_ASSIGN(const Nanos took, time_on_gpu([&] { return run(times); }, stream));
    const Nanos once(took.count / times);
    best = best ? std::min(*best, once) : once;
  }
  return *best;
}

}  // namespace causeway::kernels::bench
