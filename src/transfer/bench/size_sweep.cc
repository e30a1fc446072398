#include "transfer/bench/size_sweep.h"

#include <algorithm>
#include <cstring>

#include "base/random.h"

namespace causeway::transfer::bench {
namespace {

using device::Copy;
using device::MemoryAddress;

constexpr Nanos kRunMax = seconds(120);

void fill(std::span<std::byte> bytes, std::uint64_t seed) {
  Random random(seed);
  for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    const std::uint64_t word = random.bits();
    std::memcpy(bytes.data() + i, &word, 8);
  }
}

// The most that any set of links gave, to own GPUs or through relays.
double most_measured(const LinkMap& map, int target, Direction direction) {
  double most = 0;
  for (const SetRate& set : map.own[index_of(direction)]) most = std::max(most, set.rate);
  for (const RelayRate& set : map.relayed[index_of(direction)]) {
    if (set.target == target) most = std::max(most, set.rate);
  }
  return most;
}

class Bench {
 public:
  Bench(const std::vector<device::Device*>& devices, device::HostMemory& memory, const Clock& clock,
        const TransferBenchOptions& options)
      : target_(*devices[static_cast<std::size_t>(options.target)]),
        memory_(memory),
        clock_(clock),
        options_(options) {}
  ~Bench() {
    for (const RegionId region : regions_) (void)memory_.release(region);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Status set_up(const std::vector<device::Device*>& devices, const LinkMap& map) {
    const Bytes most = *std::max_element(options_.sizes.begin(), options_.sizes.end());
    for (int i = 0; i < 2; ++i) {
      CAUSEWAY_ASSIGN(const RegionId region,
                      memory_.allocate({.name = "bench-transfer", .bytes = most}));
      regions_.push_back(region);
    }
    fill(host(0, most), 1);
    const Bytes extent = target_.capabilities().extent_bytes;
    CAUSEWAY_ASSIGN(extents_, target_.arena().allocate(round_up(most, extent) / extent,
                                                       device::Arena::End::kLow));
    CAUSEWAY_ASSIGN(stream_, target_.make_stream("native"));
    std::vector<EngineLink> links;
    for (device::Device* device : devices) links.push_back({{device}});
    CAUSEWAY_ASSIGN(engine_, TransferEngine::create(options_.engine, links, facts_of(map), clock_));
    return {};
  }

  Result<TransferBenchRow> row(Direction direction, Bytes bytes) {
    TransferBenchRow row;
    row.direction = direction;
    row.bytes = bytes;
    CAUSEWAY_ASSIGN(row.native, spread(bytes, [&] { return native(direction, bytes); }));
    const Bytes before = relayed(direction);
    CAUSEWAY_ASSIGN(row.ours, spread(bytes, [&] { return ours(direction, bytes); }));
    const double moved = static_cast<double>(bytes.count) * (options_.runs + 1);
    row.relayed = static_cast<double>((relayed(direction) - before).count) / moved;
    return row;
  }

  // Ours in, then ours out into other memory: what arrives is what was sent.
  Status verify(Bytes bytes) {
    const auto received = host(1, bytes);
    std::fill(received.begin(), received.end(), std::byte{0});
    CAUSEWAY_TRY(ours(Direction::kIn, bytes));
    CAUSEWAY_TRY(ours(Direction::kOut, bytes));
    if (std::memcmp(host(0, bytes).data(), received.data(), received.size()) == 0) return {};
    return corrupt("a transfer of " + std::to_string(bytes.count) + " bytes brought wrong bytes");
  }

 private:
  std::span<std::byte> host(std::size_t region, Bytes bytes) {
    return memory_.resolve({regions_[region], Bytes(0)}, bytes);
  }
  Segment segment(Direction direction, Bytes bytes) const {
    const RegionId region = regions_[direction == Direction::kIn ? 0 : 1];
    return {MemoryAddress::in_host({region, Bytes(0)}),
            MemoryAddress::in_arena(target_.id(), extents_.offset()), bytes};
  }

  Status native(Direction direction, Bytes bytes) {
    const Segment whole = segment(direction, bytes);
    const bool in = direction == Direction::kIn;
    const Copy copy{in ? whole.device : whole.host, in ? whole.host : whole.device, bytes};
    CAUSEWAY_TRY(stream_->copy({&copy, 1}, device::CopyPriority::kStep));
    return stream_->synchronize(kRunMax);
  }

  Status ours(Direction direction, Bytes bytes) {
    TransferRequest request;
    request.direction = direction;
    request.target = target_.id();
    request.segments = {segment(direction, bytes)};
    CAUSEWAY_ASSIGN(const Completion completion, engine_->submit(std::move(request)));
    return completion.wait(kRunMax);
  }

  Bytes relayed(Direction direction) const {
    Bytes bytes;
    for (const auto& link : engine_->stats().links) bytes += link[index_of(direction)].relayed;
    return bytes;
  }

  template <typename Move>
  Result<Spread> spread(Bytes bytes, Move move) {
    std::vector<double> rates;
    for (int run = -1; run < options_.runs; ++run) {
      const Nanos begin = clock_.now();
      CAUSEWAY_TRY(move());
      const double took = std::max(1e-9, to_seconds(clock_.now() - begin));
      if (run >= 0) rates.push_back(static_cast<double>(bytes.count) / took);
    }
    std::sort(rates.begin(), rates.end());
    return Spread{rates[rates.size() / 2], rates.front(), rates.back()};
  }

  device::Device& target_;
  device::HostMemory& memory_;
  const Clock& clock_;
  const TransferBenchOptions& options_;
  std::vector<RegionId> regions_;  // what goes in, what comes out
  device::Extents extents_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<TransferEngine> engine_;
};

}  // namespace

Result<std::vector<TransferBenchRow>> run_transfer_bench(
    const std::vector<device::Device*>& devices, device::HostMemory& memory, const Clock& clock,
    const LinkMap& map, const TransferBenchOptions& options,
    const std::function<void(const TransferBenchRow&)>& progress) {
  const bool sizes_fit =
      !options.sizes.empty() && std::all_of(options.sizes.begin(), options.sizes.end(),
                                            [](Bytes size) { return size > Bytes(0); });
  if (!sizes_fit || options.runs < 1 || options.target < 0 ||
      options.target >= std::ssize(devices) || map.links != std::ssize(devices)) {
    return invalid_argument(
        "a transfer benchmark needs sizes, runs, a target and a map of its GPUs");
  }
  Bench bench(devices, memory, clock, options);
  CAUSEWAY_TRY(bench.set_up(devices, map));
  std::vector<TransferBenchRow> rows;
  for (const Direction direction : kBothDirections) {
    for (const Bytes bytes : options.sizes) {
      CAUSEWAY_TRY(bench.verify(bytes));
      CAUSEWAY_ASSIGN(TransferBenchRow row, bench.row(direction, bytes));
      row.limit = most_measured(map, options.target, direction);
      progress(row);
      rows.push_back(row);
    }
  }
  return rows;
}

}  // namespace causeway::transfer::bench
