// Bytes: both directions, sizes and offsets, every kind of call, neighbours untouched.
#include <algorithm>

#include "cases.h"
#include "gpu.cuh"

namespace program {

namespace {

constexpr std::size_t kArena = 100 * kMiB;

// How a copy is asked for.
enum class Call { kAsync, kAsyncDefaultKind, kSync, kSyncDefaultKind };

void copy(Call call, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
          cudaStream_t stream) {
  switch (call) {
    case Call::kAsync: GPU_OK(cudaMemcpyAsync(to, from, bytes, kind, stream)); break;
    case Call::kAsyncDefaultKind:
      GPU_OK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
      break;
    case Call::kSync: GPU_OK(cudaMemcpy(to, from, bytes, kind)); break;
    case Call::kSyncDefaultKind: GPU_OK(cudaMemcpy(to, from, bytes, cudaMemcpyDefault)); break;
  }
}

bool is_sync(Call call) { return call == Call::kSync || call == Call::kSyncDefaultKind; }

// Host and device memory that copies of random places use.
struct Arenas {
  HostMemory source{kArena};
  HostMemory target{kArena};
  DeviceMemory device{kArena};
  DeviceCheck check;
  Stream stream;
};

// A random place for `bytes` with room for guards.
std::size_t place(Random& random, std::size_t bytes) {
  const std::size_t most = std::min<std::size_t>(kArena - bytes - 2 * kGuard, 9000);
  return kGuard + random.below(most + 1);
}

// There and back at random places. A sync copy has read its source, or written its target, when it
// returns; an async one when the stream was waited for.
void there_and_back(Call call, Arenas& a, std::size_t bytes, Random& random) {
  const Pattern pattern{random.next(), 0};
  unsigned char* const from = a.source.data() + place(random, bytes);
  unsigned char* const to = a.target.data() + place(random, bytes);
  unsigned char* const device = a.device.data() + place(random, bytes);
  fill_host(from, bytes, pattern);
  fill_host(to, bytes, {~pattern.seed, 0});
  put_guards(to, bytes);
  fill_device(a.stream, device - kGuard, bytes + 2 * kGuard, {kGuardSeed, 0});
  if (is_sync(call)) a.stream.wait();
  copy(call, device, from, bytes, cudaMemcpyHostToDevice, a.stream);
  if (is_sync(call)) fill_host(from, bytes, {pattern.seed + 1, 0});
  const std::string what = text("%zu bytes to the GPU", bytes);
  a.check.add(a.stream, device, bytes, pattern, what);
  a.check.add(a.stream, device - kGuard, kGuard, {kGuardSeed, 0}, what + ", before it");
  a.check.add(a.stream, device + bytes, kGuard, {kGuardSeed, kGuard + bytes}, what + ", behind it");
  if (is_sync(call)) a.stream.wait();
  copy(call, to, device, bytes, cudaMemcpyDeviceToHost, a.stream);
  if (!is_sync(call)) a.stream.wait();
  a.check.finish();
  expect_host(to, bytes, pattern, text("%zu bytes to the host", bytes).c_str());
  expect_guards(to, bytes, text("%zu bytes to the host", bytes).c_str());
}

void sizes_by(Call call, Context& context, int random_sizes) {
  Arenas arenas;
  std::size_t total = 0;
  const std::vector<std::size_t> sizes = interesting_sizes(context.random, random_sizes);
  for (const std::size_t bytes : sizes) {
    there_and_back(call, arenas, bytes, context.random);
    total += bytes;
  }
  context.detail = text("%zu sizes, %zu MiB each way", sizes.size(), total / kMiB);
}

void async_copies(Context& context) { sizes_by(Call::kAsync, context, 16); }
void async_copies_default_kind(Context& context) { sizes_by(Call::kAsyncDefaultKind, context, 4); }
void sync_copies(Context& context) { sizes_by(Call::kSync, context, 12); }
void sync_copies_default_kind(Context& context) { sizes_by(Call::kSyncDefaultKind, context, 4); }

// Overlapping large copies, in order, with small ones and memsets between: the last writer of each
// byte wins.
void last_writer_wins(Context& context) {
  const std::size_t bytes = 64 * kMiB;
  HostMemory source(bytes);
  DeviceMemory device(bytes);
  Stream stream;
  DeviceCheck check;
  const Pattern first{context.random.next(), 0};
  fill_host(source.data(), bytes, first);
  GPU_OK(cudaMemsetAsync(device.data(), 0xee, bytes, stream));
  GPU_OK(cudaMemcpyAsync(device.data(), source.data(), bytes, cudaMemcpyHostToDevice, stream));
  // Shifted by 24 MiB + 5: what the first copy wrote there is overwritten.
  const std::size_t shift = 24 * kMiB + 5;
  GPU_OK(cudaMemcpyAsync(device.data() + shift, source.data(), 20 * kMiB, cudaMemcpyHostToDevice,
                         stream));
  HostMemory small(4096);
  const Pattern patch{context.random.next(), 0};
  fill_host(small.data(), 4096, patch);
  GPU_OK(cudaMemcpyAsync(device.data() + kMiB, small.data(), 4096, cudaMemcpyHostToDevice, stream));
  check.add(stream, device.data(), kMiB, first, "first copy");
  check.add(stream, device.data() + kMiB, 4096, patch, "small copy over it");
  check.add(stream, device.data() + kMiB + 4096, shift - kMiB - 4096, first.from(kMiB + 4096),
            "first copy, behind the small one");
  check.add(stream, device.data() + shift, 20 * kMiB, first, "second copy");
  check.add(stream, device.data() + shift + 20 * kMiB, bytes - shift - 20 * kMiB,
            first.from(shift + 20 * kMiB), "first copy, behind the second");
  GPU_OK(cudaMemsetAsync(device.data(), 0, bytes, stream));
  GPU_OK(
      cudaMemcpyAsync(device.data(), source.data() + 7, bytes - 7, cudaMemcpyHostToDevice, stream));
  check.add(stream, device.data(), bytes - 7, first.from(7), "third copy");
  check.finish();
}

// A host buffer that several copies read and write in turn.
void host_buffer_in_turn(Context& context) {
  const std::size_t bytes = 40 * kMiB;
  HostMemory buffer(bytes);
  DeviceMemory one(bytes);
  DeviceMemory two(bytes);
  Stream stream;
  DeviceCheck check;
  for (int round = 0; round < 4; ++round) {
    const Pattern pattern{context.random.next(), 0};
    fill_device(stream, one.data(), bytes, pattern);
    fill_device(stream, two.data(), bytes, {~pattern.seed, 0});
    GPU_OK(cudaMemcpyAsync(buffer.data(), one.data(), bytes, cudaMemcpyDeviceToHost, stream));
    GPU_OK(cudaMemcpyAsync(two.data(), buffer.data(), bytes, cudaMemcpyHostToDevice, stream));
    check.add(stream, two.data(), bytes, pattern, "through the host");
    xor_device(stream, two.data(), two.data(), bytes, 0x5a);
    GPU_OK(cudaMemcpyAsync(buffer.data(), two.data(), bytes, cudaMemcpyDeviceToHost, stream));
    stream.wait();
    check.finish();
    for (std::size_t i = 0; i < bytes; ++i) buffer.data()[i] ^= 0x5a;
    expect_host(buffer.data(), bytes, pattern, "changed on the GPU");
  }
}

// Both directions at once on streams of their own.
void both_directions(Context& context) {
  const std::size_t bytes = 96 * kMiB;
  HostMemory up(bytes);
  HostMemory down(bytes);
  DeviceMemory up_device(bytes);
  DeviceMemory down_device(bytes);
  Stream first;
  Stream second;
  DeviceCheck check;
  for (int round = 0; round < 4; ++round) {
    const Pattern pattern{context.random.next(), 0};
    fill_host(up.data(), bytes, pattern);
    fill_device(second, down_device.data(), bytes, {~pattern.seed, 3});
    GPU_OK(cudaMemcpyAsync(up_device.data(), up.data(), bytes, cudaMemcpyHostToDevice, first));
    GPU_OK(cudaMemcpyAsync(down.data(), down_device.data(), bytes, cudaMemcpyDeviceToHost, second));
    check.add(first, up_device.data(), bytes, pattern, "to the GPU");
    second.wait();
    expect_host(down.data(), bytes, {~pattern.seed, 3}, "to the host");
    check.finish();
  }
}

// More bytes than 32 bits count.
void huge_copy(Context& context) {
  const std::size_t bytes = (std::size_t{4} << 30) + 3 * kMiB + 1;
  std::size_t free_bytes = 0;
  std::size_t all = 0;
  GPU_OK(cudaMemGetInfo(&free_bytes, &all));
  if (free_bytes < bytes + (std::size_t{1} << 30)) throw Skip("the GPU has no 5 GiB free");
  HostMemory source(bytes, Host::kRegistered);
  DeviceMemory device(bytes);
  Stream stream;
  DeviceCheck check;
  const Pattern pattern{context.random.next(), 0};
  const std::size_t part = bytes / 8;
  in_threads(8, [&](int i) {
    const std::size_t begin = static_cast<std::size_t>(i) * part;
    fill_host(source.data() + begin, i == 7 ? bytes - begin : part, pattern.from(begin));
  });
  GPU_OK(cudaMemcpyAsync(device.data(), source.data(), bytes, cudaMemcpyHostToDevice, stream));
  check.add(stream, device.data(), bytes, pattern, "to the GPU");
  xor_device(stream, device.data(), device.data(), bytes, 0xff);
  GPU_OK(cudaMemcpyAsync(source.data(), device.data(), bytes, cudaMemcpyDeviceToHost, stream));
  xor_device(stream, device.data(), device.data(), bytes, 0xff);
  GPU_OK(cudaMemcpyAsync(device.data(), source.data(), bytes, cudaMemcpyHostToDevice, stream));
  xor_device(stream, device.data(), device.data(), bytes, 0xff);
  check.add(stream, device.data(), bytes, pattern, "to the host and back");
  check.finish();
}

// What the runtime says to wrong arguments; run.py compares the line with the bare program's.
void errors_are_the_same(Context& context) {
  const std::size_t bytes = 32 * kMiB;
  HostMemory host(bytes);
  DeviceMemory device(bytes);
  Stream stream;
  const auto say = [&](cudaError_t status) {
    context.detail += " " + std::to_string(static_cast<int>(status));
    (void)cudaGetLastError();
  };
  say(cudaMemcpyAsync(nullptr, host.data(), bytes, cudaMemcpyHostToDevice, stream));
  say(cudaMemcpyAsync(device.data(), nullptr, bytes, cudaMemcpyHostToDevice, stream));
  say(cudaMemcpyAsync(device.data(), host.data(), bytes, static_cast<cudaMemcpyKind>(99), stream));
  say(cudaMemcpyAsync(device.data(), host.data(), 0, cudaMemcpyHostToDevice, stream));
  say(cudaMemcpyAsync(device.data(), host.data(), bytes, cudaMemcpyDeviceToHost, stream));
  say(cudaMemcpyAsync(host.data(), device.data(), bytes, cudaMemcpyHostToDevice, stream));
  say(cudaMemcpy(nullptr, host.data(), bytes, cudaMemcpyHostToDevice));
  say(cudaMemcpy(device.data(), host.data(), 0, cudaMemcpyHostToDevice));
  stream.wait();
  round_trip(stream, bytes, context.random.next());
}

// Beyond the end of the GPU's memory; compared as well.
void oversized_copies_are_refused(Context& context) {
  const std::size_t bytes = 32 * kMiB;
  HostMemory host(2 * bytes);
  DeviceMemory device(bytes);
  Stream stream;
  const cudaError_t up =
      cudaMemcpyAsync(device.data(), host.data(), 2 * bytes, cudaMemcpyHostToDevice, stream);
  const cudaError_t down =
      cudaMemcpyAsync(host.data(), device.data(), 2 * bytes, cudaMemcpyDeviceToHost, stream);
  (void)cudaGetLastError();
  context.detail = text("%d %d", static_cast<int>(up), static_cast<int>(down));
}

// Copies leave the calling thread's state as it was.
void state_is_left_alone(Context& context) {
  Stream stream;
  void* nothing = nullptr;
  const cudaError_t refused = cudaMalloc(&nothing, std::size_t{1} << 60);
  expect(refused != cudaSuccess, "2^60 bytes were given");
  HostMemory host(48 * kMiB);
  DeviceMemory device(48 * kMiB);
  (void)cudaMalloc(&nothing, std::size_t{1} << 60);
  GPU_OK(cudaMemcpyAsync(device.data(), host.data(), 48 * kMiB, cudaMemcpyHostToDevice, stream));
  GPU_OK(cudaMemcpyAsync(host.data(), device.data(), 48 * kMiB, cudaMemcpyDeviceToHost, stream));
  stream.wait();
  const cudaError_t left = cudaGetLastError();
  expect(left == refused, "the last error was %s, and is %s after copies",
         error_words(refused).c_str(), error_words(left).c_str());
  expect(cudaGetLastError() == cudaSuccess, "an error is left");
  int device_now = -1;
  GPU_OK(cudaGetDevice(&device_now));
  expect(device_now == 0, "the current device is %d", device_now);
  context.detail = error_words(left);
}

}  // namespace

Cases copy_cases() {
  return {{"async_copies", async_copies},
          {"async_copies_default_kind", async_copies_default_kind},
          {"sync_copies", sync_copies},
          {"sync_copies_default_kind", sync_copies_default_kind},
          {"last_writer_wins", last_writer_wins},
          {"host_buffer_in_turn", host_buffer_in_turn},
          {"both_directions", both_directions},
          {"huge_copy", huge_copy, 1, Run::kAlone},
          {"errors_are_the_same", errors_are_the_same},
          {"oversized_copies_are_refused", oversized_copies_are_refused, 1, Run::kAlone},
          {"state_is_left_alone", state_is_left_alone}};
}

}  // namespace program
