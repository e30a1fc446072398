#include "bench/transfer/rig.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/random.h"

namespace causeway::transfer::bench {
namespace {

using device::MemoryAddress;

constexpr Nanos kTransferMax = seconds(120);
constexpr int kLinksSearched = 10;  // 1,023 sets
constexpr int kSearchRuns = 3;

void fill_words(std::span<std::byte> bytes, std::uint64_t seed) {
  Random random(seed);
  for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    const std::uint64_t word = random.bits();
    std::memcpy(bytes.data() + i, &word, 8);
  }
}

double per_second(Bytes bytes, Nanos took) {
  return static_cast<double>(bytes.count) / std::max(1e-9, to_seconds(took));
}

}  // namespace

Result<std::unique_ptr<Rig>> Rig::make(const BenchSetup& setup) {
  const bool sizes_fit =
      !setup.sizes.empty() && std::all_of(setup.sizes.begin(), setup.sizes.end(),
                                          [](Bytes size) { return size > Bytes(0); });
  if (!sizes_fit || setup.runs < 1 || setup.target < 0 ||
      setup.target >= std::ssize(setup.devices) || setup.map.links != std::ssize(setup.devices)) {
    return invalid_argument(
        "a transfer benchmark needs sizes, runs, a target and a map of its GPUs");
  }
  auto rig = std::make_unique<Rig>(setup);
  CAUSEWAY_TRY(rig->allocate());
  CAUSEWAY_TRY(rig->fill());
  return rig;
}

Rig::~Rig() {
  engine_.reset();
  native_.clear();
  for (const RegionId region : {from_, to_}) {
    if (region.valid()) (void)setup_.memory->release(region);
  }
}

Status Rig::allocate() {
  largest_ = *std::max_element(setup_.sizes.begin(), setup_.sizes.end());
  second_lane_ = std::max(largest_, setup_.large * gpus());
  const Bytes host = second_lane_ + setup_.large;
  for (RegionId* region : {&from_, &to_}) {
    CAUSEWAY_ASSIGN(*region, setup_.memory->allocate({.name = "bench-transfer", .bytes = host}));
  }
  for (int gpu = 0; gpu < gpus(); ++gpu) {
    device::Device& device = *setup_.devices[static_cast<std::size_t>(gpu)];
    const Bytes extent = device.capabilities().extent_bytes;
    const Bytes wanted =
        gpu == setup_.target ? std::max(largest_, setup_.large * 2) : setup_.large * 2;
    CAUSEWAY_ASSIGN(auto extents, device.arena().allocate(round_up(wanted, extent) / extent,
                                                          device::Arena::End::kLow));
    extents_.push_back(std::move(extents));
    CAUSEWAY_ASSIGN(auto native, setup_.native(gpu));
    native_.push_back(std::move(native));
  }
  return {};
}

Status Rig::fill() {
  const Bytes bytes = setup_.memory->region_bytes(from_);
  const auto whole = setup_.memory->resolve({from_, Bytes(0)}, bytes);
  const std::size_t share = round_up(bytes / 8, Bytes(8)).count;
  std::vector<std::thread> threads;
  for (std::size_t at = 0; at < whole.size(); at += share) {
    threads.emplace_back([part = whole.subspan(at, std::min(share, whole.size() - at)), at] {
      fill_words(part, at + 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return {};
}

Segment Rig::segment(int gpu, Direction direction, Bytes bytes, int lane) const {
  const auto g = static_cast<std::size_t>(gpu);
  const RegionId region = direction == Direction::kIn ? from_ : to_;
  const int place = gpu == setup_.target ? 0 : gpu + (gpu < setup_.target ? 1 : 0);
  const Bytes on_host = lane == 0 ? setup_.large * place : second_lane_;
  return {
      host(region, on_host),
      MemoryAddress::in_arena(setup_.devices[g]->id(), extents_[g].offset() + setup_.large * lane),
      bytes};
}

TransferRequest Rig::request(int gpu, Direction direction, Bytes bytes, int lane,
                             LinkSet only) const {
  TransferRequest request;
  request.direction = direction;
  request.target = setup_.devices[static_cast<std::size_t>(gpu)]->id();
  request.segments = {segment(gpu, direction, bytes, lane)};
  request.only = only;
  return request;
}

device::Copy Rig::copy(int gpu, Direction direction, Bytes bytes, int lane) const {
  const Segment whole = segment(gpu, direction, bytes, lane);
  const bool in = direction == Direction::kIn;
  return {in ? whole.device : whole.host, in ? whole.host : whole.device, bytes};
}

Result<std::unique_ptr<TransferEngine>> Rig::make_engine(TransferEngineOptions options) const {
  std::vector<EngineLink> links;
  for (device::Device* device : setup_.devices) links.push_back({{device}});
  return TransferEngine::create(std::move(options), links, facts_of(setup_.map), *setup_.clock);
}

Result<TransferEngine*> Rig::engine() {
  if (engine_ == nullptr) {
    CAUSEWAY_ASSIGN(engine_, make_engine(setup_.engine));
    // Links learn what they give, and buffers are touched.
    for (int run = 0; run < 3; ++run) {
      for (const Direction direction : kBothDirections) {
        CAUSEWAY_TRY(rate(*engine_, setup_.target, direction, setup_.large));
      }
    }
  }
  return engine_.get();
}

Result<Nanos> Rig::time(TransferEngine& engine, TransferRequest request) const {
  const Nanos begin = now();
  CAUSEWAY_ASSIGN(const Completion completion, engine.submit(std::move(request)));
  CAUSEWAY_TRY(completion.wait(kTransferMax));
  return now() - begin;
}

Result<double> Rig::rate(TransferEngine& engine, int gpu, Direction direction, Bytes bytes,
                         LinkSet only) const {
  CAUSEWAY_ASSIGN(const Nanos took, time(engine, request(gpu, direction, bytes, 0, only)));
  return per_second(bytes, took);
}

Result<double> Rig::native_rate(int gpu, Direction direction, Bytes bytes) {
  NativeCopies& native = *native_[static_cast<std::size_t>(gpu)];
  CAUSEWAY_TRY(native.prepare({copy(gpu, direction, bytes)}));
  CAUSEWAY_ASSIGN(const Nanos took, native.time(NativeCopies::How::kLoop, *setup_.clock));
  return per_second(bytes, took);
}

Result<Spread> Rig::repeat(const std::function<Result<double>()>& measure) const {
  std::vector<double> values;
  for (int run = -1; run < setup_.runs; ++run) {
    CAUSEWAY_ASSIGN(const double value, measure());
    if (run >= 0) values.push_back(value);
  }
  return spread_of(std::move(values));
}

Result<Rig::Pair> Rig::repeat_both(const std::function<Result<double>()>& a,
                                   const std::function<Result<double>()>& b) const {
  std::vector<double> of_a, of_b;
  for (int run = -1; run < setup_.runs; ++run) {
    CAUSEWAY_ASSIGN(const double value_a, a());
    CAUSEWAY_ASSIGN(const double value_b, b());
    if (run < 0) continue;
    of_a.push_back(value_a);
    of_b.push_back(value_b);
  }
  return Pair{spread_of(std::move(of_a)), spread_of(std::move(of_b))};
}

Result<const std::vector<SetRate>*> Rig::all_sets(Direction direction) {
  std::vector<SetRate>& sets = sets_[index_of(direction)];
  if (!sets.empty()) return &sets;
  CAUSEWAY_ASSIGN(TransferEngine * engine, this->engine());
  const int links = std::min(gpus(), kLinksSearched);
  for (std::uint64_t bits = 1; bits < std::uint64_t{1} << links; ++bits) {
    std::vector<double> rates;
    for (int run = 0; run < kSearchRuns; ++run) {
      CAUSEWAY_ASSIGN(const double one,
                      rate(*engine, setup_.target, direction, setup_.large, {bits}));
      rates.push_back(one);
    }
    sets.push_back({{bits}, spread_of(std::move(rates)).median});
  }
  std::sort(sets.begin(), sets.end(),
            [](const SetRate& a, const SetRate& b) { return a.rate > b.rate; });
  return &sets;
}

std::optional<SetRate> Rig::best_of(Direction direction, int links) const {
  for (const SetRate& set : sets_[index_of(direction)]) {
    if (set.links.count() == links) return set;
  }
  return std::nullopt;
}

Status Rig::verify(TransferEngine& engine, Bytes bytes) {
  const auto sent = setup_.memory->resolve({from_, Bytes(0)}, bytes);
  const auto received = setup_.memory->resolve({to_, Bytes(0)}, bytes);
  std::memset(received.data(), 0, received.size());
  for (const Direction direction : kBothDirections) {
    CAUSEWAY_TRY(time(engine, request(setup_.target, direction, bytes)));
  }
  if (std::memcmp(sent.data(), received.data(), sent.size()) == 0) return {};
  return corrupt("a transfer of " + std::to_string(bytes.count) + " bytes brought wrong bytes");
}

Bytes relayed_bytes(const TransferEngine& engine, Direction direction) {
  Bytes bytes;
  for (const auto& link : engine.stats().links) bytes += link[index_of(direction)].relayed;
  return bytes;
}

}  // namespace causeway::transfer::bench
