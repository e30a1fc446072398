// What FlashInfer's kernel is told of a step, read on the host as the kernel reads it: the lengths
// of sequences with more frames than their tokens fill, and the window. Needs no GPU.
//   flashinfer_params_gpu_test
#include "kernels/attention/cuda_flashinfer.cuh"
#include "kernels/testing/gpu.cuh"

namespace causeway::kernels::attention {
namespace {

#ifdef CAUSEWAY_FLASHINFER

struct Tables {
  std::int64_t decode = 0;
  std::vector<std::int32_t> query_begin = {0}, length, frame_begin = {0}, frames;
};

constexpr std::int64_t kBlock = 32;

Tables draw_tables(Random& random) {
  Tables t;
  t.decode = random.between(0, 3);
  for (int i = 0; i < 12; ++i) {
    const std::int64_t queries = i < t.decode ? 1 : random.between(1, 40);
    const std::int64_t length = queries + random.between(0, 300);
    const std::int64_t spare = random.chance(0.5) ? 0 : random.between(1, 100);
    t.query_begin.push_back(t.query_begin.back() + static_cast<std::int32_t>(queries));
    t.length.push_back(static_cast<std::int32_t>(length));
    t.frames.resize(t.frames.size() + to_size(Bytes((length + kBlock - 1) / kBlock + spare)));
    t.frame_begin.push_back(static_cast<std::int32_t>(t.frames.size()));
  }
  return t;
}

template <int kSize, bool kBounded>
void check_step(testing::Report& report, const Tables& t, std::int64_t window, float cap) {
  const ParamsCuda p{.kv = {.frame_bytes = Bytes(4 << 20), .block_tokens = kBlock},
                     .heads = {8, 2, kSize},
                     .sequences = static_cast<std::int64_t>(t.length.size()),
                     .decode = t.decode,
                     .frames = t.frames.data(),
                     .frame_begin = t.frame_begin.data(),
                     .query_begin = t.query_begin.data(),
                     .length = t.length.data(),
                     .window = window,
                     .cap = cap};
  const parts::PagedParams params = parts::paged_params<kSize, kBounded>(p, {});
  for (auto i = static_cast<std::size_t>(t.decode); i < t.length.size(); ++i) {
    const auto sequence = static_cast<std::uint32_t>(i) - static_cast<std::uint32_t>(t.decode);
    const typename parts::PagedKernel<kSize, kBounded>::Variant variant(params, sequence, nullptr);
    const auto length = static_cast<std::uint32_t>(t.length[i]);
    const bool limited = kBounded && window < kNoWindow;
    const auto queries = static_cast<std::uint32_t>(t.query_begin[i + 1] - t.query_begin[i]);
    const std::string what = "heads of " + std::to_string(kSize) + ", sequence " +
                             std::to_string(i) + " of " + std::to_string(length) + " tokens in " +
                             std::to_string(t.frame_begin[i + 1] - t.frame_begin[i]) + " frames";
    report.check(variant.kv_len == length, what + ": length " + std::to_string(variant.kv_len));
    report.check(variant.qo_len == queries, what + ": query tokens");
    report.check(variant.window_left == (limited ? window - 1 : length), what + ": window");
  }
}

int run_all() {
  testing::Report report;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    const Tables tables = draw_tables(random);
    check_step<64, false>(report, tables, kNoWindow, 0);
    check_step<128, true>(report, tables, random.between(1, 200), 0);
    check_step<256, true>(report, tables, kNoWindow, 50);
    check_step<256, true>(report, tables, random.between(1, 200), 50);
  }
  return report.finish();
}

#else

int run_all() { return testing::kSkipped; }

#endif

}  // namespace
}  // namespace causeway::kernels::attention

int main() { return causeway::kernels::attention::run_all(); }
