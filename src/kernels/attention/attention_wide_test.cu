// Decode as Gemma has it, by the split kernel against the host kernel: heads of 256, soft caps of
// scores, windows, norms by 1 + weight; of one sequence, few and many, which end anywhere, so that
// each way of merging pieces runs. Scores differ enough for a cap or a window to be seen.
//   attention_wide_gpu_test [--seed S]
#include "base/testing/arguments.h"
#include "kernels/attention/testing/case.cuh"

namespace causeway::kernels::attention {
namespace {

struct Model {
  Shape shape;
  std::int64_t window;
  float cap;
};

const Model kModels[] = {
    {{"Gemma-2-9B", 12, {16, 8, 256}}, kNoWindow, 2},
    {{"Gemma-2-9B, local", 12, {16, 8, 256}}, 301, 2},
    {{"Gemma-2-27B", 8, {32, 16, 128}}, 100, 2},
    {{"Gemma-3-12B", 10, {16, 8, 256}, true}, kNoWindow, 0},
    {{"Gemma-3-12B, local", 10, {16, 8, 256}, true}, 1024, 0},
    {{"Gemma-3-27B, local", 8, {32, 16, 128}, true}, 33, 0},
    {{"eight heads on one", 33, {8, 1, 256}}, kNoWindow, 0},
    {{"one head on one, with a cap and norms", 1, {3, 3, 256}, true}, 17, 1.5f},
};

// Tokens of sequences. Up to 4 sequences have few workers; beyond 32 merging rehearses, beyond 96
// it goes by a list (cuda_merge.cu).
struct Load {
  std::int64_t decode, shortest, longest;
};
constexpr Load kLoads[] = {{1, 1025, 1025}, {1, 1, 40},     {2, 1025, 1300}, {3, 200, 1300},
                           {4, 15, 17},     {8, 900, 1100}, {32, 1, 500},    {48, 1, 200},
                           {97, 1, 90},     {140, 30, 70}};

Case make_case(const Model& model, const Load& load, Random& random) {
  Case c{.shape = model.shape,
         .decode = load.decode,
         .seed = random.bits(),
         .window = model.window,
         .cap = model.cap,
         .offset = true,
         .sharpness = model.shape.norm ? 2.0f : 6.0f};
  for (std::int64_t i = 0; i < load.decode; ++i) {
    const bool is_long = load.decode > 90 && i == 20;
    c.context.push_back(is_long ? 1500 : random.between(load.shortest, load.longest) - 1);
    c.queries.push_back(i == 1 || i == 40 ? 0 : 1);
  }
  return c;
}

int run_all(std::uint64_t seed) {
  if (!testing::has_gpu()) return testing::kSkipped;
  std::printf("seed %lu\n", seed);
  cudaStream_t stream;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  testing::Report report;
  Late late;
  Random random(seed);
  for (const Model& model : kModels) {
    for (const Load& load : kLoads) {
      run_case(make_case(model, load, random), split_ways(), report, late, stream);
    }
  }
  must(cudaStreamDestroy(stream), "stream");
  return report.finish();
}

}  // namespace
}  // namespace causeway::kernels::attention

int main(int argc, char** argv) {
  causeway::Arguments arguments(argc, argv);
  const auto seed = arguments.number("--seed", std::uint64_t{20260101});
  arguments.finish();
  return causeway::kernels::attention::run_all(seed);
}
