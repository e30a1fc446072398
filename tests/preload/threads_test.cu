// Several host threads; several GPUs.
#include "cases.h"
#include "gpu.cuh"

namespace program {

namespace {

constexpr std::size_t kBytes = 32 * kMiB;

// Rounds of copies and checks on `stream`, by the calling thread.
void rounds(cudaStream_t stream, int count, Random random) {
  HostMemory host(kBytes);
  HostMemory back(kBytes);
  DeviceMemory device(kBytes);
  DeviceCheck check;
  for (int round = 0; round < count; ++round) {
    const Pattern pattern{random.next(), 0};
    const std::size_t bytes = random.between(kBytes / 2, kBytes);
    fill_host(host.data(), bytes, pattern);
    fill_host(back.data(), bytes, {~pattern.seed, 0});
    const Event copied;
    GPU_OK(cudaMemcpyAsync(device.data(), host.data(), bytes, cudaMemcpyHostToDevice, stream));
    check.add(stream, device.data(), bytes, pattern, "by a thread");
    GPU_OK(cudaMemcpyAsync(back.data(), device.data(), bytes, cudaMemcpyDeviceToHost, stream));
    copied.record(stream);
    copied.wait();
    check.finish();
    expect_host(back.data(), bytes, pattern, "by a thread");
  }
}

void threads_with_own_streams(Context& context) {
  const std::uint64_t seed = context.random.next();
  in_threads(8, [seed](int thread) {
    const Stream stream;
    rounds(stream, 6, Random(seed + static_cast<std::uint64_t>(thread)));
  });
}

void threads_share_a_stream(Context& context) {
  const std::uint64_t seed = context.random.next();
  const Stream stream;
  in_threads(4, [seed, &stream](int thread) {
    rounds(stream, 5, Random(seed + static_cast<std::uint64_t>(thread)));
  });
}

// cudaMemcpy from many threads at once.
void threads_with_sync_copies(Context& context) {
  const std::uint64_t seed = context.random.next();
  in_threads(6, [seed](int thread) {
    HostMemory host(kBytes);
    DeviceMemory device(kBytes);
    Random random(seed + static_cast<std::uint64_t>(thread));
    for (int round = 0; round < 6; ++round) {
      const Pattern pattern{random.next(), 0};
      fill_host(host.data(), kBytes, pattern);
      GPU_OK(cudaMemcpy(device.data(), host.data(), kBytes, cudaMemcpyHostToDevice));
      fill_host(host.data(), kBytes, {~pattern.seed, 0});
      GPU_OK(cudaMemcpy(host.data(), device.data(), kBytes, cudaMemcpyDeviceToHost));
      expect_host(host.data(), kBytes, pattern, "by cudaMemcpy of a thread");
    }
  });
}

// Threads that come and go, each with a copy or two.
void threads_come_and_go(Context& context) {
  const Stream stream;
  for (int generation = 0; generation < 6; ++generation) {
    const std::uint64_t seed = context.random.next();
    in_threads(4, [seed, &stream](int thread) {
      rounds(stream, 1, Random(seed + static_cast<std::uint64_t>(thread)));
    });
  }
}

void all_gpus_at_once(Context& context) {
  const std::uint64_t seed = context.random.next();
  in_threads(context.gpus, [seed](int gpu) {
    GPU_OK(cudaSetDevice(gpu));
    load_kernels();
    const Stream stream;
    rounds(stream, 10, Random(seed + static_cast<std::uint64_t>(gpu)));
    int device = -1;
    GPU_OK(cudaGetDevice(&device));
    expect(device == gpu, "a thread of GPU %d is on GPU %d", gpu, device);
  });
  context.detail = text("%d GPUs", context.gpus);
}

// Copies of a GPU that is not the current one: by stream, and by addresses alone.
void another_gpu_is_current(Context& context) {
  for (int target = 0; target < 2; ++target) {
    GPU_OK(cudaSetDevice(target));
    load_kernels();
    HostMemory host(kBytes);
    DeviceMemory device(kBytes);
    DeviceCheck check;
    Stream stream;
    const Pattern pattern{context.random.next(), 0};
    fill_host(host.data(), kBytes, pattern);
    GPU_OK(cudaSetDevice(1 - target));
    GPU_OK(cudaMemcpyAsync(device.data(), host.data(), kBytes, cudaMemcpyHostToDevice, stream));
    stream.wait();
    fill_host(host.data(), kBytes, {~pattern.seed, 0});
    GPU_OK(cudaMemcpy(host.data(), device.data(), kBytes, cudaMemcpyDefault));
    expect_host(host.data(), kBytes, pattern, "from a GPU that is not current");
    GPU_OK(cudaMemcpy(device.data(), host.data(), kBytes, cudaMemcpyDefault));
    int now = -1;
    GPU_OK(cudaGetDevice(&now));
    expect(now == 1 - target, "the current GPU was %d and is %d", 1 - target, now);
    GPU_OK(cudaSetDevice(target));
    check.add(stream, device.data(), kBytes, pattern, "to a GPU that is not current");
    check.finish();
  }
  GPU_OK(cudaSetDevice(0));
}

// Copies between GPUs, between copies from and to the host.
void copies_between_gpus(Context& context) {
  DeviceMemory near(kBytes);
  GPU_OK(cudaSetDevice(1));
  DeviceMemory far(kBytes);
  GPU_OK(cudaSetDevice(0));
  HostMemory host(kBytes);
  const Stream stream;
  for (int round = 0; round < 4; ++round) {
    const Pattern pattern{context.random.next(), 0};
    fill_host(host.data(), kBytes, pattern);
    GPU_OK(cudaMemcpyAsync(near.data(), host.data(), kBytes, cudaMemcpyHostToDevice, stream));
    GPU_OK(cudaMemcpyPeerAsync(far.data(), 1, near.data(), 0, kBytes, stream));
    GPU_OK(cudaMemsetAsync(near.data(), 0, kBytes, stream));
    GPU_OK(cudaMemcpyAsync(near.data(), far.data(), kBytes, cudaMemcpyDefault, stream));
    GPU_OK(cudaMemcpyAsync(host.data(), near.data(), kBytes, cudaMemcpyDeviceToHost, stream));
    stream.wait();
    expect_host(host.data(), kBytes, pattern, "by way of another GPU");
  }
}

// The program's own peer access is its own: enabling it works as if nobody else had.
void peer_access_is_the_programs(Context& context) {
  int possible = 0;
  GPU_OK(cudaDeviceCanAccessPeer(&possible, 0, 1));
  if (possible == 0) throw Skip("GPU 0 cannot access GPU 1");
  const Stream stream;
  round_trip(stream, 64 * kMiB, context.random.next());
  const cudaError_t disabled = cudaDeviceDisablePeerAccess(1);
  expect(disabled == cudaErrorPeerAccessNotEnabled, "disabling what is not enabled: %s",
         error_words(disabled).c_str());
  (void)cudaGetLastError();
  const cudaError_t enabled = cudaDeviceEnablePeerAccess(1, 0);
  expect(enabled == cudaSuccess, "enabling: %s", error_words(enabled).c_str());
  round_trip(stream, 64 * kMiB, context.random.next());
  GPU_OK(cudaDeviceDisablePeerAccess(1));
  round_trip(stream, 64 * kMiB, context.random.next());
}

// All memory of the current GPU but less than 2 MiB.
std::vector<DeviceMemory> all_memory() {
  std::vector<DeviceMemory> taken;
  for (std::size_t bytes = std::size_t{64} << 30; bytes >= kMiB; bytes /= 2) {
    try {
      for (;;) taken.emplace_back(bytes);
    } catch (const Wrong&) {
      (void)cudaGetLastError();
    }
  }
  return taken;
}

// The GPUs that could help are full before the first copy, and again later.
void relays_without_memory(Context& context) {
  const auto fill_others = [&context] {
    std::vector<std::vector<DeviceMemory>> taken;
    for (int gpu = 1; gpu < context.gpus; ++gpu) {
      GPU_OK(cudaSetDevice(gpu));
      taken.push_back(all_memory());
    }
    GPU_OK(cudaSetDevice(0));
    return taken;
  };
  const Stream stream;
  for (int round = 0; round < 2; ++round) {
    {
      const auto taken = fill_others();
      for (int i = 0; i < 4; ++i) round_trip(stream, 64 * kMiB, context.random.next());
      std::size_t blocks = 0;
      for (const auto& of_gpu : taken) blocks += of_gpu.size();
      context.detail = text("%zu blocks taken", blocks);
    }
    for (int i = 0; i < 4; ++i) round_trip(stream, 64 * kMiB, context.random.next());
  }
}

// What copies cost other GPUs, where this program has contexts already.
void little_memory_of_other_gpus(Context& context) {
  std::vector<std::size_t> before(static_cast<std::size_t>(context.gpus));
  std::size_t all = 0;
  for (int gpu = context.gpus - 1; gpu >= 0; --gpu) {
    GPU_OK(cudaSetDevice(gpu));
    GPU_OK(cudaFree(nullptr));
    GPU_OK(cudaMemGetInfo(&before[static_cast<std::size_t>(gpu)], &all));
  }
  const Stream stream;
  for (int i = 0; i < 3; ++i) round_trip(stream, 256 * kMiB, context.random.next());
  for (int gpu = 1; gpu < context.gpus; ++gpu) {
    GPU_OK(cudaSetDevice(gpu));
    std::size_t now = 0;
    GPU_OK(cudaMemGetInfo(&now, &all));
    const double lost =
        (static_cast<double>(before[static_cast<std::size_t>(gpu)]) - static_cast<double>(now)) /
        static_cast<double>(kMiB);
    context.detail += text(" GPU %d: %.0f MiB", gpu, lost);
    expect(lost <= 64, "copies of GPU 0 took %.0f MiB of GPU %d", lost, gpu);
  }
  GPU_OK(cudaSetDevice(0));
}

}  // namespace

Cases thread_cases() {
  return {{"threads_with_own_streams", threads_with_own_streams},
          {"threads_share_a_stream", threads_share_a_stream},
          {"threads_with_sync_copies", threads_with_sync_copies},
          {"threads_come_and_go", threads_come_and_go},
          {"all_gpus_at_once", all_gpus_at_once, 2},
          {"another_gpu_is_current", another_gpu_is_current, 2},
          {"copies_between_gpus", copies_between_gpus, 2},
          {"peer_access_is_the_programs", peer_access_is_the_programs, 2, Run::kAlone},
          {"relays_without_memory", relays_without_memory, 2, Run::kExclusive},
          {"little_memory_of_other_gpus", little_memory_of_other_gpus, 2, Run::kExclusive}};
}

}  // namespace program
