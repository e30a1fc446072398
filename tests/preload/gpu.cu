#include "gpu.cuh"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

namespace program {

namespace {

constexpr int kBlocks = 264;
constexpr int kThreads = 256;

void launched(const char* kernel) {
  const cudaError_t status = cudaGetLastError();
  expect(status == cudaSuccess, "%s was not launched: %s", kernel, error_words(status).c_str());
}

void* allocate(std::size_t bytes, Host kind) {
  void* made = nullptr;
  switch (kind) {
    case Host::kPinned: GPU_OK(cudaHostAlloc(&made, bytes, cudaHostAllocDefault)); break;
    case Host::kWriteCombined:
      GPU_OK(cudaHostAlloc(&made, bytes, cudaHostAllocWriteCombined));
      break;
    case Host::kMapped:
      GPU_OK(cudaHostAlloc(&made, bytes, cudaHostAllocMapped | cudaHostAllocPortable));
      break;
    case Host::kManaged: GPU_OK(cudaMallocManaged(&made, bytes)); break;
    case Host::kPageable:
      made = std::malloc(bytes);
      expect(made != nullptr, "no %zu bytes of memory", bytes);
      break;
    case Host::kRegistered:
      made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      expect(made != MAP_FAILED, "mmap of %zu bytes failed", bytes);
      GPU_OK(cudaHostRegister(made, bytes, cudaHostRegisterDefault));
      break;
  }
  return made;
}

}  // namespace

std::string error_words(cudaError_t status) {
  return text("%s (%d)", cudaGetErrorName(status), static_cast<int>(status));
}

void gpu_ok(cudaError_t status, const char* call, int line) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // or the next case would fail by it
  expect(false, "%s in line %d: %s", call, line, error_words(status).c_str());
}

void forgive(cudaError_t status) {
  if (status != cudaSuccess) (void)cudaGetLastError();
}

bool is_pending(cudaStream_t stream) {
  const cudaError_t status = cudaStreamQuery(stream);
  if (status != cudaErrorNotReady) GPU_OK(status);
  (void)cudaGetLastError();
  return status == cudaErrorNotReady;
}

bool is_pending(cudaEvent_t event) {
  const cudaError_t status = cudaEventQuery(event);
  if (status != cudaErrorNotReady) GPU_OK(status);
  (void)cudaGetLastError();
  return status == cudaErrorNotReady;
}

HostMemory::HostMemory(std::size_t bytes, Host kind)
    : kind_(kind), data_(allocate(bytes, kind)), bytes_(bytes) {}

HostMemory::~HostMemory() {
  if (data_ == nullptr) return;
  switch (kind_) {
    case Host::kPageable: std::free(data_); break;
    case Host::kManaged: forgive(cudaFree(data_)); break;
    case Host::kRegistered:
      forgive(cudaHostUnregister(data_));
      (void)munmap(data_, bytes_);
      break;
    default: forgive(cudaFreeHost(data_)); break;
  }
}

void fill_device(cudaStream_t stream, void* out, std::size_t bytes, Pattern pattern) {
  preload_fill<<<kBlocks, kThreads, 0, stream>>>(static_cast<unsigned char*>(out), bytes, pattern);
  launched("fill");
}

void xor_device(cudaStream_t stream, void* to, const void* from, std::size_t bytes,
                unsigned char key) {
  preload_xor<<<kBlocks, kThreads, 0, stream>>>(
      static_cast<unsigned char*>(to), static_cast<const unsigned char*>(from), bytes, key);
  launched("xor");
}

void spin(cudaStream_t stream, double milliseconds) {
  preload_spin<<<1, 1, 0, stream>>>(nullptr, static_cast<unsigned long long>(milliseconds * 1e6));
  launched("spin");
}

Hold::Hold(cudaStream_t stream, double seconds) : memory_(sizeof(unsigned), Host::kMapped) {
  *flag() = 0;
  preload_spin<<<1, 1, 0, stream>>>(reinterpret_cast<unsigned*>(memory_.data()),
                                    static_cast<unsigned long long>(seconds * 1e9));
  launched("hold");
  ended_.record(stream);
}

void load_kernels() {
  const DeviceMemory device(4096);
  const Stream stream;
  fill_device(stream, device.data(), 4096, {1, 0});
  xor_device(stream, device.data(), device.data(), 4096, 1);
  spin(stream, 0.001);
  DeviceCheck check;
  fill_device(stream, device.data(), 4096, {1, 0});
  check.add(stream, device.data(), 4096, {1, 0}, "the kernels themselves");
  check.finish();
}

DeviceCheck::DeviceCheck()
    : found_(kMost * sizeof(Verdict)), seen_(kMost * sizeof(Verdict), Host::kMapped) {
  const Stream stream;
  auto* const found = reinterpret_cast<Verdict*>(found_.data());
  GPU_OK(cudaMemsetAsync(found, 0, found_.bytes(), stream));
  for (std::size_t i = 0; i < kMost; ++i) {
    // Publishing zeroes a verdict; what it stores before is overwritten by add().
    preload_publish<<<1, 1, 0, stream>>>(found + i, reinterpret_cast<Verdict*>(seen_.data()) + i);
  }
  launched("publish");
  stream.wait();
}

void DeviceCheck::add(cudaStream_t stream, const void* in, std::size_t bytes, Pattern pattern,
                      const std::string& what) {
  if (checks_.size() == kMost) finish();
  auto* const found = reinterpret_cast<Verdict*>(found_.data()) + checks_.size();
  auto* const seen = reinterpret_cast<Verdict*>(seen_.data()) + checks_.size();
  *seen = Verdict{0, 0, 0};
  preload_check<<<kBlocks, kThreads, 0, stream>>>(static_cast<const unsigned char*>(in), bytes,
                                                  pattern, found);
  launched("check");
  preload_publish<<<1, 1, 0, stream>>>(found, seen);
  launched("publish");
  checks_.push_back({what, bytes, Event()});
  checks_.back().done.record(stream);
}

void DeviceCheck::finish() {
  std::string wrong;
  for (std::size_t i = 0; i < checks_.size(); ++i) {
    checks_[i].done.wait();
    const volatile Verdict& seen = reinterpret_cast<const Verdict*>(seen_.data())[i];
    if (seen.checked == checks_[i].bytes && seen.wrong == 0) continue;
    if (!wrong.empty()) continue;
    wrong = text("%s: %llu of %zu bytes on the GPU differ, the first at %llu (%llu looked at)",
                 checks_[i].what.c_str(), static_cast<unsigned long long>(seen.wrong),
                 checks_[i].bytes, static_cast<unsigned long long>(seen.first),
                 static_cast<unsigned long long>(seen.checked));
  }
  checks_.clear();
  expect(wrong.empty(), "%s", wrong.c_str());
}

void put_guards(unsigned char* begin, std::size_t bytes) {
  fill_host(begin - kGuard, kGuard, {kGuardSeed, 0});
  fill_host(begin + bytes, kGuard, {kGuardSeed, kGuard});
}

void expect_guards(const unsigned char* begin, std::size_t bytes, const char* what) {
  expect_host(begin - kGuard, kGuard, {kGuardSeed, 0}, text("%s, before it", what).c_str());
  expect_host(begin + bytes, kGuard, {kGuardSeed, kGuard}, text("%s, behind it", what).c_str());
}

std::vector<std::size_t> interesting_sizes(Random& random, int random_ones) {
  std::vector<std::size_t> sizes = {1,
                                    3,
                                    4096,
                                    65537,
                                    kMiB - 1,
                                    kMiB + 1,
                                    8 * kMiB,
                                    16 * kMiB + 3,
                                    33 * kMiB - 1,
                                    64 * kMiB,
                                    96 * kMiB + 4097};
  for (int i = 0; i < random_ones; ++i) sizes.push_back(random.size_up_to(64 * kMiB));
  for (int i = 0; i < random_ones / 2; ++i) {
    sizes.push_back(random.between(16 * kMiB, 48 * kMiB));
  }
  for (std::size_t i = sizes.size(); i > 1; --i) std::swap(sizes[i - 1], sizes[random.below(i)]);
  return sizes;
}

void round_trip(cudaStream_t stream, std::size_t bytes, std::uint64_t seed) {
  HostMemory source(bytes);
  HostMemory target(bytes);
  DeviceMemory device(bytes);
  DeviceCheck check;
  fill_host(source.data(), bytes, {seed, 0});
  fill_host(target.data(), bytes, {~seed, 0});
  fill_device(stream, device.data(), bytes, {~seed, 1});
  GPU_OK(cudaMemcpyAsync(device.data(), source.data(), bytes, cudaMemcpyHostToDevice, stream));
  check.add(stream, device.data(), bytes, {seed, 0}, "copied to the GPU");
  GPU_OK(cudaMemcpyAsync(target.data(), device.data(), bytes, cudaMemcpyDeviceToHost, stream));
  GPU_OK(cudaStreamSynchronize(stream));
  check.finish();
  expect_host(target.data(), bytes, {seed, 0}, "copied back");
}

}  // namespace program
