// The default streams: this build's own (legacy, or per thread), and both by their names.
#include "cases.h"
#include "gpu.cuh"

namespace program {

namespace {

constexpr std::size_t kBytes = 48 * kMiB;

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
constexpr bool kPerThread = true;
#else
constexpr bool kPerThread = false;
#endif

struct Buffers {
  HostMemory host{kBytes};
  DeviceMemory device{kBytes};
};

// Without any stream named: a slow kernel, then sync copies of what it made; then an async copy and
// a kernel that reads it.
void unnamed_stream(Context& context) {
  Buffers b;
  DeviceCheck check;
  for (int round = 0; round < 4; ++round) {
    const Pattern pattern{context.random.next(), 0};
    fill_device(nullptr, b.device.data(), kBytes, {~pattern.seed, 0});
    spin(nullptr, 20);
    fill_device(nullptr, b.device.data(), kBytes, pattern);
    GPU_OK(cudaMemcpy(b.host.data(), b.device.data(), kBytes, cudaMemcpyDeviceToHost));
    expect_host(b.host.data(), kBytes, pattern, "copied by cudaMemcpy");
    fill_host(b.host.data(), kBytes, pattern.from(3));
    spin(nullptr, 5);
    GPU_OK(cudaMemcpyAsync(b.device.data(), b.host.data(), kBytes, cudaMemcpyHostToDevice));
    check.add(nullptr, b.device.data(), kBytes, pattern.from(3), "copied on the unnamed stream");
    check.finish();
    fill_host(b.host.data(), kBytes, pattern.from(5));
    GPU_OK(cudaMemcpy(b.device.data(), b.host.data(), kBytes, cudaMemcpyHostToDevice));
    fill_host(b.host.data(), kBytes, pattern.from(6));
    check.add(nullptr, b.device.data(), kBytes, pattern.from(5), "copied by cudaMemcpy");
    check.finish();
  }
  context.detail = kPerThread ? "per thread" : "legacy";
}

// The legacy stream waits for all blocking streams, and they for it, without events.
void legacy_stream(Context& context) {
  Buffers b;
  DeviceCheck check;
  Stream before(cudaStreamDefault);
  Stream behind(cudaStreamDefault);
  for (int round = 0; round < 4; ++round) {
    const Pattern pattern{context.random.next(), 0};
    fill_device(before, b.device.data(), kBytes, {~pattern.seed, 0});
    spin(before, 20);
    fill_device(before, b.device.data(), kBytes, pattern);
    GPU_OK(cudaMemcpyAsync(b.host.data(), b.device.data(), kBytes, cudaMemcpyDeviceToHost,
                           cudaStreamLegacy));
    fill_device(behind, b.device.data(), kBytes, {~pattern.seed, 1});
    behind.wait();
    expect_host(b.host.data(), kBytes, pattern, "made in a blocking stream");
    fill_host(b.host.data(), kBytes, pattern.from(9));
    GPU_OK(cudaMemcpyAsync(b.device.data(), b.host.data(), kBytes, cudaMemcpyHostToDevice,
                           cudaStreamLegacy));
    check.add(behind, b.device.data(), kBytes, pattern.from(9), "read in a blocking stream");
    check.finish();
  }
}

// cudaMemcpy of a program with legacy default streams waits for other blocking streams' work.
void sync_copy_waits_for_blocking_streams(Context& context) {
  if (kPerThread) throw Skip("cudaMemcpy of this program uses the thread's own stream");
  Buffers b;
  Stream maker(cudaStreamDefault);
  for (int round = 0; round < 3; ++round) {
    const Pattern pattern{context.random.next(), 0};
    fill_device(maker, b.device.data(), kBytes, {~pattern.seed, 0});
    spin(maker, 25);
    fill_device(maker, b.device.data(), kBytes, pattern);
    GPU_OK(cudaMemcpy(b.host.data(), b.device.data(), kBytes, cudaMemcpyDefault));
    expect_host(b.host.data(), kBytes, pattern, "made in a blocking stream");
  }
}

// Streams that do not block: neither waits for the other.
void non_blocking_streams(Context& context) {
  Buffers b;
  DeviceCheck check;
  Stream free_stream;
  const Pattern pattern{context.random.next(), 0};
  fill_host(b.host.data(), kBytes, pattern);
  for (const bool legacy_held : {true, false}) {
    const cudaStream_t held = legacy_held ? cudaStreamLegacy : free_stream;
    const cudaStream_t used = legacy_held ? free_stream : cudaStreamLegacy;
    const Hold hold(held);
    GPU_OK(cudaMemcpyAsync(b.device.data(), b.host.data(), kBytes, cudaMemcpyHostToDevice, used));
    check.add(used, b.device.data(), kBytes, pattern, "beside a held stream");
    GPU_OK(cudaMemcpyAsync(b.host.data(), b.device.data(), kBytes, cudaMemcpyDeviceToHost, used));
    GPU_OK(cudaStreamSynchronize(used));
    expect(is_pending(held), "the held stream has ended before");
    expect_host(b.host.data(), kBytes, pattern, "beside a held stream");
    check.finish();
  }
}

// Each thread's own stream, by name and as this build's default.
void per_thread_streams(Context& context) {
  const std::uint64_t seed = context.random.next();
  in_threads(4, [seed](int thread) {
    Buffers b;
    DeviceCheck check;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const Pattern pattern{seed + static_cast<std::uint64_t>(thread) * 100 + round, 0};
      const cudaStream_t stream = round % 2 == 0 ? cudaStreamPerThread : nullptr;
      fill_host(b.host.data(), kBytes, pattern);
      spin(stream, 3);
      GPU_OK(
          cudaMemcpyAsync(b.device.data(), b.host.data(), kBytes, cudaMemcpyHostToDevice, stream));
      check.add(stream, b.device.data(), kBytes, pattern, "by a thread's stream");
      xor_device(stream, b.device.data(), b.device.data(), kBytes, 0x44);
      GPU_OK(
          cudaMemcpyAsync(b.host.data(), b.device.data(), kBytes, cudaMemcpyDeviceToHost, stream));
      GPU_OK(cudaStreamSynchronize(stream));
      for (std::size_t i = 0; i < kBytes; ++i) b.host.data()[i] ^= 0x44;
      expect_host(b.host.data(), kBytes, pattern, "back by a thread's stream");
      check.finish();
    }
  });
}

}  // namespace

Cases default_cases() {
  return {{"unnamed_stream", unnamed_stream},
          {"legacy_stream", legacy_stream},
          {"sync_copy_waits_for_blocking_streams", sync_copy_waits_for_blocking_streams},
          {"non_blocking_streams", non_blocking_streams},
          {"per_thread_streams", per_thread_streams}};
}

}  // namespace program
