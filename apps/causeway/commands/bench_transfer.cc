#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "commands/command.h"
#include "commands/json_file.h"
#include "topology/render.h"
#include "transfer/bench/size_sweep.h"
#include "transfer_machine.h"

namespace causeway::app {
namespace {

using transfer::bench::TransferBenchRow;

double gb(double bytes_per_second) { return bytes_per_second * 1e-9; }

std::string size_text(Bytes bytes) {
  if (bytes >= mib(1)) return topology::size_text(bytes);
  return bytes >= kib(1) ? fmt::format("{} KiB", bytes.count >> 10)
                         : fmt::format("{} B", bytes.count);
}

void print_row(const TransferBenchRow& row) {
  fmt::print("{:<4} {:>10} {:>9.2f} {:>9.2f} {:>17} {:>8.2f} {:>9.2f} {:>8.2f} {:>8.0f}%\n",
             transfer::name_of(row.direction), size_text(row.bytes), gb(row.native.median),
             gb(row.ours.median),
             fmt::format("{:.2f} – {:.2f}", gb(row.ours.low), gb(row.ours.high)),
             row.ours.median / row.native.median, gb(row.limit), row.ours.median / row.limit,
             100 * row.relayed);
  std::fflush(stdout);
}

nlohmann::ordered_json spread_json(const transfer::bench::Spread& spread) {
  return {{"median", spread.median}, {"lowest", spread.low}, {"highest", spread.high}};
}

nlohmann::ordered_json json_of(const transfer::LinkMap& map,
                               const std::vector<TransferBenchRow>& rows) {
  auto list = nlohmann::ordered_json::array();
  for (const TransferBenchRow& row : rows) {
    list.push_back({{"direction", transfer::name_of(row.direction)},
                    {"bytes", row.bytes.count},
                    {"native_bytes_per_second", spread_json(row.native)},
                    {"bytes_per_second", spread_json(row.ours)},
                    {"limit_bytes_per_second", row.limit},
                    {"relayed_share", row.relayed}});
  }
  return {{"link_map", nlohmann::ordered_json::parse(transfer::write_link_map(map))},
          {"transfers", list}};
}

class BenchTransfer final : public Command {
 public:
  BenchTransfer(CLI::App& parent, const Clock& clock)
      : Command(parent, "transfer",
                "Measure host ↔ GPU transfers over all links beside the native copy"),
        clock_(clock) {
    options()
        .add_option("--sizes", sizes_, "of one transfer, such as 64KB,1MB,1GB (powers of 1024)")
        ->delimiter(',')
        ->transform(CLI::AsSizeValue(false))
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 36));
    options()
        .add_option("--runs", runs_, "of each figure; the median is reported")
        ->check(CLI::Range(5, 1000))
        ->capture_default_str();
    options()
        .add_option("--target", target_, "the GPU to move to and from")
        ->check(CLI::Range(0, 63))
        ->capture_default_str();
    options()
        .add_option("--chunk", chunk_, "the engine's chunk size, such as 4MB")
        ->transform(CLI::AsSizeValue(false))
        ->check(CLI::Range(std::uint64_t{1} << 19, std::uint64_t{1} << 26));
    options()
        .add_option("--depth", depth_, "chunks outstanding on a link")
        ->check(CLI::Range(1, 8));
    options()
        .add_option("--threshold", threshold_, "transfers below it take the target's link alone")
        ->transform(CLI::AsSizeValue(false));
    options()
        .add_option("--modelled", modelled_,
                    "GPUs to model on the CPU instead of using this "
                    "machine's; figures then say nothing of any GPU")
        ->check(CLI::Range(0, 16))
        ->capture_default_str();
    options().add_option("--json", json_file_,
                         "also write the rows to this file ('-': standard output)");
  }

  Status run() override {
    transfer::bench::TransferBenchOptions bench;
    for (const std::uint64_t size : sizes_) {
      bench.sizes.push_back(Bytes(static_cast<std::int64_t>(size)));
    }
    bench.runs = runs_;
    bench.target = target_;
    bench.engine.dispatch.chunk_bytes.fill(Bytes(static_cast<std::int64_t>(chunk_)));
    bench.engine.dispatch.depth = depth_;
    bench.engine.dispatch.multipath_bytes_min = Bytes(static_cast<std::int64_t>(threshold_));
    transfer::DeviceProberOptions probe;
    if (modelled_ > 0) probe = {.bytes = mib(8), .copy_bytes = mib(1)};
    const Bytes largest = *std::max_element(bench.sizes.begin(), bench.sizes.end());
    const Bytes room = mib(128);  // staging and rounding
    CAUSEWAY_ASSIGN(const auto machine,
                    open_transfer_machine({.arena_bytes = std::max(largest, probe.bytes * 2) + room,
                                           .modelled = modelled_},
                                          clock_));
    const auto devices = machine->pointers();
    if (target_ >= std::ssize(devices)) {
      return invalid_argument(
          fmt::format("--target {}: there are {} GPUs", target_, devices.size()));
    }
    fmt::print(stderr, "measuring the links of {} devices …\n", devices.size());
    transfer::LinkMap map;
    {
      CAUSEWAY_ASSIGN(const auto prober,
                      transfer::DeviceProber::create(devices, machine->memory, clock_, probe));
      CAUSEWAY_ASSIGN(map, transfer::measure_link_map("this run", *prober));
    }
    print_head(map);
    CAUSEWAY_ASSIGN(const auto rows, transfer::bench::run_transfer_bench(
                                         devices, machine->memory, clock_, map, bench, print_row));
    return write_json(json_file_, json_of(map, rows));
  }

 private:
  void print_head(const transfer::LinkMap& map) const {
    for (const transfer::Direction direction : transfer::kBothDirections) {
      const auto best = transfer::best_set(map, target_, direction);
      fmt::print("best links, {} of GPU {}: {} ({:.2f} GB/s)\n", transfer::name_of(direction),
                 target_, transfer::text_of(best.links), gb(best.rate));
    }
    fmt::print("{:<4} {:>10} {:>9} {:>9} {:>17} {:>8} {:>9} {:>8} {:>9}\n", "way", "size", "native",
               "ours", "spread", "× native", "best set", "of best", "relayed");
  }

  const Clock& clock_;
  std::vector<std::uint64_t> sizes_ = {1 << 10,  64 << 10, 256 << 10, 1 << 20, 4 << 20,
                                       16 << 20, 64 << 20, 256 << 20, 1 << 30};
  int runs_ = 7;
  int target_ = 0;
  std::uint64_t chunk_ = 4 << 20;
  std::uint64_t threshold_ = 12 << 20;
  int depth_ = 2;
  int modelled_ = 0;
  std::string json_file_;
};

}  // namespace

std::unique_ptr<Command> make_bench_transfer(CLI::App& parent, const Clock& clock) {
  return std::make_unique<BenchTransfer>(parent, clock);
}

}  // namespace causeway::app
