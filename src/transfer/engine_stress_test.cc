// Random transfers by several threads, over several GPUs, with whatever goes wrong on the way:
// every byte that a completed transfer was to move is there, and nothing beside it has changed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/testing/rounds.h"
#include "transfer/testing/bench_machine.h"

namespace causeway::transfer::engine_stress_test {
namespace {

using device::CopyPriority;
using testing::BenchMachine;
using testing::fill;
using testing::kPatience;

constexpr int kDevices = 3;
constexpr int kThreads = 3;
constexpr Bytes kArea = mib(2);  // of each thread, in host memory and on each device

// One thread's transfers within its areas, one after the other.
class Worker {
 public:
  Worker(BenchMachine& machine, int index, std::uint64_t seed)
      : machine_(machine),
        random_(mix64(seed + static_cast<std::uint64_t>(index))),
        base_(kArea * index) {
    streams_[0] = machine_.device(0).make_stream("maker").value();
    streams_[1] = machine_.device(1).make_stream("reader").value();
    made_ = machine_.device(0).make_event().value();
    arrival_ = machine_.device(0).make_semaphore().value();
  }

  void run(int transfers) {
    for (int i = 0; i < transfers && !::testing::Test::HasFailure(); ++i) transfer();
  }

 private:
  // Scattered, of random size, in the same order in both memories.
  std::vector<Segment> segments(int target) {
    std::vector<Segment> segments;
    const bool many = random_.chance(0.3);
    const std::int64_t count = many ? random_.between(2, 200) : random_.between(1, 3);
    const std::int64_t most = kArea.count / count;
    for (std::int64_t i = 0; i < count; ++i) {
      const Bytes bytes(random_.chance(0.1) ? 0 : random_.between(1, most));
      const Bytes host = base_ + Bytes(i * most + random_.between(0, most - bytes.count));
      const Bytes device = base_ + Bytes(i * most + random_.between(0, most - bytes.count));
      segments.push_back({machine_.host(host), machine_.data(target, device), bytes});
    }
    return segments;
  }

  std::vector<std::byte> copy_of(std::span<std::byte> bytes) {
    return {bytes.begin(), bytes.end()};
  }

  void transfer() {
    const auto target = static_cast<int>(random_.below(kDevices));
    const bool in = random_.chance(0.5);
    const auto host = machine_.host_bytes(base_, kArea);
    const auto device = machine_.device_bytes(target, base_, kArea);
    const std::uint64_t fill_seed = random_.bits();
    Random other(mix64(fill_seed));
    fill(in ? device : host, other);
    std::vector<std::byte> expected = copy_of(in ? device : host);

    TransferRequest request;
    request.direction = in ? Direction::kIn : Direction::kOut;
    request.target = machine_.device(target).id();
    request.segments = segments(target);
    request.priority = static_cast<CopyPriority>(random_.below(device::kCopyPriorities));
    // The source is made by work that runs while the request is already under way.
    const auto source = in ? host : device;
    const auto make = [source, fill_seed]() -> Status {
      Random made(fill_seed);
      fill(source, made);
      return {};
    };
    const bool made_later = random_.chance(0.5);
    if (made_later) {
      std::fill(source.begin(), source.end(), std::byte{0});
      ASSERT_TRUE(streams_[0]->run(make).ok());
      ASSERT_TRUE(streams_[0]->record(*made_).ok());
      request.after = made_.get();
    } else {
      ASSERT_TRUE(make().ok());
    }
    const std::vector<Segment> segments = request.segments;
    const bool by_stream = random_.chance(0.5);
    if (by_stream) {
      request.signal = arrival_.get();
      request.signal_value = ++arrivals_;
    }
    const Completion completion = machine_.engine->submit(std::move(request)).value();
    std::vector<std::byte> arrived;
    const auto read = [&]() -> Status {
      arrived = copy_of(in ? device : host);
      return {};
    };
    if (by_stream) {
      ASSERT_TRUE(streams_[1]->wait(*arrival_, arrivals_).ok());
      ASSERT_TRUE(streams_[1]->run(read).ok());
      ASSERT_TRUE(streams_[1]->synchronize(kPatience).ok());
    }
    const Status waited = completion.wait(kPatience);
    ASSERT_TRUE(waited.ok()) << waited.error().message;
    if (!by_stream) {
      ASSERT_TRUE(read().ok());
    }
    for (const Segment& segment : segments) {
      const Bytes on_host = segment.host.offset - machine_.host(base_).offset;
      const Bytes on_device = segment.device.offset - machine_.data(target, base_).offset;
      std::memcpy(expected.data() + (in ? on_device : on_host).count,
                  source.data() + (in ? on_host : on_device).count, to_size(segment.bytes));
    }
    ASSERT_TRUE(arrived == expected) << "wrong bytes";
  }

  BenchMachine& machine_;
  Random random_;
  const Bytes base_;
  std::unique_ptr<device::Semaphore> arrival_;  // the streams go first
  std::uint32_t arrivals_ = 0;
  std::unique_ptr<device::Stream> streams_[2];
  std::unique_ptr<device::Event> made_;
};

TransferEngineOptions random_options(Random& random) {
  TransferEngineOptions options = testing::small_chunks();
  options.dispatch.depth = static_cast<int>(random.between(1, 3));
  options.dispatch.chunk_bytes = {Bytes(random.between(5'000, 80'000)),
                                  Bytes(random.between(5'000, 80'000))};
  options.dispatch.multipath_bytes_min = Bytes(random.between(0, 300'000));
  options.dispatch.direct_first = random.chance(0.8);
  options.dispatch.relay = static_cast<RelayPolicy>(random.below(4));
  for (int i = 0; i < kDevices; ++i) {
    options.dispatch.static_shares.push_back(0.1 + random.uniform());
  }
  options.dispatch.yield_for = random.chance(0.2) ? micros(200) : Nanos(0);
  options.dispatch.chunk_segments = random.between(1, 300);
  options.relay_rest = millis(2);
  return options;
}

void stress(std::uint64_t seed, bool faulty) {
  Random random(seed);
  BenchMachine machine({.devices = kDevices, .staging_bytes = mib(2)});
  PathFacts facts = assume_all_links(kDevices);
  if (random.chance(0.5)) {
    for (WayFacts& way : facts.ways) {
      for (LinkSet& best : way.best) best.bits &= random.bits();
    }
  }
  machine.start(random_options(random), facts);
  std::vector<Worker> workers;
  for (int t = 0; t < kThreads; ++t) workers.emplace_back(machine, t, seed);
  std::vector<std::thread> threads;
  for (Worker& worker : workers) threads.emplace_back([&worker] { worker.run(12); });
  // Relays fail now and then; a relayed chunk has always the direct way.
  if (faulty) {
    for (int i = 0; i < 5; ++i) {
      machine.faults(static_cast<int>(random.below(kDevices)))
          .next(testing::FaultPlan::Kind::kRefuse, 1, static_cast<int>(random.below(30)));
    }
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(EngineStress, EveryByteArrivesWhoeverAsks) {
  for (std::uint64_t seed = 1; seed <= rounds(12u); ++seed) {
    SCOPED_TRACE(seed);
    stress(seed, false);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(EngineStress, EveryByteArrivesThoughCopiesAreRefused) {
  for (std::uint64_t seed = 101; seed <= 100 + rounds(8u); ++seed) {
    SCOPED_TRACE(seed);
    stress(seed, true);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace causeway::transfer::engine_stress_test
