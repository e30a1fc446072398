// Launch of the chain of products on Hopper: tensor maps, the workspace's parts, and the door.
#include <cuda_runtime.h>

#include <string>
#include <utility>

#include "kernels/cuda_launch.cuh"
#include "kernels/cuda_status.cuh"
#include "kernels/gemm/chain_cuda.h"
#include "kernels/gemm/sm90_chain.cuh"
#include "kernels/gemm/tensor_map.h"

namespace causeway::kernels::gemm {
namespace {

struct ChainKernel {
  void (*run)(ChainArgs);
  int shared_bytes;
};

ChainKernel kernel_of(int batch) {
  if (batch == 64) return {chain_kernel<64>, static_cast<int>(ChainRing<64>::kSharedBytes)};
  return {chain_kernel<128>, static_cast<int>(ChainRing<128>::kSharedBytes)};
}

Status check(const ChainPlan& plan, std::span<const ChainOperands> operands,
             const void* workspace) {
  if (operands.size() != static_cast<std::size_t>(plan.count) || workspace == nullptr) {
    return invalid_argument("GEMM chain: the plan has other links, or no workspace was given");
  }
  for (int i = 0; i < plan.count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const ChainShape& s = plan.shapes[at];
    const ChainOperands& o = operands[at];
    const bool missing = o.x == nullptr || o.w == nullptr || o.out == nullptr ||
                         (s.bias && o.bias == nullptr) || (s.residual && o.residual == nullptr) ||
                         (s.scales && (o.gains == nullptr || o.scaled == nullptr));
    if (missing) return invalid_argument("GEMM chain: a link needs an operand that is null");
    for (const void* p : {o.x, o.w, static_cast<const void*>(o.out), o.residual, o.gains,
                          static_cast<const void*>(o.scaled)}) {
      if (reinterpret_cast<std::uintptr_t>(p) % 16 != 0) {
        return invalid_argument("GEMM chain: operands must be aligned to 16 bytes");
      }
    }
  }
  return {};
}

TensorShape weight_shape(const ChainShape& s) {
  const cuuint64_t row = map_size(s.k) * 2;
  if (!s.silu_mul) return {2, {map_size(s.k), map_size(s.n)}, {row}, {kChainStepK, kChainTileRows}};
  // 8 rows of gate, 8 rows of up, by turns, so that one thread's sums hold both.
  return {4,
          {map_size(s.k), 8, 2, map_size(s.n / 8)},
          {row, row * map_size(s.n), row * 8},
          {kChainStepK, 8, 2, kChainTileRows / 16}};
}

OutputArgs output_args(std::int64_t m, const ChainShape& s, const ChainOperands& o) {
  OutputArgs args = {};
  args.out = o.out;
  args.out_stride = args.residual_stride = s.n;
  if (s.bias) args.bias = static_cast<const __nv_bfloat16*>(o.bias);
  if (s.residual) args.residual = static_cast<const __nv_bfloat16*>(o.residual);
  args.m = static_cast<int>(m);
  args.n = static_cast<int>(s.n);
  args.out_f32 = s.out == CudaOut::kF32;
  args.silu_mul = s.silu_mul;
  args.pairs = true;
  return args;
}

// The parts of the workspace. Counters: `exits`, `done` of each link, then arrivals at tiles, which
// links use one after the other.
struct ChainWorkspace {
  uint32_t* counters;
  float4* partials;
  char* squares;

  ChainWorkspace(const ChainPlan& plan, void* memory)
      : counters(static_cast<uint32_t*>(memory)),
        partials(reinterpret_cast<float4*>(static_cast<char*>(memory) + kCounterBytes.count)),
        squares(reinterpret_cast<char*>(partials) + plan.partials.count) {}
  uint32_t* done(int link) const { return counters + 1 + link; }
  uint32_t* arrivals() const { return counters + 1 + kChainLinksMax; }
  float* squares_of(const ChainPlan& plan, int link) const {
    return reinterpret_cast<float*>(squares + plan.squares.count * link);
  }
};

}  // namespace

class CudaChain::State {
 public:
  explicit State(EncodeTiled encoder) : encoder_(encoder) {}

  Status run(const ChainPlan& plan, std::span<const ChainOperands> operands, void* workspace,
             CudaStream stream) {
    CAUSEWAY_TRY(check(plan, operands, workspace));
    const ChainWorkspace memory(plan, workspace);
    ChainArgs args = {};
    args.count = plan.count;
    args.exits = memory.counters;
    for (int i = 0; i < plan.count; ++i) {
      CAUSEWAY_TRY(fill(plan, i, operands[static_cast<std::size_t>(i)], memory, args.links[i]));
    }
    const ChainKernel kernel = kernel_of(plan.batch);
    const LaunchShape shape = {dim3(static_cast<unsigned>(plan.ctas)), dim3(kChainThreads),
                               kernel.shared_bytes};
    return launch("GEMM chain", stream, shape, kernel.run, args);
  }

 private:
  Status fill(const ChainPlan& plan, int index, const ChainOperands& o,
              const ChainWorkspace& memory, ChainLinkArgs& link) {
    const auto at = static_cast<std::size_t>(index);
    const ChainShape& s = plan.shapes[at];
    const ChainLinkPlan& p = plan.links[at];
    const TensorShape x_shape = {2,
                                 {map_size(s.k), map_size(plan.m)},
                                 {map_size(s.k) * 2},
                                 {kChainStepK, map_box(plan.batch)}};
    CAUSEWAY_ASSIGN(link.x, encode(encoder_, o.x, x_shape));
    CAUSEWAY_ASSIGN(link.w, encode(encoder_, o.w, weight_shape(s)));
    link.output = output_args(plan.m, s, o);
    if (s.scales) {
      link.gains = static_cast<const __nv_bfloat16*>(o.gains);
      link.scaled = static_cast<__nv_bfloat16*>(o.scaled);
      link.squares = memory.squares_of(plan, index);
    }
    if (s.normed) {
      const ChainLinkPlan& from = plan.links[static_cast<std::size_t>(p.squares_from)];
      link.squares_from = memory.squares_of(plan, p.squares_from);
      link.slices_from = from.tiles * from.splits * (plan.batch == 64 ? kChainGroups : 1);
      link.inverse_size = 1.0f / static_cast<float>(s.k);
      link.epsilon = o.epsilon;
    }
    link.partials = memory.partials;
    link.arrivals = memory.arrivals();
    link.done = memory.done(index);
    link.tiles = p.tiles;
    link.k_steps = p.k_steps;
    link.splits = p.splits;
    return {};
  }

  EncodeTiled encoder_;
};

CudaChain::CudaChain(std::unique_ptr<State> state) : state_(std::move(state)) {}
CudaChain::~CudaChain() = default;
CudaChain::CudaChain(CudaChain&&) noexcept = default;
CudaChain& CudaChain::operator=(CudaChain&&) noexcept = default;

Result<CudaChain> CudaChain::create() {
  CAUSEWAY_ASSIGN(const EncodeTiled encoder, find_encoder());
  return CudaChain(std::make_unique<State>(encoder));
}

Status CudaChain::run(const ChainPlan& plan, std::span<const ChainOperands> operands,
                      void* workspace, CudaStream stream) {
  return state_->run(plan, operands, workspace, stream);
}

}  // namespace causeway::kernels::gemm
