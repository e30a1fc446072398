// Small copies between a GPU's memory and itself or pinned memory: what was there, and nothing
// else.
//     small_copy_gpu_test [--seed S]
#include "base/testing/arguments.h"
#include "kernels/small_copy/small_copy.h"
#include "kernels/testing/gpu.cuh"

namespace causeway::kernels::small_copy {
namespace {

using testing::Device;
using testing::must;

using Words = std::vector<std::uint32_t>;

// Copies `count` words from `from` on to `to` on; the words around them stay.
void check(std::uint32_t* target, const std::uint32_t* source, Words expected, const Words& content,
           std::size_t to, std::size_t from, std::size_t count, const std::string& what,
           testing::Report& report) {
  must(run({.target = target + to,
            .source = source + from,
            .bytes = Bytes(static_cast<std::int64_t>(4 * count))},
           nullptr));
  must(cudaStreamSynchronize(nullptr), "small_copy");
  std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(from), count,
              expected.begin() + static_cast<std::ptrdiff_t>(to));
  Words found(expected.size());
  must(cudaMemcpy(found.data(), target, 4 * found.size(), cudaMemcpyDefault), "reading back");
  report.check(found == expected, what + ", " + std::to_string(count) + " words");
}

int run_all(std::uint64_t seed) {
  if (!testing::has_gpu()) return testing::kSkipped;
  std::printf("seed %lu\n", seed);
  Random random(seed);
  testing::Report report;
  constexpr std::size_t kWords = 300'000;
  Words content(kWords), poison(kWords, 0xDEADBEEF);
  for (auto& word : content) word = static_cast<std::uint32_t>(random.below(1LL << 32));
  void* pinned = nullptr;
  must(cudaMallocHost(&pinned, 4 * kWords), "pinned memory");
  auto* host = static_cast<std::uint32_t*>(pinned);
  for (const std::size_t count : {0, 1, 3, 4, 255, 256, 257, 4096, 8191, 8192, 250'001}) {
    for (const std::size_t from : {0, 1, 4}) {
      const auto to = static_cast<std::size_t>(random.below(9));
      Device<std::uint32_t> source(content), target(poison);
      check(target.get(), source.get(), poison, content, to, from, count, "device to device",
            report);
      std::copy(poison.begin(), poison.end(), host);
      check(host, source.get(), poison, content, to, from, count, "device to host", report);
      std::copy(content.begin(), content.end(), host);
      Device<std::uint32_t> again(poison);
      check(again.get(), host, poison, content, to, from, count, "host to device", report);
    }
  }
  report.check(!run({.target = host, .source = host + 8, .bytes = Bytes(6)}, nullptr).ok(),
               "half a word is refused");
  must(cudaFreeHost(pinned), "pinned memory");
  return report.finish();
}

}  // namespace
}  // namespace causeway::kernels::small_copy

int main(int argc, char** argv) {
  return causeway::kernels::small_copy::run_all(causeway::seed_of(argc, argv));
}
