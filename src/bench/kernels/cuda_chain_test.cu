// A chain of reads on a GPU: what it hands from kernel to kernel is what a host computes one kernel
// after the other, so that each has waited for the one in front; and what came of its reads adds up
// to what the memory holds: time alone says little on a GPU that others use too.
//                                                              cuda_chain_gpu_test [--seed S]
#include "base/testing/arguments.h"
#include "bench/kernels/cuda_chain.h"
#include "bench/kernels/cuda_limits.h"
#include "kernels/testing/gpu.cuh"

namespace causeway::kernels::bench {
namespace {

using testing::Device;
using testing::must;
using Vector = std::vector<std::uint32_t>;

constexpr int kGraphs = 3, kTimes = 4;

// What one kernel makes of its vector: everything mixed, and where it stands.
Vector linked(const Vector& in) {
  std::uint32_t mixed = 0;
  for (const std::uint32_t word : in) mixed ^= word;
  Vector out(in.size());
  for (std::size_t i = 0; i < in.size() / 4; ++i) {
    out[4 * i] = mixed + 1;
    out[4 * i + 1] = static_cast<std::uint32_t>(i);
    out[4 * i + 3] = 1;
  }
  return out;
}

// Both halves of the scratch memory after so many passes over all links.
Vector passed(Vector scratch, std::size_t links, int passes) {
  const auto half = static_cast<std::ptrdiff_t>(scratch.size() / 2);
  for (int pass = 0; pass < passes; ++pass) {
    for (std::size_t i = 0; i < links; ++i) {
      const auto in = scratch.begin() + (i % 2 == 0 ? 0 : half);
      const Vector out = linked(Vector(in, in + half));
      std::copy(out.begin(), out.end(), scratch.begin() + (i % 2 == 0 ? half : 0));
    }
  }
  return scratch;
}

// Returns the time of a pass; there are kGraphs * (1 + times).
Nanos run_chain(const ChainRead& chain, int times, cudaStream_t stream) {
  auto made = CudaChain::create(chain, stream);
  must(made.ok() ? Status() : Status(made.error()));
  const auto took = made->time(times, stream);
  must(took.ok() ? Status() : Status(took.error()));
  must(cudaStreamSynchronize(stream), "the chain");
  return *took;
}

// The sum of all words of all links.
std::uint64_t sum_of(const ChainRead& chain, const Vector& memory) {
  std::vector<std::uint64_t> before = {0};  // of each 16 bytes
  for (std::size_t i = 0; i + 4 <= memory.size(); i += 4) {
    before.push_back(before.back() + memory[i] + memory[i + 1] + memory[i + 2] + memory[i + 3]);
  }
  std::uint64_t sum = 0;
  std::int64_t at = 0;
  for (const ChainLink& link : chain.links) {
    const std::int64_t vectors = link.bytes.count / 16;
    if (16 * (at + vectors) > chain.memory_bytes.count) at = 0;
    sum += before[static_cast<std::size_t>(at + vectors)] - before[static_cast<std::size_t>(at)];
    at += (vectors + 7) / 8 * 8;
  }
  return sum;
}

void run_case(Random& random, std::int64_t vectors, std::int64_t longest, cudaStream_t stream,
              testing::Report& report) {
  const std::int64_t memory_bytes = 2 * longest + 4096;
  Device<std::uint32_t> memory(static_cast<std::size_t>(memory_bytes / 4));
  must(cuda_fill_random_bf16(memory.get(), Bytes(memory_bytes), random.bits(), 1.0f, stream));
  must(cudaStreamSynchronize(stream), "random memory");
  Vector words(static_cast<std::size_t>(2 * 4 * vectors));
  for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random.between(0, 1 << 30));
  Device<std::uint32_t> scratch(words);
  ChainRead chain{.memory = memory.get(),
                  .memory_bytes = Bytes(memory_bytes),
                  .scratch = scratch.get(),
                  .vector = Bytes(16 * vectors)};
  std::int64_t bytes = 0;
  for (std::int64_t left = random.between(1, 40); left > 0; --left) {
    const std::int64_t each =
        random.chance(0.2) ? random.between(0, 100) : random.between(0, longest);
    chain.links.push_back({Bytes(each), random.chance(0.7)});
    bytes += each;
  }
  const Nanos took = run_chain(chain, kTimes, stream);
  const std::string name = std::to_string(chain.links.size()) + " links, " + std::to_string(bytes) +
                           " bytes, vector of " + std::to_string(vectors);
  // No GPU's caches deliver 100 TB/s: less time says that bytes were left out.
  report.check(static_cast<double>(bytes) < 1e5 * static_cast<double>(took.count),
               name + ": too fast to have read them");
  Device<std::uint64_t> sum(1);
  sum.zero();
  chain.sum = sum.get();
  (void)run_chain(chain, 1, stream);
  report.check(sum.fetch()[0] == kGraphs * 2 * sum_of(chain, memory.fetch()),
               name + ": what came is not what the memory holds");
  const int passes = kGraphs * (1 + kTimes) + kGraphs * 2;
  report.check(scratch.fetch() == passed(words, chain.links.size(), passes),
               name + ": not what one kernel after the other leaves");
}

// Links too long for any cache: they take at least the time of their bytes at 6 TB/s, which no HBM
// of a GPU that these kernels are built for reaches. The memory is poison: its sum counts the
// bytes.
void run_long(cudaStream_t stream, testing::Report& report) {
  constexpr std::int64_t kLinks = 4, kBytes = std::int64_t{1} << 30;
  Device<char> memory(kLinks * kBytes), scratch(2 * 8192);
  ChainRead chain{.memory = memory.get(),
                  .memory_bytes = Bytes(kLinks * kBytes),
                  .scratch = scratch.get(),
                  .vector = Bytes(8192)};
  for (std::int64_t i = 0; i < kLinks; ++i) chain.links.push_back({Bytes(kBytes), i % 2 == 0});
  const Nanos took = run_chain(chain, kTimes, stream);
  const double gb_per_s = static_cast<double>(kLinks * kBytes) / static_cast<double>(took.count);
  std::printf("4 links of 1 GiB: %.0f GB/s\n", gb_per_s);
  report.check(gb_per_s <= 6000, "4 GiB at " + std::to_string(gb_per_s) + " GB/s: not all read");
  Device<std::uint64_t> sum(1);
  sum.zero();
  chain.sum = sum.get();
  (void)run_chain(chain, 1, stream);
  constexpr std::uint64_t kWords = kLinks * kBytes / 4;
  report.check(sum.fetch()[0] == kGraphs * 2 * kWords * 0xFFFFFFFFu, "4 GiB: not all came");
}

int run_all(std::uint64_t seed) {
  if (!testing::has_gpu()) return testing::kSkipped;
  std::printf("seed %lu\n", seed);
  Random random(seed);
  testing::Report report;
  cudaStream_t stream;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  must(cudaDeviceSynchronize(), "start");
  for (const std::int64_t vectors : {1, 131, 257, 1023, 4095}) {
    run_case(random, vectors, 1 << 20, stream, report);
    run_case(random, vectors, 64 << 20, stream, report);
  }
  run_long(stream, report);
  Device<char> memory(4096);
  const auto refuses = [&](const ChainRead& chain, const char* what) {
    report.check(!CudaChain::create(chain, stream).ok(), what);
  };
  ChainRead chain{.links = {{Bytes(4096)}},
                  .memory = memory.get(),
                  .memory_bytes = Bytes(2048),
                  .scratch = memory.get(),
                  .vector = Bytes(16)};
  refuses(chain, "a link of more than the memory");
  chain.memory_bytes = Bytes(4096);
  chain.vector = Bytes(24);
  refuses(chain, "a vector of 24 bytes");
  chain.vector = Bytes(16);
  chain.links.clear();
  refuses(chain, "no links");
  must(cudaStreamDestroy(stream), "stream");
  return report.finish();
}

}  // namespace
}  // namespace causeway::kernels::bench

int main(int argc, char** argv) {
  return causeway::kernels::bench::run_all(causeway::seed_of(argc, argv));
}
