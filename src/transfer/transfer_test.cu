// The transfer engine on real GPUs: random transfers between memory of which every byte is known,
// made and checked by kernels that run between the copies. One GPU is enough; relays need two.
//
//   transfer_gpu_test [--seconds N] [--seed S]     N of random stress (10); exit code 77: no GPU
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/testing/arguments.h"
#include "transfer/testing/gpu_rig.cuh"

namespace causeway::transfer {
namespace {

using device::CopyPriority;
using testing::FaultPlan;
using testing::GpuRig;
using testing::kGpuPatience;
using testing::Pieces;

constexpr int kSkipped = 77;
constexpr Nanos kProgressEvery = seconds(15);

std::string gib_text(Bytes bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes.count) / (1 << 30));
  return text;
}

// Failures, and how much was done. Each line is written at once with the seconds since the start,
// so that a run that a time limit ended shows how far it came. Thread-safe.
class Report {
 public:
  void say(const std::string& what) {
    const std::lock_guard lock(mutex_);
    std::printf("%7.1f s  %s\n", to_seconds(clock_.now() - start_), what.c_str());
    std::fflush(stdout);
  }
  void fail(const std::string& what) {
    say("WRONG: " + what);
    ++failures_;
  }
  void check(bool right, const std::string& what) {
    if (!right) fail(what);
  }
  void must(const Status& status, const std::string& what) {
    if (!status.ok()) fail(what + ": " + status.error().message);
  }
  void count(Bytes bytes) {
    ++transfers_;
    moved_ += bytes.count;
  }
  bool failed() const { return failures_.load() > 0; }
  // So far.
  std::string done() const {
    return std::to_string(transfers_.load()) + " transfers, " + gib_text(Bytes(moved_.load()));
  }

 private:
  std::atomic<std::int64_t> transfers_{0};
  std::atomic<std::int64_t> moved_{0};
  RealClock clock_;
  const Nanos start_ = clock_.now();
  std::mutex mutex_;
  std::atomic<int> failures_{0};
};

// How one transfer is asked for and looked at.
struct Ask {
  int gpu = 0;
  Direction direction = Direction::kIn;
  bool after_event = false;  // submitted while its source is still being made
  bool by_signal = false;    // a stream waits for it instead of the thread
  bool look_from_cpu = false;
  CopyPriority priority = CopyPriority::kStep;
  long long spin_cycles = 0;  // of the GPU before it makes the source
};

// Moves pieces of one area, one transfer after the other. Each thread has its own.
class Mover {
 public:
  static Result<std::unique_ptr<Mover>> make(GpuRig& rig, int area, std::uint64_t seed) {
    auto mover = std::make_unique<Mover>(rig, area, seed);
    for (int gpu = 0; gpu < rig.gpus(); ++gpu) {
      auto& on = mover->on_.emplace_back();
      CAUSEWAY_ASSIGN(on.maker, rig.device(gpu).make_stream("maker"));
      CAUSEWAY_ASSIGN(on.reader, rig.device(gpu).make_stream("reader"));
      CAUSEWAY_ASSIGN(on.made, rig.device(gpu).make_event());
      CAUSEWAY_ASSIGN(on.arrived, rig.device(gpu).make_semaphore());
    }
    return Result<std::unique_ptr<Mover>>(std::move(mover));
  }
  Mover(GpuRig& rig, int area, std::uint64_t seed)
      : rig_(rig), area_(area), random_(mix64(seed + static_cast<std::uint64_t>(area))) {}

  Random& random() { return random_; }

  // Its outcome; kCorrupt when a byte is wrong.
  Status move(const Ask& ask, const Pieces& pieces) {
    const std::uint64_t source = random_.bits(), before = random_.bits();
    CAUSEWAY_TRY(make_memory(ask, source, before));
    if (!ask.after_event) CAUSEWAY_TRY(at(ask).made->wait(kGpuPatience));
    TransferRequest asked = request(ask, pieces);
    OnGpu& on = at(ask);
    if (ask.by_signal) {
      asked.signal = on.arrived.get();
      asked.signal_value = ++on.arrivals;
    }
    CAUSEWAY_ASSIGN(const Completion completion, rig_.engine->submit(std::move(asked)));
    if (!ask.by_signal) CAUSEWAY_TRY(completion.wait(kGpuPatience).with_context("the transfer"));
    // The kernel that looks is enqueued while the bytes are still under way.
    const Status looks = [&]() -> Status {
      if (ask.by_signal) CAUSEWAY_TRY(on.reader->wait(*on.arrived, on.arrivals));
      return look(ask, pieces, source, before);
    }();
    const Status moved = completion.wait(kGpuPatience).with_context("the transfer");
    if (ask.by_signal && !moved.ok()) on.arrived->raise(on.arrivals);  // or the reader waits on
    CAUSEWAY_TRY(moved);
    CAUSEWAY_TRY(looks);
    return compare(ask, pieces, source, before);
  }

 private:
  struct OnGpu {
    std::unique_ptr<device::Semaphore> arrived;  // the streams go first
    std::uint32_t arrivals = 0;
    std::unique_ptr<device::Stream> maker;
    std::unique_ptr<device::Stream> reader;
    std::unique_ptr<device::Event> made;
  };
  OnGpu& at(const Ask& ask) { return on_[static_cast<std::size_t>(ask.gpu)]; }

  // Fills the source from seed `source`, and the target with what `before` gives.
  Status make_memory(const Ask& ask, std::uint64_t source, std::uint64_t before) {
    CAUSEWAY_ASSIGN(std::uint64_t * host, rig_.host_words(ask.gpu, area_));
    std::uint64_t* data = rig_.data_words(ask.gpu, area_);
    const bool in = ask.direction == Direction::kIn;
    const std::int64_t words = rig_.words();
    OnGpu& on = at(ask);
    CAUSEWAY_TRY(device::cuda_enqueue(*on.maker, [=](CUstream_st* s) {
      if (ask.spin_cycles > 0) testing::spin_for<<<1, 1, 0, s>>>(ask.spin_cycles);
      testing::make_known<<<256, 256, 0, s>>>(in ? host : data, words, source);
      testing::make_known<<<256, 256, 0, s>>>(in ? data : host, words, before);
      return testing::launched();
    }));
    return on.maker->record(*on.made);
  }

  TransferRequest request(const Ask& ask, const Pieces& pieces) {
    const bool in = ask.direction == Direction::kIn;
    TransferRequest request;
    request.direction = ask.direction;
    request.target = rig_.device(ask.gpu).id();
    request.priority = ask.priority;
    if (ask.after_event) request.after = at(ask).made.get();
    for (int i = 0; i < pieces.count; ++i) {
      const Bytes source(pieces.source[i]), target(pieces.target[i]);
      request.segments.push_back({rig_.host(area_, in ? source : target),
                                  rig_.data(ask.gpu, area_, in ? target : source),
                                  Bytes(pieces.bytes[i])});
    }
    return request;
  }

  // A kernel reads what was copied as soon as the stream lets it.
  Status look(const Ask& ask, const Pieces& pieces, std::uint64_t source, std::uint64_t before) {
    CAUSEWAY_ASSIGN(std::uint64_t * host, rig_.host_words(ask.gpu, area_));
    const bool in = ask.direction == Direction::kIn;
    const std::uint64_t* written = in ? rig_.data_words(ask.gpu, area_) : host;
    unsigned long long* counter = rig_.counter(ask.gpu, area_);
    const std::int64_t words = rig_.words();
    OnGpu& on = at(ask);
    CAUSEWAY_TRY(device::cuda_enqueue(*on.reader, [=](CUstream_st* s) {
      testing::set_word<<<1, 1, 0, s>>>(counter, 0);
      testing::count_wrong<<<256, 256, 0, s>>>(written, words, pieces, source, before, counter);
      return testing::launched();
    }));
    const device::Copy back = rig_.counter_to_host(ask.gpu, area_);
    return on.reader->copy({&back, 1}, CopyPriority::kStep);
  }

  // What the kernel has counted.
  Status compare(const Ask& ask, const Pieces& pieces, std::uint64_t source, std::uint64_t before) {
    CAUSEWAY_TRY(at(ask).reader->synchronize(kGpuPatience));
    const bool in = ask.direction == Direction::kIn;
    std::int64_t wrong = static_cast<std::int64_t>(rig_.counted(area_));
    if (!in && ask.look_from_cpu) {
      wrong += testing::wrong_on_host(rig_.host_bytes(area_), pieces, source, before);
    }
    if (wrong == 0) return {};
    return corrupt(std::to_string(wrong) + " bytes are wrong after a transfer " +
                   std::string(name_of(ask.direction)) + " of GPU " + std::to_string(ask.gpu) +
                   " in " + std::to_string(pieces.count) + " pieces");
  }

  GpuRig& rig_;
  const int area_;
  Random random_;
  std::vector<OnGpu> on_;
};

Bytes total(const Pieces& pieces) {
  std::int64_t bytes = 0;
  for (int i = 0; i < pieces.count; ++i) bytes += pieces.bytes[i];
  return Bytes(bytes);
}

Pieces whole(Bytes bytes) {
  Pieces pieces;
  pieces.count = 1;
  pieces.slot = bytes.count;
  pieces.source[0] = pieces.target[0] = 0;
  pieces.bytes[0] = bytes.count;
  return pieces;
}

Bytes relayed(const TransferStats& stats, int link) {
  Bytes bytes;
  for (const auto& way : stats.links[static_cast<std::size_t>(link)]) bytes += way.relayed;
  return bytes;
}
Bytes relayed(const TransferStats& stats) {
  Bytes bytes;
  for (int link = 0; link < static_cast<int>(stats.links.size()); ++link) {
    bytes += relayed(stats, link);
  }
  return bytes;
}

Ask random_ask(Random& random, int gpus) {
  Ask ask;
  ask.gpu = static_cast<int>(random.below(gpus));
  ask.direction = random.chance(0.5) ? Direction::kIn : Direction::kOut;
  ask.after_event = random.chance(0.5);
  ask.by_signal = random.chance(0.5);
  ask.look_from_cpu = random.chance(0.3);
  ask.priority = static_cast<CopyPriority>(random.below(device::kCopyPriorities));
  if (random.chance(0.3)) ask.spin_cycles = random.below(4'000'000);
  return ask;
}

TransferEngineOptions random_options(Random& random, int gpus) {
  TransferEngineOptions options;
  DispatchOptions& dispatch = options.dispatch;
  dispatch.depth = static_cast<int>(random.between(1, 3));
  const Bytes most = mib(60) / (kDirections * dispatch.depth);
  for (Bytes& bytes : dispatch.chunk_bytes) {
    bytes = Bytes(random.between(kib(300).count, std::min(mib(9), most).count));
  }
  dispatch.chunk_bytes_min = Bytes(random.between(kib(4).count, kib(300).count));
  dispatch.multipath_bytes_min = random.chance(0.3) ? Bytes(0) : Bytes(random.below(mib(12).count));
  dispatch.direct_first = random.chance(0.8);
  dispatch.relay = static_cast<RelayPolicy>(random.below(4));
  for (int link = 0; link < gpus; ++link) {
    dispatch.static_shares.push_back(0.1 + random.uniform());
  }
  dispatch.yield_for = random.chance(0.2) ? micros(300) : Nanos(0);
  dispatch.chunk_segments = random.chance(0.3) ? random.between(1, 8) : 4'096;
  options.relay_rest = millis(5);
  return options;
}

PathFacts random_facts(Random& random, int gpus) {
  PathFacts facts = assume_all_links(gpus);
  if (random.chance(0.6)) return facts;
  for (WayFacts& way : facts.ways) {
    for (LinkSet& best : way.best) best.bits &= random.bits();
  }
  return facts;
}

// Sizes around what changes the path, both ways, to every GPU.
void sizes(GpuRig& rig, Report& report) {
  report.say("sizes: begins, " + std::to_string(rig.gpus()) + " GPUs");
  if (auto started = rig.start({}); !started.ok()) return report.must(started, "sizes");
  auto mover = Mover::make(rig, 0, 1);
  if (!mover.ok()) return report.fail("sizes: " + mover.error().message);
  const std::int64_t area = rig.area_bytes().count, edge = mib(12).count;
  for (int gpu = 0; gpu < rig.gpus(); ++gpu) {
    for (const Direction direction : kBothDirections) {
      for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{4097}, kib(64).count, edge - 1,
                                       edge, edge + 1, area - 1, area}) {
        // All kernels are loaded by this: that may wait for streams, which later wait for signals.
        const Ask ask{
            .gpu = gpu, .direction = direction, .look_from_cpu = true, .spin_cycles = 1'000};
        const Pieces pieces = whole(Bytes(bytes));
        report.must((*mover)->move(ask, pieces), "sizes, " + std::to_string(bytes) + " bytes");
        report.count(Bytes(bytes));
      }
    }
  }
  const Bytes through_peers = relayed(rig.engine->stats());
  report.check(rig.gpus() == 1 || through_peers > Bytes(0), "sizes: no link relayed");
  report.say("sizes: " + report.done() + ", " + gib_text(through_peers) + " through relays");
}

// One round: an engine with random options, every area's thread for a while, now and then a copy
// that is refused.
void stress_round(GpuRig& rig, std::uint64_t seed, Nanos until, Report& report) {
  Random random(seed);
  TransferEngineOptions options = random_options(random, rig.gpus());
  PathFacts facts = random_facts(random, rig.gpus());
  if (auto started = rig.start(std::move(options), facts); !started.ok()) {
    return report.must(started, "stress");
  }
  std::vector<std::thread> threads;
  for (int area = 0; area < rig.areas(); ++area) {
    threads.emplace_back([&, area] {
      auto mover = Mover::make(rig, area, seed);
      if (!mover.ok()) return report.fail("stress: " + mover.error().message);
      while (rig.clock.now() < until && !report.failed()) {
        Random& own = (*mover)->random();
        const Ask ask = random_ask(own, rig.gpus());
        const Pieces pieces = testing::random_pieces(own, rig.area_bytes().count);
        report.must((*mover)->move(ask, pieces), "stress, round " + std::to_string(seed));
        report.count(total(pieces));
      }
    });
  }
  if (random.chance(0.5)) {
    const auto gpu = static_cast<int>(random.below(rig.gpus()));
    rig.faults(gpu).next(FaultPlan::Kind::kRefuse, 1, static_cast<int>(random.below(100)));
  }
  for (std::thread& thread : threads) thread.join();
}

void stress(GpuRig& rig, std::uint64_t seed, double length, Report& report) {
  report.say("stress: begins, seed " + std::to_string(seed));
  const Nanos end = rig.clock.now() + nanos_from_seconds(length);
  Nanos said = rig.clock.now();
  Bytes through_peers;
  int rounds = 0;
  for (; rig.clock.now() < end && !report.failed(); ++rounds) {
    if (rig.clock.now() - said >= kProgressEvery) {
      report.say("stress: " + std::to_string(rounds) + " engines, " + report.done());
      said = rig.clock.now();
    }
    const Nanos until = std::min(end, rig.clock.now() + seconds(2));
    stress_round(rig, mix64(seed + static_cast<std::uint64_t>(rounds)), until, report);
    if (rig.engine != nullptr) through_peers += relayed(rig.engine->stats());
  }
  report.check(rig.gpus() == 1 || length < 5 || through_peers > Bytes(0),
               "stress: no link relayed");
  report.say("stress: " + std::to_string(rounds) + " engines, " + report.done() + ", " +
             gib_text(through_peers) + " through relays");
}

// A chunk that fails, is refused or hangs, on the target's own link and then on a relay. The
// transfer ends well in all cases.
void faults(GpuRig& rig, Report& report) {
  report.say("faults: begins");
  struct Fault {
    const char* name;
    FaultPlan::Kind kind;
  };
  for (const Fault fault :
       {Fault{"refused", FaultPlan::Kind::kRefuse}, Fault{"failing", FaultPlan::Kind::kFail},
        Fault{"hanging", FaultPlan::Kind::kHang}}) {
    for (int gpu = 0; gpu < std::min(2, rig.gpus()); ++gpu) {
      for (const Direction direction : kBothDirections) {
        const std::string what = std::string(fault.name) + " chunk of link " + std::to_string(gpu) +
                                 ", " + std::string(name_of(direction));
        TransferEngineOptions options;
        options.chunk_time_max = millis(200);
        options.relay_rest = millis(50);
        options.dispatch.multipath_bytes_min = mib(1);
        options.dispatch.chunk_bytes_direct = mib(4);  // of one GPU alone: several all the same
        if (auto started = rig.start(options); !started.ok()) return report.must(started, what);
        auto mover = Mover::make(rig, 0, 7);
        if (!mover.ok()) return report.fail(what + ": " + mover.error().message);
        const int before = rig.faults(gpu).happened();
        rig.faults(gpu).reopen();
        rig.faults(gpu).next(fault.kind, 1, 1);
        std::thread release;
        if (fault.kind == FaultPlan::Kind::kHang) {
          release = std::thread([&] { rig.faults(gpu).release_after(millis(600)); });
        }
        const Ask ask{.direction = direction, .look_from_cpu = true};
        report.must((*mover)->move(ask, whole(rig.area_bytes())), what);
        report.count(rig.area_bytes());
        if (release.joinable()) release.join();
        report.check(rig.faults(gpu).happened() == before + 1, what + ": it did not happen");
        report.check(rig.engine->stats().retries > 0, what + ": nothing was moved again");
        rig.faults(gpu).next(FaultPlan::Kind::kNone, 0);
      }
    }
  }
  report.say("faults: refused, failing and hanging chunks on " +
             std::to_string(std::min(2, rig.gpus())) + " links");
}

// GPU 1 has no memory left for staging: GPU 0 gets its bytes without it.
void full_relay(GpuRig& rig, Report& report) {
  if (rig.gpus() < 2) return;
  report.say("full relay: begins, takes all memory of GPU 1");
  rig.engine.reset();  // its staging goes
  auto hog = rig.machine->open({.name = "hog", .physical_device = 1, .arena_bytes = gib(400)});
  if (!hog.ok()) return report.fail("full relay: " + hog.error().message);
  std::vector<device::Extents> taken;
  for (std::int64_t count = 64; count >= 1;) {
    auto extents = (*hog)->arena().allocate(count, device::Arena::End::kLow);
    if (extents.ok()) {
      taken.push_back(std::move(extents).value());
    } else {
      count /= 2;
    }
  }
  report.say("full relay: GPU 1 has no memory left after " + std::to_string(taken.size()) +
             " allocations");
  report.must(rig.start({}), "full relay");
  auto mover = Mover::make(rig, 0, 11);
  if (!mover.ok()) return report.fail("full relay: " + mover.error().message);
  for (const Direction direction : kBothDirections) {
    report.must((*mover)->move({.direction = direction}, whole(rig.area_bytes())), "full relay");
    report.count(rig.area_bytes());
  }
  report.check(relayed(rig.engine->stats(), 1) == Bytes(0), "full relay: GPU 1 relayed");
  rig.engine.reset();
  taken.clear();
  report.say("full relay: GPU 1 has its memory back");
}

int run_all(double length, std::uint64_t seed) {
  Report report;
  report.say("seed " + std::to_string(seed));
  auto rig = GpuRig::make({});
  if (!rig.ok() && rig.error().code == ErrorCode::kUnavailable) {
    report.say("no GPU: " + rig.error().message);
    return kSkipped;
  }
  if (rig.ok()) {
    sizes(**rig, report);
    faults(**rig, report);
    stress(**rig, seed, length, report);
    full_relay(**rig, report);
  } else {
    report.fail(rig.error().message);
  }
  report.say(std::string(report.failed() ? "FAILED: " : "PASSED: ") + report.done() +
             ", every byte compared, seed " + std::to_string(seed));
  return report.failed() ? 1 : 0;
}

}  // namespace
}  // namespace causeway::transfer

int main(int argc, char** argv) {
  causeway::Arguments arguments(argc, argv);
  const auto seed = arguments.number("--seed", std::uint64_t{20260101});
  const double length = arguments.number("--seconds", 10.0);
  arguments.finish();
  return causeway::transfer::run_all(length, seed);
}
