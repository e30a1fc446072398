// A GPU machine with an engine over it for tests: memory whose every byte is known from a seed and
// its place, kernels that make and check it, faults to inject. Needs one GPU; uses all.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "device/arena.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_machine.h"
#include "transfer/engine.h"
#include "transfer/testing/faulty_device.h"

namespace causeway::transfer::testing {

inline constexpr Nanos kGpuPatience = seconds(60);
inline constexpr int kPiecesMax = 100;

// Byte `at` of memory made from `seed`.
__host__ __device__ inline std::uint64_t known_word(std::uint64_t seed, std::uint64_t word) {
  std::uint64_t x = seed + (word + 1) * 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}
__host__ __device__ inline unsigned char known_byte(std::uint64_t seed, std::int64_t at) {
  const auto place = static_cast<std::uint64_t>(at);
  return static_cast<unsigned char>(known_word(seed, place / 8) >> (8 * (place % 8)));
}

// What was copied within an area: piece i lies in slot i of both, in order. Passed to kernels by
// value.
struct Pieces {
  int count = 0;
  std::int64_t slot = 1;  // bytes
  std::int64_t source[kPiecesMax];
  std::int64_t target[kPiecesMax];
  std::int64_t bytes[kPiecesMax];

  __host__ __device__ unsigned char expected(std::int64_t at, std::uint64_t source_seed,
                                             std::uint64_t before_seed) const {
    const std::int64_t piece = at / slot;
    if (piece < count && at >= target[piece] && at < target[piece] + bytes[piece]) {
      return known_byte(source_seed, source[piece] + at - target[piece]);
    }
    return known_byte(before_seed, at);
  }
};

// Random pieces of an area, some empty.
inline Pieces random_pieces(Random& random, std::int64_t area) {
  Pieces pieces;
  const bool many = random.chance(0.3);
  pieces.count = static_cast<int>(many ? random.between(2, kPiecesMax) : random.between(1, 3));
  pieces.slot = area / pieces.count;
  for (int i = 0; i < pieces.count; ++i) {
    const bool whole = random.chance(0.3);
    const std::int64_t bytes =
        random.chance(0.05) ? 0 : (whole ? pieces.slot : random.between(1, pieces.slot));
    pieces.bytes[i] = bytes;
    pieces.source[i] = i * pieces.slot + random.between(0, pieces.slot - bytes);
    pieces.target[i] = i * pieces.slot + random.between(0, pieces.slot - bytes);
  }
  return pieces;
}

// words[i] for i < count.
__global__ void make_known(std::uint64_t* words, std::int64_t count, std::uint64_t seed) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += step) {
    words[i] = known_word(seed, static_cast<std::uint64_t>(i));
  }
}

// Adds to *wrong how many of the area's 8 × count bytes are not as expected.
__global__ void count_wrong(const std::uint64_t* words, std::int64_t count, Pieces pieces,
                            std::uint64_t source_seed, std::uint64_t before_seed,
                            unsigned long long* wrong) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  unsigned long long bad = 0;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += step) {
    const std::uint64_t word = words[i];
    for (int b = 0; b < 8; ++b) {
      const auto byte = static_cast<unsigned char>(word >> (8 * b));
      bad += byte != pieces.expected(8 * i + b, source_seed, before_seed);
    }
  }
  if (bad != 0) atomicAdd(wrong, bad);
}

__global__ void set_word(unsigned long long* word, unsigned long long value) { *word = value; }

__global__ void spin_for(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

inline Status launched() {
  const cudaError_t code = cudaGetLastError();
  if (code == cudaSuccess) return {};
  return Error{ErrorCode::kDevice, std::string("launch: ") + cudaGetErrorString(code)};
}

inline std::vector<std::uint64_t> known_words(std::size_t count, std::uint64_t seed) {
  std::vector<std::uint64_t> words(count);
  for (std::size_t i = 0; i < count; ++i) words[i] = known_word(seed, i);
  return words;
}

// As count_wrong(), on the CPU.
inline std::int64_t wrong_on_host(std::span<const std::byte> area, const Pieces& pieces,
                                  std::uint64_t source_seed, std::uint64_t before_seed) {
  const auto source = known_words(area.size() / 8, source_seed);
  auto expected = known_words(area.size() / 8, before_seed);
  const auto* from = reinterpret_cast<const std::byte*>(source.data());
  auto* to = reinterpret_cast<std::byte*>(expected.data());
  for (int i = 0; i < pieces.count; ++i) {
    std::memcpy(to + pieces.target[i], from + pieces.source[i],
                static_cast<std::size_t>(pieces.bytes[i]));
  }
  std::int64_t wrong = 0;
  if (std::memcmp(to, area.data(), area.size()) == 0) return wrong;
  for (std::size_t i = 0; i < area.size(); ++i) wrong += to[i] != area[i];
  return wrong;
}

struct GpuRigOptions {
  int gpus = 0;   // 0: all
  int areas = 4;  // of host memory and of every GPU's
  Bytes area_bytes = mib(32);
  Bytes staging = mib(128);  // of each arena beyond the data
};

// Areas 0 … areas-1 in host memory and on each GPU; one word a GPU and area for counting.
class GpuRig {
 public:
  // kUnavailable without a GPU.
  static Result<std::unique_ptr<GpuRig>> make(const GpuRigOptions& options) {
    auto rig = std::make_unique<GpuRig>();
    rig->options_ = options;
    CAUSEWAY_ASSIGN(const device::CudaApi api, device::load_cuda_api());
    CAUSEWAY_ASSIGN(rig->machine, device::CudaMachine::create(api, {}, rig->clock, rig->memory));
    const int all = rig->machine->gpus();
    const int gpus = options.gpus == 0 ? all : std::min(all, options.gpus);
    const Bytes data = options.area_bytes * options.areas;
    CAUSEWAY_ASSIGN(rig->region_, rig->memory.allocate({.name = "rig", .bytes = data + mib(1)}));
    for (int gpu = 0; gpu < gpus; ++gpu) CAUSEWAY_TRY(rig->open(gpu, data));
    return Result<std::unique_ptr<GpuRig>>(std::move(rig));
  }
  ~GpuRig() {
    engine.reset();
    faulty_.clear();
    extents_.clear();
    devices_.clear();
    machine.reset();
  }

  Status start(TransferEngineOptions options, PathFacts facts) {
    engine.reset();
    std::vector<EngineLink> links;
    for (const auto& device : faulty_) links.push_back({{device.get()}});
    CAUSEWAY_ASSIGN(engine, TransferEngine::create(std::move(options), links, facts, clock));
    return {};
  }
  Status start(TransferEngineOptions options) {
    return start(std::move(options), assume_all_links(gpus()));
  }

  int gpus() const { return static_cast<int>(devices_.size()); }
  int areas() const { return options_.areas; }
  Bytes area_bytes() const { return options_.area_bytes; }
  device::Device& device(int gpu) { return *devices_[static_cast<std::size_t>(gpu)]; }
  FaultPlan& faults(int gpu) { return *plans_[static_cast<std::size_t>(gpu)]; }

  device::MemoryAddress host(int area, Bytes offset = {}) const {
    return device::MemoryAddress::in_host({region_, options_.area_bytes * area + offset});
  }
  device::MemoryAddress data(int gpu, int area, Bytes offset = {}) const {
    const auto g = static_cast<std::size_t>(gpu);
    return device::MemoryAddress::in_arena(
        devices_[g]->id(), extents_[g].offset() + options_.area_bytes * area + offset);
  }
  std::span<std::byte> host_bytes(int area) {
    return memory.resolve({region_, options_.area_bytes * area}, options_.area_bytes);
  }
  // Where kernels of `gpu` see host memory's area.
  Result<std::uint64_t*> host_words(int gpu, int area) {
    CAUSEWAY_ASSIGN(const auto seen,
                    device::cuda_address_of(device(gpu), {region_, options_.area_bytes * area},
                                            options_.area_bytes));
    return reinterpret_cast<std::uint64_t*>(seen);
  }
  std::uint64_t* data_words(int gpu, int area) const {
    return reinterpret_cast<std::uint64_t*>(extents_[static_cast<std::size_t>(gpu)].data() +
                                            (options_.area_bytes * area).count);
  }
  std::int64_t words() const { return options_.area_bytes.count / 8; }
  // The counter of a GPU and area, on the GPU and in host memory.
  unsigned long long* counter(int gpu, int area) const {
    const Bytes at = options_.area_bytes * options_.areas + Bytes(64) * area;
    return reinterpret_cast<unsigned long long*>(extents_[static_cast<std::size_t>(gpu)].data() +
                                                 at.count);
  }
  device::Copy counter_to_host(int gpu, int area) const {
    const Bytes at = options_.area_bytes * options_.areas + Bytes(64) * area;
    const auto g = static_cast<std::size_t>(gpu);
    return {device::MemoryAddress::in_host({region_, at}),
            device::MemoryAddress::in_arena(devices_[g]->id(), extents_[g].offset() + at),
            Bytes(8)};
  }
  unsigned long long counted(int area) {
    const Bytes at = options_.area_bytes * options_.areas + Bytes(64) * area;
    unsigned long long value = 0;
    std::memcpy(&value, memory.resolve({region_, at}, Bytes(8)).data(), 8);
    return value;
  }

  RealClock clock;
  device::HostMemory memory;
  std::unique_ptr<device::CudaMachine> machine;
  std::unique_ptr<TransferEngine> engine;

 private:
  Status open(int gpu, Bytes data) {
    const Bytes extent = device::kExtentBytes;
    const Bytes room = round_up(data + mib(1), extent);
    CAUSEWAY_ASSIGN(auto device, machine->open({.name = "gpu" + std::to_string(gpu),
                                                .physical_device = gpu,
                                                .arena_bytes = room + options_.staging}));
    CAUSEWAY_ASSIGN(auto extents,
                    device->arena().allocate(room / extent, device::Arena::End::kLow));
    devices_.push_back(std::move(device));
    extents_.push_back(std::move(extents));
    plans_.push_back(std::make_unique<FaultPlan>());
    faulty_.push_back(std::make_unique<FaultyDevice>(*devices_.back(), *plans_.back()));
    return {};
  }

  GpuRigOptions options_;
  RegionId region_;
  std::vector<std::unique_ptr<FaultPlan>> plans_;
  std::vector<std::unique_ptr<device::Device>> devices_;
  std::vector<device::Extents> extents_;
  std::vector<std::unique_ptr<FaultyDevice>> faulty_;
};

}  // namespace causeway::transfer::testing
