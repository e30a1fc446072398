#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/commands/measuring.h"
#include "bench/commands/slice_options.h"
#include "bench/kv_bench.h"
#include "commands/json_file.h"
#include "commands/model_config.h"
#include "commands/print_step.h"

namespace causeway::app {
namespace {

constexpr std::uint64_t kBlockMin = 64, kBlockMax = std::uint64_t{32} << 20;  // of an extent
constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 40;

double in_gib(Bytes bytes) { return static_cast<double>(bytes.count) / (1 << 30); }

class BenchKv final : public Command {
 public:
  BenchKv(Options& parent, const Clock& clock)
      : Command(
            parent, "kv",
            "Rotate KV between HBM and host memory in several ways, beside the link's raw limit"),
        clock_(clock) {
    declare_what();
    declare_where();
  }

  Status run() override {
    CAUSEWAY_ASSIGN(const bench::KvBenchSettings settings, this->settings());
    CAUSEWAY_ASSIGN(const auto report, bench::bench_kv(settings, clock_));
    print_sizes(settings, report);
    bench::print_figures(report.rows);
    return write_json(json_file_, bench::report_json(settings, report));
  }

 private:
  void declare_what() {
    auto& app = options();
    app.add_option("--bytes", bytes_,
                   "bytes to move, half of them each way; fewer if memory is short")
        .in_bytes()
        .range(std::uint64_t{2} * kBlockMin, kBytesMax)
        .show_default("16GB");
    app.add_option("--block-bytes", block_, "size of a block and its frame, a power of two")
        .in_bytes()
        .range(kBlockMin, kBlockMax)
        .show_default("4MB");
    app.add_option("--model-config", config_files_,
                   "config.json of a model whose blocks also move layer by layer; several: one "
                   "after the other (default: Llama-3-8B, Qwen3-32B, Llama-3-70B)")
        .one_value()
        .existing_file();
    app.add_option("--per-step", settings_.pace.blocks_per_step,
                   "blocks that a step of the engine moves each way")
        .range(std::int64_t{1}, std::int64_t{1} << 20)
        .show_default();
    app.add_option("--steps-in-flight", settings_.pace.steps_in_flight,
                   "steps whose blocks are under way at the same time")
        .range(1, 8)
        .show_default();
    app.add_option("--runs", settings_.runs,
                   "runs for each figure, of which the median is reported")
        .range(5, 1000)
        .show_default();
    app.add_option("--json", json_file_, "also write the report to this file ('-': output)");
  }

  void declare_where() {
    auto& app = options();
    app.add_option("--device", device_, "device: cpu or cuda")
        .one_of({"cpu", "cuda"})
        .show_default();
    app.add_option("--gpu", settings_.stage.gpu, "number of the GPU").range(0, 63).show_default();
    app.add_option("--modelled-link", settings_.stage.modelled_link,
                   "on the CPU: bytes per second each way that the modelled link gives")
        .range(1e6, 1e12)
        .show_default();
  }

  Result<bench::KvBenchSettings> settings() const {
    bench::KvBenchSettings settings = settings_;
    settings.stage.on_gpu = device_ != "cpu";
    settings.stage.bytes = Bytes(static_cast<std::int64_t>(bytes_));
    settings.stage.block = Bytes(static_cast<std::int64_t>(block_));
    settings.progress = print_step;
    settings.shapes = bench::usual_kv_shapes();
    if (config_files_.empty()) return settings;
    settings.shapes.clear();
    for (const std::string& file : config_files_) {
      CAUSEWAY_ASSIGN(const model::ModelConfig config, read_model_config(file));
      settings.shapes.push_back({model_name_of(file), model::kv_shape(config, DType::kBF16)});
    }
    return settings;
  }

  static void print_sizes(const bench::KvBenchSettings& settings,
                          const bench::KvBenchReport& report) {
    const Bytes each_way = settings.stage.block * report.blocks;
    fmt::print("{:.3f} GiB each way: {} blocks of {} KiB, {} of them a step\n", in_gib(each_way),
               report.blocks, settings.stage.block.count >> 10, settings.pace.blocks_per_step);
    if (each_way * 2 + settings.stage.block * 2 <= settings.stage.bytes) {
      fmt::print("memory lacks for the {:.3f} GiB that were asked for\n",
                 in_gib(settings.stage.bytes));
    }
    for (const bench::KvShapeFacts& shape : report.shapes) {
      fmt::print("{}: {} tokens use {:.1f} % of a block; by layers {} copies of {} bytes for {}\n",
                 shape.name, shape.frame_tokens.count, 100 * shape.frame_used, shape.layered.parts,
                 shape.layered.segment.count, bench::kLayeredTokens);
    }
    fmt::print("\n");
  }

  const Clock& clock_;
  bench::KvBenchSettings settings_;
  std::uint64_t bytes_ = std::uint64_t{16} << 30;
  std::uint64_t block_ = std::uint64_t{4} << 20;
  std::vector<std::string> config_files_;
  std::string device_ = "cuda";
  std::string json_file_;
};

}  // namespace

std::unique_ptr<Command> make_bench_kv(Options& parent, const Clock& clock) {
  return std::make_unique<BenchKv>(parent, clock);
}

}  // namespace causeway::app
