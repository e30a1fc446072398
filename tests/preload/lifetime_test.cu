// What goes away, or comes, while copies are under way.
#include <memory>

#include "cases.h"
#include "gpu.cuh"

namespace program {

namespace {

constexpr std::size_t kBytes = 96 * kMiB;

// Freeing a copy's GPU memory waits for the copy; freeing other memory does no harm.
void memory_is_freed_during_copies(Context& context) {
  HostMemory host(kBytes);
  const Stream stream;
  for (int round = 0; round < 6; ++round) {
    const Pattern pattern{context.random.next(), 0};
    DeviceMemory device(kBytes);
    DeviceMemory other(kBytes);
    fill_host(host.data(), kBytes, {~pattern.seed, 0});
    fill_device(stream, device.data(), kBytes, pattern);
    if (round % 2 == 0) spin(stream, 10);
    GPU_OK(cudaMemcpyAsync(host.data(), device.data(), kBytes, cudaMemcpyDeviceToHost, stream));
    if (round % 3 == 0) other.release();
    device.release();
    // Whoever gets the memory next may write to it.
    DeviceMemory next(kBytes);
    fill_device(nullptr, next.data(), kBytes, {~pattern.seed, 1});
    stream.wait();
    GPU_OK(cudaStreamSynchronize(nullptr));
    expect_host(host.data(), kBytes, pattern, "from memory that was freed at once");
  }
}

// Allocation, registration and freeing of all kinds in one thread, copies in another.
void memory_is_allocated_during_copies(Context& context) {
  const std::uint64_t seed = context.random.next();
  in_threads(2, [seed](int thread) {
    Random random(seed + static_cast<std::uint64_t>(thread));
    const double end = seconds_now() + 3;
    if (thread == 0) {
      const Stream stream;
      while (seconds_now() < end) round_trip(stream, 48 * kMiB, random.next());
      return;
    }
    while (seconds_now() < end) {
      const std::size_t bytes = random.size_up_to(32 * kMiB);
      const DeviceMemory device(bytes);
      const HostMemory pinned(bytes);
      const HostMemory registered(bytes + 4096, Host::kRegistered);
      const Stream stream;
      const Event event;
      event.record(stream);
      event.wait();
    }
  });
}

// A destroyed stream still finishes its work.
void streams_are_destroyed_with_work(Context& context) {
  HostMemory host(kBytes);
  HostMemory back(kBytes);
  DeviceMemory device(kBytes);
  DeviceMemory down_device(kBytes);
  DeviceCheck check;
  for (int round = 0; round < 6; ++round) {
    const Pattern pattern{context.random.next(), 0};
    fill_host(host.data(), kBytes, pattern);
    fill_host(back.data(), kBytes, {~pattern.seed, 0});
    {
      Stream stream;
      fill_device(stream, down_device.data(), kBytes, pattern.from(1));
      if (round % 2 == 0) spin(stream, 10);
      GPU_OK(cudaMemcpyAsync(device.data(), host.data(), kBytes, cudaMemcpyHostToDevice, stream));
      GPU_OK(
          cudaMemcpyAsync(back.data(), down_device.data(), kBytes, cudaMemcpyDeviceToHost, stream));
      stream.destroy();
    }
    const Stream next;  // may be given the same handle
    GPU_OK(cudaDeviceSynchronize());
    expect_host(back.data(), kBytes, pattern.from(1), "to the host, stream destroyed");
    check.add(next, device.data(), kBytes, pattern, "to the GPU, stream destroyed");
    check.finish();
  }
}

// An event may go while streams wait for it.
void events_are_destroyed_with_work(Context& context) {
  HostMemory host(kBytes);
  DeviceMemory device(kBytes);
  DeviceCheck check;
  const Stream copier;
  const Stream reader;
  for (int round = 0; round < 5; ++round) {
    const Pattern pattern{context.random.next(), 0};
    fill_host(host.data(), kBytes, pattern);
    {
      const Event copied;
      spin(copier, 5);
      GPU_OK(cudaMemcpyAsync(device.data(), host.data(), kBytes, cudaMemcpyHostToDevice, copier));
      copied.record(copier);
      copied.make_wait(reader);
    }
    check.add(reader, device.data(), kBytes, pattern, "behind an event that is gone");
    check.finish();
    copier.wait();
  }
}

// Waiting for the whole device waits for copies of every stream.
void device_is_waited_for(Context& context) {
  HostMemory host(kBytes);
  DeviceMemory device(kBytes);
  const Stream stream;
  for (int round = 0; round < 4; ++round) {
    const Pattern pattern{context.random.next(), 0};
    fill_device(stream, device.data(), kBytes, pattern);
    spin(stream, 10);
    GPU_OK(cudaMemcpyAsync(host.data(), device.data(), kBytes, cudaMemcpyDeviceToHost, stream));
    GPU_OK(cudaDeviceSynchronize());
    expect_host(host.data(), kBytes, pattern, "after cudaDeviceSynchronize");
  }
}

// Kernels that have never been launched are launched beside copies under way, and behind them. With
// lazy loading (the default, and CUDA_MODULE_LOADING=LAZY) each is loaded then.
void kernels_are_loaded_during_copies(Context& context) {
  HostMemory host(kBytes);
  DeviceMemory device(kBytes);
  HostMemory out(kLateKernels * sizeof(unsigned), Host::kMapped);
  auto* const marks = reinterpret_cast<unsigned*>(out.data());
  DeviceCheck check;
  const Stream stream;
  const Stream other;
  for (int i = 0; i < kLateKernels; ++i) {
    marks[i] = 0;
    const Pattern pattern{context.random.next(), 0};
    fill_host(host.data(), kBytes, pattern);
    GPU_OK(cudaMemcpyAsync(device.data(), host.data(), kBytes, cudaMemcpyHostToDevice, stream));
    GPU_OK(launch_late(i, marks + i, i % 2 == 0 ? stream : other));
    check.add(stream, device.data(), kBytes, pattern, "beside a kernel's first launch");
    check.finish();
    other.wait();
    expect(marks[i] == static_cast<unsigned>(i) + 1, "kernel %d did not run", i);
  }
}

// A new stream and a new event for every copy.
void streams_come_and_go(Context& context) {
  std::vector<std::unique_ptr<Stream>> kept;
  for (int i = 0; i < 40; ++i) {
    kept.push_back(
        std::make_unique<Stream>(i % 3 == 0 ? cudaStreamDefault : cudaStreamNonBlocking));
    if (kept.size() > 5) kept.erase(kept.begin());
    round_trip(*kept.back(), context.random.between(kMiB, 24 * kMiB), context.random.next());
  }
}

}  // namespace

Cases lifetime_cases() {
  return {{"memory_is_freed_during_copies", memory_is_freed_during_copies},
          {"memory_is_allocated_during_copies", memory_is_allocated_during_copies},
          {"streams_are_destroyed_with_work", streams_are_destroyed_with_work},
          {"events_are_destroyed_with_work", events_are_destroyed_with_work},
          {"device_is_waited_for", device_is_waited_for},
          {"kernels_are_loaded_during_copies", kernels_are_loaded_during_copies, 1, Run::kAlone},
          {"streams_come_and_go", streams_come_and_go}};
}

}  // namespace program
