// Stream order: a copy sees what comes before it in its stream, and what comes behind sees the
// copy.
#include <atomic>
#include <memory>

#include "cases.h"
#include "gpu.cuh"

namespace program {

namespace {

constexpr std::size_t kBytes = 48 * kMiB;
constexpr std::size_t kSmall = 4096;

// One pair of buffers and a stream.
struct Lane {
  explicit Lane(std::size_t bytes = kBytes, int priority = 0)
      : host(bytes), device(bytes), stream(cudaStreamNonBlocking, priority) {}

  HostMemory host;
  DeviceMemory device;
  Stream stream;

  void up() const {
    GPU_OK(
        cudaMemcpyAsync(device.data(), host.data(), host.bytes(), cudaMemcpyHostToDevice, stream));
  }
  void down() const {
    GPU_OK(
        cudaMemcpyAsync(host.data(), device.data(), host.bytes(), cudaMemcpyDeviceToHost, stream));
  }
};

// A slow kernel makes what is copied to the host.
void kernel_before(Context& context) {
  Lane lane;
  for (int round = 0; round < 6; ++round) {
    const Pattern pattern{context.random.next(), 0};
    fill_host(lane.host.data(), kBytes, {~pattern.seed, 0});
    fill_device(lane.stream, lane.device.data(), kBytes, {~pattern.seed, 9});
    spin(lane.stream, round % 2 == 0 ? 25 : 1);
    fill_device(lane.stream, lane.device.data(), kBytes, pattern);
    lane.down();
    // What comes behind the copy must not reach it.
    fill_device(lane.stream, lane.device.data(), kBytes, {~pattern.seed, 11});
    lane.stream.wait();
    expect_host(lane.host.data(), kBytes, pattern, "made by a kernel");
  }
}

// A kernel reads what was copied, then the copy's target is used for something else.
void kernel_after(Context& context) {
  Lane lane;
  DeviceCheck check;
  for (int round = 0; round < 6; ++round) {
    const Pattern pattern{context.random.next(), 0};
    fill_host(lane.host.data(), kBytes, pattern);
    fill_device(lane.stream, lane.device.data(), kBytes, {~pattern.seed, 9});
    spin(lane.stream, round % 2 == 0 ? 25 : 1);
    lane.up();
    check.add(lane.stream, lane.device.data(), kBytes, pattern, "read by a kernel");
    fill_device(lane.stream, lane.device.data(), kBytes, {~pattern.seed, 11});
    check.finish();
  }
}

// Up, change, down, on three streams, host buffers reused as soon as events say so.
void pipeline(Context& context) {
  std::vector<Lane> lanes;
  std::vector<Event> done;
  std::vector<Pattern> patterns(3);
  for (int i = 0; i < 3; ++i) {
    lanes.emplace_back();
    done.emplace_back();
  }
  const auto finish = [&](std::size_t i) {
    done[i].wait();
    unsigned char* const host = lanes[i].host.data();
    for (std::size_t at = 0; at < kBytes; ++at) host[at] ^= 0x33;
    expect_host(host, kBytes, patterns[i], "through the pipeline");
  };
  for (std::size_t step = 0; step < 12; ++step) {
    const std::size_t i = step % 3;
    if (step >= 3) finish(i);
    patterns[i] = {context.random.next(), step};
    fill_host(lanes[i].host.data(), kBytes, patterns[i]);
    lanes[i].up();
    xor_device(lanes[i].stream, lanes[i].device.data(), lanes[i].device.data(), kBytes, 0x33);
    lanes[i].down();
    done[i].record(lanes[i].stream);
  }
  for (std::size_t i = 0; i < 3; ++i) finish(i);
}

// An event behind a copy, waited for by other streams.
void events_behind_copies(Context& context) {
  Lane lane;
  HostMemory target(kBytes);
  Stream reader;
  Stream writer;
  DeviceCheck check;
  const Event copied;
  const Event back;
  for (int round = 0; round < 6; ++round) {
    const Pattern pattern{context.random.next(), 0};
    fill_host(lane.host.data(), kBytes, pattern);
    spin(lane.stream, 5);
    lane.up();
    copied.record(lane.stream);
    copied.make_wait(reader);
    check.add(reader, lane.device.data(), kBytes, pattern, "read in another stream");
    copied.make_wait(writer);
    GPU_OK(
        cudaMemcpyAsync(target.data(), lane.device.data(), kBytes, cudaMemcpyDeviceToHost, writer));
    back.record(writer);
    back.make_wait(lane.stream);
    reader.wait();
    fill_device(lane.stream, lane.device.data(), kBytes, {~pattern.seed, 0});
    back.wait();
    expect_host(target.data(), kBytes, pattern, "copied back in another stream");
    check.finish();
    lane.stream.wait();
  }
}

// A copy behind an event of another stream, where a slow kernel makes its source.
void events_before_copies(Context& context) {
  Lane lane;
  Stream maker;
  const Event made;
  for (int round = 0; round < 6; ++round) {
    const Pattern pattern{context.random.next(), 0};
    fill_device(maker, lane.device.data(), kBytes, {~pattern.seed, 0});
    spin(maker, 20);
    fill_device(maker, lane.device.data(), kBytes, pattern);
    made.record(maker);
    made.make_wait(lane.stream);
    lane.down();
    // Recorded again: the copy waits for the first record only.
    made.record(maker);
    lane.stream.wait();
    expect_host(lane.host.data(), kBytes, pattern, "made in another stream");
  }
}

// Copies behind a kernel that does not end yet: the calls return, nothing moves, queries say so.
void calls_return_at_once(Context& context) {
  Lane lane;
  HostMemory target(kBytes);
  DeviceCheck check;
  const Pattern pattern{context.random.next(), 0};
  fill_host(lane.host.data(), kBytes, {~pattern.seed, 0});
  fill_device(lane.stream, lane.device.data(), kBytes, {~pattern.seed, 1});
  lane.stream.wait();
  const Event behind;
  Hold hold(lane.stream);
  const double begin = seconds_now();
  lane.up();
  GPU_OK(cudaMemcpyAsync(target.data(), lane.device.data(), kBytes, cudaMemcpyDeviceToHost,
                         lane.stream));
  behind.record(lane.stream);
  const double took = seconds_now() - begin;
  expect(took < 5, "two copies behind a kernel took %.1f s to be queued", took);
  expect(is_pending(lane.stream), "the stream is said to be idle");
  expect(is_pending(behind), "the event is said to be done");
  // Written after the call and before the copy may begin: this is what travels.
  fill_host(lane.host.data(), kBytes, pattern);
  hold.release();
  behind.wait();
  expect(!is_pending(behind), "the event is not done");
  lane.stream.wait();
  expect(!is_pending(lane.stream), "the stream is not idle");
  expect_host(target.data(), kBytes, pattern, "written before the copy could begin");
  context.detail = text("queued in %.0f us", 1e6 * took);
}

// While a kernel holds one stream, copies of others go on.
void independent_streams_progress(Context& context) {
  Lane lane;
  DeviceCheck check;
  Stream held;
  const Pattern pattern{context.random.next(), 0};
  fill_host(lane.host.data(), kBytes, pattern);
  const Hold hold(held);
  const double begin = seconds_now();
  for (int round = 0; round < 3; ++round) {
    lane.up();
    check.add(lane.stream, lane.device.data(), kBytes, pattern, "beside a held stream");
    lane.down();
    lane.stream.wait();
  }
  expect(is_pending(held), "the held stream has ended before (%.1f s)", seconds_now() - begin);
  check.finish();
  expect_host(lane.host.data(), kBytes, pattern, "beside a held stream");
}

// Copies that may begin only after a long while: nobody's patience may run out.
void copies_wait_long_for_their_start(Context& context) {
  Lane lane;
  HostMemory target(kBytes);
  const Pattern pattern{context.random.next(), 0};
  fill_host(lane.host.data(), kBytes, pattern);
  fill_device(lane.stream, lane.device.data(), kBytes, {~pattern.seed, 0});
  spin(lane.stream, 12000);
  lane.up();
  GPU_OK(cudaMemcpyAsync(target.data(), lane.device.data(), kBytes, cudaMemcpyDeviceToHost,
                         lane.stream));
  lane.stream.wait();
  expect_host(target.data(), kBytes, pattern, "after twelve seconds");
}

// Calls that wait in the driver for copies which begin late: longer than the library waits for
// streams of which it does not know that the driver would.
void calls_wait_for_late_copies(Context& context) {
  const auto late_copy = [&](Lane& lane) {
    const Pattern pattern{context.random.next(), 0};
    fill_host(lane.host.data(), kBytes, pattern);
    spin(lane.stream, 2500);
    lane.up();
    return pattern;
  };
  Lane lane;
  HostMemory pageable(kBytes, Host::kPageable);
  HostMemory pinned(kBytes);
  const Pattern first = late_copy(lane);
  GPU_OK(cudaMemcpyAsync(pageable.data(), lane.device.data(), kBytes, cudaMemcpyDeviceToHost,
                         lane.stream));
  expect_host(pageable.data(), kBytes, first, "pageable memory");

  const Pattern second = late_copy(lane);
  GPU_OK(cudaMemcpyAsync(pinned.data(), lane.host.data(), kBytes, cudaMemcpyHostToHost,
                         lane.stream));
  expect_host(pinned.data(), kBytes, second, "a copy within the host");

  const Pattern third = late_copy(lane);
  const Event copied;
  copied.record(lane.stream);
  copied.make_wait(nullptr);
  GPU_OK(cudaMemcpy(pinned.data(), lane.device.data(), kSmall, cudaMemcpyDeviceToHost));
  expect_host(pinned.data(), kSmall, third, "a small copy that the caller waits for");

  const Pattern fourth = late_copy(lane);
  DeviceMemory(kMiB).release();
  GPU_OK(cudaMemcpyAsync(pinned.data(), lane.device.data(), kBytes, cudaMemcpyDeviceToHost,
                         lane.stream));
  lane.stream.wait();
  expect_host(pinned.data(), kBytes, fourth, "behind the freeing of memory");
}

struct Rewrite {
  unsigned char* memory;
  Pattern before;
  Pattern after;
  std::atomic<bool> right{false};
};

void rewrite(void* argument) {
  auto* const job = static_cast<Rewrite*>(argument);
  job->right = first_wrong(job->memory, kBytes, job->before) == kBytes;
  fill_host(job->memory, kBytes, job->after);
}

// A host function between two copies checks what the first brought and rewrites what the second
// takes.
void host_function_between_copies(Context& context) {
  Lane lane;
  DeviceCheck check;
  for (int round = 0; round < 4; ++round) {
    const std::uint64_t seed = context.random.next();
    Rewrite job{lane.host.data(), {seed, 0}, {seed, 5}};
    fill_host(lane.host.data(), kBytes, {~seed, 0});
    fill_device(lane.stream, lane.device.data(), kBytes, job.before);
    lane.down();
    GPU_OK(cudaLaunchHostFunc(lane.stream, rewrite, &job));
    lane.up();
    check.add(lane.stream, lane.device.data(), kBytes, job.after, "rewritten by a host function");
    lane.stream.wait();
    expect(job.right, "a host function did not see what was copied before it");
    check.finish();
  }
}

struct Gate {
  std::atomic<bool> open{false};
  std::atomic<bool> in_time{false};
};

// Waits, in a callback's thread, until the main thread opens the gate; ten seconds at most.
void wait_at_gate(void* argument) {
  auto* const gate = static_cast<Gate*>(argument);
  const double end = seconds_now() + 10;
  while (!gate->open && seconds_now() < end) {
  }
  gate->in_time = gate->open.load();
}

// A host function of one stream lasts until a copy of another stream is done.
void host_function_waits_for_copy(Context& context) {
  Lane lane;
  DeviceCheck check;
  Stream other;
  const Pattern pattern{context.random.next(), 0};
  fill_host(lane.host.data(), kBytes, pattern);
  Gate gate;
  GPU_OK(cudaLaunchHostFunc(other, wait_at_gate, &gate));
  lane.up();
  check.add(lane.stream, lane.device.data(), kBytes, pattern, "beside a host function");
  lane.stream.wait();
  gate.open = true;
  other.wait();
  check.finish();  // late or not, the bytes are right
  expect(gate.in_time, "a copy waited for another stream's host function");
}

void priorities(Context& context) {
  int least = 0;
  int greatest = 0;
  GPU_OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  std::vector<std::unique_ptr<Lane>> lanes;
  for (int i = 0; i < 4; ++i) {
    lanes.push_back(std::make_unique<Lane>(kBytes, i % 2 == 0 ? least : greatest));
  }
  DeviceCheck check;
  for (std::size_t round = 0; round < 3; ++round) {
    const std::uint64_t seed = context.random.next();
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      fill_host(lanes[i]->host.data(), kBytes, {seed, i});
      lanes[i]->up();
      check.add(lanes[i]->stream, lanes[i]->device.data(), kBytes, {seed, i}, "by priority");
      lanes[i]->down();
    }
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      lanes[i]->stream.wait();
      expect_host(lanes[i]->host.data(), kBytes, {seed, i}, "by priority");
    }
    check.finish();
  }
  context.detail = text("priorities %d and %d", least, greatest);
}

// Events around copies tell a time that the copies can have taken.
void elapsed_time(Context& context) {
  const std::size_t bytes = 256 * kMiB;
  Lane lane(bytes);
  const Event begin(cudaEventDefault);
  const Event end(cudaEventDefault);
  for (const bool up : {true, false, true, false}) {
    const double wall_begin = seconds_now();
    begin.record(lane.stream);
    up ? lane.up() : lane.down();
    end.record(lane.stream);
    end.wait();
    const double wall_ms = 1e3 * (seconds_now() - wall_begin);
    float ms = 0;
    GPU_OK(cudaEventElapsedTime(&ms, begin, end));
    expect(ms > static_cast<double>(bytes) / 2e9 && ms < wall_ms + 0.1,
           "events say %.3f ms for %zu MiB, the host's clock %.3f", static_cast<double>(ms),
           bytes / kMiB, wall_ms);
    context.detail +=
        text(" %s %.1f GB/s", up ? "H2D" : "D2H", static_cast<double>(bytes) / ms / 1e6);
  }
}

}  // namespace

Cases order_cases() {
  return {{"kernel_before", kernel_before},
          {"kernel_after", kernel_after},
          {"pipeline", pipeline},
          {"events_behind_copies", events_behind_copies},
          {"events_before_copies", events_before_copies},
          {"calls_return_at_once", calls_return_at_once},
          {"independent_streams_progress", independent_streams_progress},
          {"copies_wait_long_for_their_start", copies_wait_long_for_their_start, 1, Run::kAlone},
          {"calls_wait_for_late_copies", calls_wait_for_late_copies, 1, Run::kAlone},
          {"host_function_between_copies", host_function_between_copies},
          {"host_function_waits_for_copy", host_function_waits_for_copy},
          {"priorities", priorities},
          {"elapsed_time", elapsed_time}};
}

}  // namespace program
