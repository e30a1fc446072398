#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/child_process.h"
#include "bench/commands/measuring.h"
#include "bench/transfer/parts.h"
#include "bench/transfer_rows.h"
#include "commands/json_file.h"
#include "transfer/device_prober.h"
#include "transfer_machine.h"

namespace causeway::app {
namespace {

using transfer::Direction;
using transfer::LinkMap;
using transfer::bench::BenchSetup;
using transfer::bench::Part;
using transfer::bench::Report;
using transfer::bench::Rig;
using transfer::bench::SecondProcess;

constexpr Bytes kRoom = mib(1024);  // of each arena: staging of several engines, rounding
constexpr Nanos kStartMax = seconds(120);

std::vector<Bytes> powers(int first, int last, int step) {
  std::vector<Bytes> sizes;
  for (int power = first; power <= last; power += step) {
    sizes.push_back(Bytes(std::int64_t{1} << power));
  }
  return sizes;
}

// A process that moves bytes with an engine of its own.
class ChildOnLinks final : public SecondProcess {
 public:
  explicit ChildOnLinks(std::unique_ptr<ChildProcess> child) : child_(std::move(child)) {}
  Status go() override { return child_->write_line("go"); }
  Result<double> rate() override {
    CAUSEWAY_ASSIGN(const std::string line, child_->read_line(kStartMax));
    char* end = nullptr;
    const double rate = std::strtod(line.c_str(), &end);
    if (end == line.c_str()) return corrupt("the second process said '" + line + "'");
    return rate;
  }

 private:
  std::unique_ptr<ChildProcess> child_;
};

// A file with the link map for the second process; gone with this.
class MapFile {
 public:
  static Result<MapFile> write(const LinkMap& map) {
    std::error_code fault;
    const auto directory = std::filesystem::temp_directory_path(fault);
    if (fault) return io_error("cannot use TMPDIR for the map of links", fault.value());
    // The name cannot be foreseen, so that no other user can put a link in its place.
    std::string path = (directory / "causeway-links-XXXXXX").string();
    const int descriptor = ::mkstemp(path.data());
    if (descriptor < 0) return io_error("cannot make a file in " + directory.string(), errno);
    ::close(descriptor);
    MapFile file(path);
    std::ofstream out(path);
    out << transfer::write_link_map(map);
    out.flush();
    if (!out) return io_error("cannot write " + path, errno);
    return file;
  }
  explicit MapFile(std::string path) : path_(std::move(path)) {}
  MapFile(MapFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ~MapFile() {
    if (!path_.empty()) std::remove(path_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class BenchTransfer final : public Command {
 public:
  BenchTransfer(Options& parent, const Clock& clock)
      : Command(parent, "transfer",
                "Measure host ↔ GPU transfers over all links beside the native copy"),
        clock_(clock) {
    declare_what();
    declare_engine();
  }

  Status run() override {
    BenchSetup setup = settings();
    CAUSEWAY_ASSIGN(const auto parts, chosen());
    const auto probe = prober_options();
    const Bytes largest = *std::max_element(setup.sizes.begin(), setup.sizes.end());
    const Bytes data =
        std::max({largest, setup.large * 2, probe.bytes * transfer::DeviceProber::kBuffers});
    CAUSEWAY_ASSIGN(
        const auto machine,
        open_transfer_machine({.arena_bytes = data + kRoom, .modelled = modelled_}, clock_));
    setup.devices = machine->pointers();
    setup.memory = &machine->memory;
    if (target_ >= std::ssize(setup.devices)) {
      return invalid_argument(
          fmt::format("--target {}: there are {} GPUs", target_, setup.devices.size()));
    }
    connect(setup, *machine);
    CAUSEWAY_ASSIGN(setup.map, map_of(*machine, probe));
    CAUSEWAY_ASSIGN(const MapFile map_file, MapFile::write(setup.map));
    setup.second_process = [&](int target, Direction direction, Nanos length) {
      return second_process(map_file.path(), target, direction, length);
    };
    CAUSEWAY_ASSIGN(const auto rig, Rig::make(setup));
    if (!steady_.empty()) return move_steadily(*rig);
    return measure(*rig, parts);
  }

 private:
  void declare_what() {
    std::string names;
    for (const Part& part : transfer::bench::parts()) {
      names += fmt::format("\n  {:<14}{}", part.name, part.what);
    }
    options()
        .add_option("--what", what_, "parts, separated by commas (default: all):" + names)
        .delimiter(',');
    options().add_flag("--quick", quick_, "fewer sizes and runs");
    options()
        .add_option("--sizes", sizes_,
                    "sizes to measure, such as 64KB,1MB,1GB (powers of 1024; default: 1KB to 8GB)")
        .delimiter(',')
        .in_bytes()
        .range(std::uint64_t{1}, std::uint64_t{1} << 36);
    options()
        .add_option(
            "--runs", runs_,
            "runs for each figure, of which the median is reported (default: 7; with --quick 5)")
        .range(5, 1000);
    options()
        .add_option("--target", target_, "the GPU to move to and from")
        .range(0, 63)
        .show_default();
    options()
        .add_option("--modelled", modelled_,
                    "GPUs to model on the CPU instead of using this "
                    "machine's; figures then say nothing of any GPU")
        .range(0, 16)
        .show_default();
    options().add_option("--json", json_file_,
                         "also write the rows to this file ('-': standard output)");
    options()
        .add_option("--link-map", map_file_, "a link map to use instead of measuring one")
        .existing_file();
    // way:GPU:milliseconds, of the process that "processes" starts.
    options().add_option("--steady", steady_).group("");
  }

  void declare_engine() {
    const auto size = [&](const char* name, std::uint64_t& value, const char* what) {
      options().add_option(name, value, what).in_bytes();
    };
    size("--chunk-in", chunk_in_, "chunks of transfers in, such as 4MB (default: the engine's)");
    size("--chunk-out", chunk_out_, "the same, out");
    size("--threshold", threshold_, "smaller transfers take the target's link alone");
    options().add_option("--depth", depth_, "chunks outstanding on a link").range(1, 8);
  }

  BenchSetup settings() const {
    BenchSetup setup;
    setup.clock = &clock_;
    setup.target = target_;
    setup.quick = quick_;
    setup.runs = runs_ > 0 ? runs_ : quick_ ? 5 : 7;
    setup.large = modelled_ > 0 ? mib(16) : quick_ ? mib(512) : gib(1);
    setup.steady = modelled_ > 0 ? millis(50) : quick_ ? millis(300) : seconds(1);
    for (const std::uint64_t size : sizes_)
      setup.sizes.push_back(Bytes(static_cast<std::int64_t>(size)));
    if (setup.sizes.empty()) setup.sizes = default_sizes();
    if (!steady_.empty()) setup.sizes = {setup.large};
    auto& dispatch = setup.engine.dispatch;
    const auto set = [](Bytes& bytes, std::uint64_t given) {
      if (given > 0) bytes = Bytes(static_cast<std::int64_t>(given));
    };
    set(dispatch.chunk_bytes[0], chunk_in_);
    set(dispatch.chunk_bytes[1], chunk_out_);
    if (modelled_ > 0) dispatch.multipath_bytes_min = mib(2);  // its links are slow
    set(dispatch.multipath_bytes_min, threshold_);
    if (depth_ > 0) dispatch.depth = depth_;
    return setup;
  }

  std::vector<Bytes> default_sizes() const {
    if (modelled_ > 0) return powers(12, 24, 4);
    if (quick_) return powers(10, 30, 4);
    std::vector<Bytes> sizes = powers(10, 33, 1);
    std::erase_if(sizes, [](Bytes size) { return size == gib(4); });  // between 2 and 8 GiB
    sizes.push_back(mib(12));
    std::sort(sizes.begin(), sizes.end());
    return sizes;
  }

  Result<std::vector<Part>> chosen() const {
    std::vector<Part> chosen;
    for (const Part& part : transfer::bench::parts()) {
      const bool named = std::find(what_.begin(), what_.end(), part.name) != what_.end();
      if (what_.empty() || named) chosen.push_back(part);
    }
    if (!what_.empty() && chosen.size() != what_.size()) {
      return invalid_argument("--what names a part that does not exist; see --help");
    }
    return chosen;
  }

  transfer::DeviceProberOptions prober_options() const {
    if (modelled_ > 0) return {.bytes = mib(8), .copy_bytes = mib(1)};
    return {};
  }

  // How the native copies are made and memory is counted.
  static void connect(BenchSetup& setup, const TransferMachine& machine) {
    const auto devices = setup.devices;
    const auto at = [devices](int gpu) { return devices[static_cast<std::size_t>(gpu)]; };
    if (machine.cuda == nullptr) {
      setup.native = [at](int gpu) { return transfer::bench::make_stream_copies(*at(gpu)); };
      setup.free_memory = [at](int gpu) {
        device::Arena& arena = at(gpu)->arena();
        return Result<Bytes>(arena.extent_bytes() * arena.free_extents());
      };
      return;
    }
    setup.native = [at,
                    devices](int gpu) -> Result<std::unique_ptr<transfer::bench::NativeCopies>> {
      CAUSEWAY_ASSIGN(const device::CudaApi api, device::load_cuda_api());
      return transfer::bench::make_driver_copies(api, *at(gpu), devices);
    };
    setup.free_memory = [&machine](int gpu) { return machine.cuda->free_memory(gpu); };
  }

  Result<LinkMap> map_of(TransferMachine& machine,
                         const transfer::DeviceProberOptions& probe) const {
    if (!map_file_.empty()) {
      std::ifstream in(map_file_);
      std::stringstream text;
      text << in.rdbuf();
      Result<LinkMap> map = transfer::read_link_map(text.str());
      if (map.ok() && map->links != std::ssize(machine.devices)) {
        return invalid_argument(map_file_ + " is the map of another machine");
      }
      return map;
    }
    const auto devices = machine.pointers();
    fmt::print(stderr, "measuring the links of {} devices …\n", devices.size());
    CAUSEWAY_ASSIGN(const auto prober,
                    transfer::DeviceProber::create(devices, machine.memory, clock_, probe));
    return transfer::measure_link_map("this run", *prober);
  }

  Result<std::unique_ptr<SecondProcess>> second_process(const std::string& map_file, int target,
                                                        Direction direction, Nanos length) const {
    std::vector<std::string> arguments = {
        "bench",
        "transfer",
        "--steady",
        fmt::format("{}:{}:{}", transfer::name_of(direction), target,
                    static_cast<std::int64_t>(to_millis(length))),
        "--link-map",
        map_file,
        "--modelled",
        std::to_string(modelled_)};
    if (quick_) arguments.emplace_back("--quick");
    CAUSEWAY_ASSIGN(auto child, ChildProcess::start(arguments));
    CAUSEWAY_ASSIGN(const std::string ready, child->read_line(kStartMax));
    if (ready != "ready") return corrupt("the second process said '" + ready + "'");
    return std::unique_ptr<SecondProcess>(std::make_unique<ChildOnLinks>(std::move(child)));
  }

  // As told by the process that started this one.
  Status move_steadily(Rig& rig) const {
    std::istringstream text(steady_);
    std::string way, gpu, length;
    std::getline(text, way, ':');
    std::getline(text, gpu, ':');
    std::getline(text, length, ':');
    const int target = std::atoi(gpu.c_str()), milliseconds = std::atoi(length.c_str());
    if (target < 0 || target >= rig.gpus() || milliseconds < 1) {
      return invalid_argument("--steady wants way:GPU:milliseconds");
    }
    CAUSEWAY_ASSIGN(transfer::TransferEngine * engine, rig.engine());
    fmt::print("ready\n");
    std::fflush(stdout);
    std::string go;
    if (!std::getline(std::cin, go)) {
      return unavailable("standard input ended before the line that starts the copies");
    }
    CAUSEWAY_ASSIGN(
        const double rate,
        steady_rate_of(rig, *engine, target, way == "out" ? Direction::kOut : Direction::kIn,
                       millis(milliseconds)));
    fmt::print("{:.0f}\n", rate);
    return {};
  }

  Status measure(Rig& rig, const std::vector<Part>& parts) const {
    const LinkMap& map = rig.setup().map;
    for (const Direction direction : transfer::kBothDirections) {
      const auto best = transfer::best_set(map, target_, direction);
      fmt::print("best links by the map, {} of GPU {}: {} ({:.2f} GB/s)\n",
                 transfer::name_of(direction), target_, transfer::text_of(best.links),
                 transfer::bench::in_gb(best.rate));
    }
    TransferTable table;
    Report report([&](const transfer::bench::BenchRow& row) { table.show(row); });
    for (const Part& part : parts) {
      Status status = part.run(rig, report);
      if (!status.ok()) return status.error().with_context(part.name);
    }
    fmt::print("\n{}\n", transfer_bars_text(report.rows()));
    return write_json(json_file_,
                      {{"modelled", modelled_ > 0},
                       {"target", target_},
                       {"runs", rig.setup().runs},
                       {"large_bytes", rig.large().count},
                       {"link_map", nlohmann::ordered_json::parse(transfer::write_link_map(map))},
                       {"rows", transfer_rows_json(report.rows())}});
  }

  const Clock& clock_;
  std::vector<std::string> what_;
  bool quick_ = false;
  std::vector<std::uint64_t> sizes_;
  int runs_ = 0;
  int target_ = 0;
  int modelled_ = 0;
  std::uint64_t chunk_in_ = 0, chunk_out_ = 0, threshold_ = 0;
  int depth_ = 0;
  std::string json_file_, map_file_, steady_;
};

}  // namespace

std::unique_ptr<Command> make_bench_transfer(Options& parent, const Clock& clock) {
  return std::make_unique<BenchTransfer>(parent, clock);
}

}  // namespace causeway::app
