// Attention beside its limits, both from this run: decode against reading its KV bytes at the rate
// of a plain read of the HBM; prefill against cuBLAS's bf16 rate. All layers of the model are run
// after each other, in one graph, so that the L2 holds none of it. Decode includes preparing its
// tokens, done as a step does it: in the decode kernel, or in a launch of its own.
#include <cublas_v2.h>

#include "kernels/attention/attention_cuda.h"
#include "kernels/attention/cuda_parts.h"
#include "kernels/testing/gpu.cuh"

namespace causeway::kernels::attention {
namespace {

using testing::Device;
using testing::must;

struct Model {
  const char* name;
  Heads heads;
  std::int64_t layers, block_tokens;
};

constexpr std::int64_t kFrame = 4 << 20;

struct Load {
  int batch, context;
  bool ragged = false;
};

// A stream, frames, and so many rows of queries of at most 64 heads.
struct Memory {
  explicit Memory(std::size_t rows)
      : pool(std::size_t{20} << 30 >> 1), q(rows * 64 * 128), out(q.size()) {
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    testing::fill(pool, 1);
    testing::fill(q, 2);
  }
  cudaStream_t stream = nullptr;
  Device<BFloat16> pool, q, out;
};

struct Setup {
  Device<std::int32_t> frames, frame_begin, query_begin, length, position, sequence;
  Device<char> workspace;
  Device<float> table;
  PrepareCuda prepare;  // of decode
  ParamsCuda params;
};

// Tokens of each sequence: `context`, or all lengths between an eighth and fifteen eighths of it.
std::vector<std::int32_t> lengths_of(std::int64_t sequences, std::int64_t context, bool ragged) {
  std::vector<std::int32_t> lengths;
  for (std::int64_t i = 0; i < sequences; ++i) {
    const std::int64_t more = i * 7919 % sequences * (context * 7 / 4) / sequences;
    lengths.push_back(static_cast<std::int32_t>(ragged ? context / 8 + more : context));
  }
  return lengths;
}

// What prepares the tokens of decode, one a sequence: its last.
void prepare_tokens(Setup& s, const std::vector<std::int32_t>& lengths, const Device<BFloat16>& q) {
  const ParamsCuda& p = s.params;
  std::vector<std::int32_t> position, sequence;
  for (const std::int32_t length : lengths) {
    position.push_back(length - 1);
    sequence.push_back(static_cast<std::int32_t>(sequence.size()));
  }
  s.position = Device<std::int32_t>(position);
  s.sequence = Device<std::int32_t>(sequence);
  // Turned by an eighth of a circle: q, in place, keeps its length however often.
  s.table = Device<float>(
      std::vector<float>(static_cast<std::size_t>(p.tokens * p.heads.size), std::sqrt(0.5f)));
  s.prepare = {.kv = p.kv,
               .heads = p.heads,
               .tokens = p.tokens,
               .sequences = p.sequences,
               .position = s.position.get(),
               .sequence = s.sequence.get(),
               .frames = p.frames,
               .frame_begin = p.frame_begin,
               .rope_table = s.table.get(),
               .qkv = q.get(),
               .qkv_stride = p.q_stride};
}

Setup make(const Model& m, const Memory& memory, std::int64_t sequences, std::int64_t context,
           std::int64_t queries, bool ragged = false) {
  Setup s;
  const std::vector<std::int32_t> lengths = lengths_of(sequences, context, ragged);
  const std::int64_t pool_frames = static_cast<std::int64_t>(memory.pool.size()) * 2 / kFrame;
  std::vector<std::int32_t> frames, frame_begin = {0}, query_begin = {0};
  for (std::int64_t i = 0; i < sequences; ++i) {
    const std::int64_t blocks =
        (lengths[static_cast<std::size_t>(i)] + m.block_tokens - 1) / m.block_tokens;
    for (std::int64_t b = 0; b < blocks; ++b) {
      frames.push_back(static_cast<std::int32_t>((b * sequences + i) * 7919 % pool_frames));
    }
    frame_begin.push_back(static_cast<std::int32_t>(frames.size()));
    query_begin.push_back(static_cast<std::int32_t>((i + 1) * queries));
  }
  s.frames = Device<std::int32_t>(frames);
  s.frame_begin = Device<std::int32_t>(frame_begin);
  s.query_begin = Device<std::int32_t>(query_begin);
  s.length = Device<std::int32_t>(lengths);
  s.workspace = Device<char>(to_size(workspace_bytes(m.heads, sequences, sequences * queries)));
  s.workspace.zero();
  const std::int64_t part = m.block_tokens * m.heads.kv * m.heads.size * 2;
  s.params = {.kv = {.base = reinterpret_cast<std::byte*>(memory.pool.get()),
                     .frame_bytes = Bytes(kFrame),
                     .key_offset = Bytes(0),
                     .value_offset = Bytes(part),
                     .token_stride = Bytes(m.heads.kv * m.heads.size * 2),
                     .block_tokens = m.block_tokens,
                     .dtype = DType::kBF16},
              .heads = m.heads,
              .sequences = sequences,
              .decode = queries == 1 ? sequences : 0,
              .tokens = sequences * queries,
              .frames = s.frames.get(),
              .frame_begin = s.frame_begin.get(),
              .query_begin = s.query_begin.get(),
              .length = s.length.get(),
              .scale = 0.088f,
              .q = memory.q.get(),
              .q_stride = (m.heads.query + 2 * m.heads.kv) * m.heads.size,
              .out = memory.out.get(),
              .workspace = s.workspace.get(),
              .tables_early = true,
              .planned = true};
  if (queries == 1) prepare_tokens(s, lengths, memory.q);
  must(plan(s.params, nullptr));
  must(cudaDeviceSynchronize(), "plan");
  return s;
}

// As CudaForward does it.
void enqueue_layer(const Setup& s, std::int64_t layer, cudaStream_t stream) {
  ParamsCuda p = s.params;
  p.kv.key_offset = Bytes(layer * 2 * p.kv.value_offset.count);
  PrepareCuda prepared = s.prepare;
  prepared.kv = p.kv;
  const auto decode = choose_decode(p.heads, p.decode_kernel);
  if (fuses_prepare(p.heads, p.decode) && decode.ok() && *decode == DecodeKernel::kSplit) {
    p.fused_prepare = &prepared;
  } else if (p.decode > 0) {
    must(prepare(prepared, stream));
  }
  must(run(p, stream));
}

double layers_us(const Setup& s, cudaStream_t stream, std::int64_t layers) {
  const double us = testing::graph_us(stream, [&](cudaStream_t capture) {
    for (std::int64_t layer = 0; layer < layers; ++layer) enqueue_layer(s, layer, capture);
  });
  return us / static_cast<double>(layers);
}

double cublas_tflops(cudaStream_t stream) {
  const int n = 8192;
  Device<BFloat16> a(std::size_t{n} * n), b(a.size()), c(a.size());
  testing::fill(a, 1);
  testing::fill(b, 2);
  Device<char> scratch(64 << 20);
  cublasHandle_t handle;
  if (cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS) return 0;
  cublasSetStream(handle, stream);
  cublasSetWorkspace(handle, scratch.get(), scratch.size());
  const float one = 1, zero = 0;
  const double us = testing::graph_us(stream, [&](cudaStream_t) {
    cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one, a.get(), CUDA_R_16BF, n, b.get(),
                 CUDA_R_16BF, n, &zero, c.get(), CUDA_R_16BF, n, CUBLAS_COMPUTE_32F,
                 CUBLAS_GEMM_DEFAULT);
  });
  cublasDestroy(handle);
  return 2.0 * n * n * n / us * 1e-6;
}

// Decode with heads of 96, by the split kernel and by that of the tensor cores.
int bench_96() {
  if (!testing::has_gpu()) return testing::kSkipped;
  const Memory memory(64);
  cudaStream_t const stream = memory.stream;
  const double hbm = testing::hbm_read_gb_per_s(stream, memory.pool.get(), std::int64_t{8} << 30);
  std::printf("HBM read %.0f GB/s\nus/layer         batch  context   floor   split  tensor\n", hbm);
  for (const Model& m : {Model{"Phi-3-mini", {32, 32, 96}, 32, 10},
                         Model{"8 KV heads of 96", {32, 8, 96}, 32, 42}}) {
    for (const auto& [batch, context, ragged] :
         {Load{1, 1025}, Load{1, 4097}, Load{4, 1025}, Load{8, 1025}, Load{32, 1025},
          Load{32, 1025, true}}) {
      Setup s = make(m, memory, batch, context, 1, ragged);
      const double bytes =
          2.0 * 2 * batch * context * static_cast<double>(m.heads.kv * m.heads.size);
      std::printf("%-16s %5d %8d %7.2f", m.name, batch, context, bytes / hbm * 1e-3);
      for (const DecodeKernel kernel : {DecodeKernel::kSplit, DecodeKernel::kTensor}) {
        s.params.decode_kernel = kernel;
        std::printf(" %7.2f", layers_us(s, stream, m.layers));
      }
      std::printf("%s\n", ragged ? "  mixed lengths" : "");
    }
  }
  return 0;
}

// Llama-3.1-8B at 128 × 1,024, four launches and nothing else: for a profiler.
int profile() {
  const Memory memory(128);
  cudaStream_t const stream = memory.stream;
  const Model m = {"Llama-3.1-8B", {32, 8, 128}, 32, 32};
  Setup s = make(m, memory, 128, 1024, 1);
  for (int i = 0; i < 4; ++i) must(run(s.params, stream));
  must(cudaStreamSynchronize(stream), "profile");
  return 0;
}

// Decode of few sequences, by the split kernel and by clusters.
int bench_small_batch() {
  if (!testing::has_gpu()) return testing::kSkipped;
  const Memory memory(8);
  cudaStream_t const stream = memory.stream;
  for (const int cluster : {4, 8, 16}) {
    std::printf("room for %ld clusters of %d\n",
                static_cast<long>(parts::small_batch_room({32, 4, 128}, cluster)), cluster);
  }
  std::printf("us/layer              batch  context   split  clusters of 4       8      16\n");
  for (const Model& m : {Model{"Qwen3-30B-A3B", {32, 4, 128}, 48, 42},
                         Model{"Llama-3.1-8B", {32, 8, 128}, 32, 32}}) {
    const Load loads[] = {{1, 1025}, {2, 1025}, {4, 1025}, {1, 128}, {1, 4096}, {1, 16384}};
    for (const auto& [batch, context, ragged] : loads) {
      Setup s = make(m, memory, batch, context, 1, ragged);
      s.params.decode_kernel = DecodeKernel::kSplit;
      must(plan(s.params, stream));
      std::printf("%-20s %6d %8d %7.2f", m.name, batch, context, layers_us(s, stream, m.layers));
      for (const int cluster : {4, 8, 16}) {
        s.params.cluster = cluster;
        std::printf(" %*.2f", cluster == 4 ? 14 : 7, layers_us(s, stream, m.layers));
      }
      std::printf("\n");
    }
  }
  return 0;
}

// Decode with heads of 256, by the split kernel and by FlashInfer's.
int bench_wide() {
  if (!testing::has_gpu()) return testing::kSkipped;
  const Memory memory(32);
  cudaStream_t const stream = memory.stream;
  const double hbm = testing::hbm_read_gb_per_s(stream, memory.pool.get(), std::int64_t{8} << 30);
  std::printf("HBM read %.0f GB/s\nus/layer         batch  context   floor   split  FlashInfer\n",
              hbm);
  for (const float cap : {50.0f, 0.0f}) {
    const Model m = cap > 0 ? Model{"Gemma-2-9B", {16, 8, 256}, 42, 12}
                            : Model{"Gemma-3-12B", {16, 8, 256}, 48, 10};
    for (const auto& [batch, context, ragged] : {Load{1, 1025}, Load{8, 1025}, Load{32, 1025}}) {
      Setup s = make(m, memory, batch, context, 1, ragged);
      s.params.cap = cap;
      const double bytes =
          2.0 * 2 * batch * context * static_cast<double>(m.heads.kv * m.heads.size);
      std::printf("%-16s %5d %8d %7.2f", m.name, batch, context, bytes / hbm * 1e-3);
      std::printf(" %7.2f", layers_us(s, stream, m.layers));
      s.params.decode_kernel = DecodeKernel::kFlashInfer;
      std::printf(" %11.2f\n", has_flashinfer() ? layers_us(s, stream, m.layers) : 0.0);
    }
  }
  return 0;
}

int bench() {
  if (!testing::has_gpu()) return testing::kSkipped;
  const Memory memory(8192);
  cudaStream_t const stream = memory.stream;
  const double hbm = testing::hbm_read_gb_per_s(stream, memory.pool.get(), std::int64_t{8} << 30);
  const double peak = cublas_tflops(stream);
  std::printf("HBM read %.0f GB/s, cuBLAS bf16 8192³ %.0f TFLOP/s\n\n", hbm, peak);

  const Model models[] = {{"Llama-3.1-8B", {32, 8, 128}, 32, 32},
                          {"Qwen2.5-32B", {40, 8, 128}, 64, 16},
                          {"Qwen3-30B-A3B", {32, 4, 128}, 48, 42},
                          {"Llama-3.2-1B", {32, 8, 64}, 16, 128}};
  std::printf("decode            batch  context  us/layer    MB  floor us  x floor  lengths\n");
  for (const Model& m : models) {
    const Load loads[] = {{1, 1024},   {8, 1024},  {16, 1024}, {32, 1024}, {64, 1024},
                          {128, 1024}, {1, 16384}, {4, 8192},  {96, 700},  {256, 880, true}};
    for (const auto& [batch, context, ragged] : loads) {
      if (&m != models && context != 1024) continue;
      Setup s = make(m, memory, batch, context, 1, ragged);
      const double us = layers_us(s, stream, m.layers);
      const double bytes =
          2.0 * 2 * batch * context * static_cast<double>(m.heads.kv * m.heads.size);
      const double floor = bytes / hbm * 1e-3;
      std::printf("%-16s %6d %8d %9.2f %6.1f %9.2f %8.2f  %s\n", m.name, batch, context, us,
                  bytes * 1e-6, floor, us / floor, ragged ? "mixed" : "equal");
    }
  }
  std::printf("\nprefill           kernel      tokens  us/layer  TFLOP/s  of cuBLAS\n");
  for (const Model& m : {models[0], models[3]}) {
    for (const auto kernel : {PrefillKernel::kReference, PrefillKernel::kFlashInfer}) {
      for (const std::int64_t tokens : {1024, 8192}) {
        if (kernel == PrefillKernel::kReference && tokens > 1024) continue;
        if (!choose_prefill(m.heads, kernel).ok()) continue;
        Setup s = make(m, memory, 1, tokens, tokens);
        s.params.prefill_kernel = kernel;
        const double us = layers_us(s, stream, 4);
        const double flop = 2.0 * static_cast<double>(tokens) * static_cast<double>(tokens) *
                            static_cast<double>(m.heads.query * m.heads.size);
        std::printf("%-16s %-12s %6ld %9.1f %8.0f %10.2f\n", m.name,
                    kernel == PrefillKernel::kReference ? "reference" : "FlashInfer", tokens, us,
                    flop / us * 1e-6, flop / us * 1e-6 / peak);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace causeway::kernels::attention

//   attention_gpu_bench [small-batch | wide | 96 | profile]
int main(int argc, char** argv) {
  using namespace causeway::kernels::attention;
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "wide") return bench_wide();
  if (what == "96") return bench_96();
  return what == "small-batch" ? bench_small_batch() : what.empty() ? bench() : profile();
}
