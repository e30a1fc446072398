#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/commands/measuring.h"
#include "bench/commands/profile_file.h"
#include "bench/home_slices.h"
#include "bench/model_shapes.h"
#include "commands/json_file.h"
#include "commands/model_config.h"

namespace causeway::app {
namespace {

using kernels::home_gemm::Home;
using kernels::home_gemm::HomeBenchOptions;
using kernels::home_gemm::HomeBenchRow;
using kernels::home_gemm::Profile;

class BenchGemm final : public Command {
 public:
  BenchGemm(Options& parent, const Clock& clock)
      : Command(parent, "gemm",
                "Time products whose weight is read at home, beside the link and every rival"),
        clock_(clock) {
    auto& app = options();
    app.add_option("--home", home_, "where the weight lies: host memory or a peer GPU's")
        .one_of({"host", "peer"})
        .show_default();
    app.add_option("--sms", processors_, "SMs of each slice (green contexts below all)")
        .range(1, 1024)
        .delimiter(',')
        .show_default();
    declare_shape();
    declare_planner();
    app.add_option("--at-once", at_once_,
                   "measure this many slices at the same time on one link instead, each with the "
                   "first value of --sms")
        .range(1, 64)
        .delimiter(',');
    app.add_option("--gpu", gpu_, "number of the GPU").non_negative();
    app.add_option("--runs", bench_.runs, "runs for each figure, of which the median is reported")
        .range(5, 1000)
        .show_default();
    app.add_option("--json", json_file_, "also write the rows to this file ('-': standard output)");
  }

  Status run() override {
    CAUSEWAY_TRY(prepare());
    CAUSEWAY_ASSIGN(const auto slices, HomeSlices::open(gpu_, clock_));
    CAUSEWAY_TRY(read_profile(*slices));
    CAUSEWAY_TRY(at_once_.empty() ? run_alone(*slices) : run_at_once(*slices));
    CAUSEWAY_TRY(write_json(json_file_, rows_));
    if (wrong_ > 0) return invalid_argument(fmt::format("{} results were wrong", wrong_));
    return {};
  }

 private:
  void declare_shape() {
    const auto count = [this](const char* name, auto& value, const char* what) {
      return options().add_option(name, value, what).show_default();
    };
    constexpr std::int64_t kMost = 1 << 20;
    count("--rows", bench_.rows, "M: rows of X").range(std::int64_t{1}, kMost).delimiter(',');
    count("--alpha-rows", bench_.alpha_rows, "values of M for which α is varied")
        .range(std::int64_t{1}, kMost)
        .delimiter(',');
    count("--alphas", bench_.alphas, "shares of columns that go the symmetric way")
        .range(0.0, 1.0)
        .delimiter(',');
    count("--n", shape_.n, "rows of the weight").range(std::int64_t{8}, kMost);
    count("--k", shape_.k, "columns of the weight").range(std::int64_t{8}, kMost);
    options()
        .add_option("--model", model_, "the weights of this model instead of --n and --k")
        .one_of(known_models());
    options()
        .add_option("--model-config", config_file_, "the same with a model's config.json")
        .existing_file();
    options()
        .add_option("--weights", weights_,
                    "only these weights of the model: qkv, o, gate_up, down, expert_gate_up, "
                    "expert_down, head")
        .delimiter(',');
  }

  void declare_planner() {
    auto& app = options();
    app.add_option("--ways", bench_.ways,
                   "only these rows, and resident: planned, staged, symmetric, ring, few-rows, "
                   "in-place, copy+gemm, chunked")
        .one_of({"planned", "staged", "symmetric", "ring", "few-rows", "in-place", "copy+gemm",
                 "chunked"})
        .delimiter(',');
    app.add_option("--profile", profile_file_,
                   "profile for the planner, written by `causeway profile`")
        .existing_file();
    app.add_option("--scratch-bytes", scratch_,
                   "HBM for pieces of the weight, or the ring; 0: as much as the weight")
        .in_bytes()
        .show_default();
    app.add_flag("--no-staging", no_staging_, "the planner may not use copy engines");
  }

  Status prepare() {
    bench_.home = *kernels::home_gemm::home_named(home_);
    bench_.scratch = Bytes(static_cast<std::int64_t>(scratch_));
    bench_.copies = !no_staging_;
    shapes_ = {{"", shape_.n, shape_.k}};
    if (!model_.empty() && !config_file_.empty()) {
      return invalid_argument("--model and --model-config exclude each other");
    }
    if (!model_.empty()) {
      CAUSEWAY_ASSIGN(shapes_, weight_shapes_of(model_));
    }
    if (!config_file_.empty()) {
      CAUSEWAY_ASSIGN(const auto config, read_model_config(config_file_));
      shapes_ = weight_shapes(config);
    }
    if (weights_.empty()) return {};
    std::erase_if(shapes_, [this](const WeightShape& shape) {
      return std::find(weights_.begin(), weights_.end(), shape.name) == weights_.end();
    });
    if (shapes_.empty()) return invalid_argument("--weights names none that the model has");
    return {};
  }

  Status read_profile(const HomeSlices& slices) {
    if (profile_file_.empty()) return {};
    CAUSEWAY_ASSIGN(const auto machines, read_profiles(profile_file_));
    const bool there = std::any_of(machines.begin(), machines.end(), [&](const auto& machine) {
      return machine.gpu == slices.gpu_name() && machine.home == bench_.home;
    });
    if (!there) {
      return not_found(
          fmt::format("{} has no entry of {} and home {}: measure it with `causeway "
                      "profile --out {}`",
                      profile_file_, slices.gpu_name(), home_, profile_file_));
    }
    CAUSEWAY_ASSIGN(const Profile profile, profile_for(machines, slices.gpu_name(), bench_.home));
    profile_ = profile;
    bench_.profile = &*profile_;
    return {};
  }

  Status run_alone(HomeSlices& slices) {
    print_header();
    for (const WeightShape& shape : shapes_) {
      HomeBenchOptions options = bench_;
      options.shape = {shape.n, shape.k};
      if (!shape.name.empty()) fmt::print("{}: {} × {}\n", shape.name, shape.n, shape.k);
      for (const int processors : processors_) {
        CAUSEWAY_TRY(slices.measure(processors, options, [&](int sms, const HomeBenchRow& row) {
          print_row(sms, row);
          rows_.push_back(json_of(sms, shape, row));
        }));
      }
    }
    return {};
  }

  // The paper's Fig. 6: what slices that share a link make of it.
  Status run_at_once(HomeSlices& slices) {
    fmt::print("{:<16} {:>6} {:>7} {:>4} {:<12} {:>11} {:>9} {:>9}\n", "weight", "M", "slices",
               "SMs", "way", "ms, slowest", "W GB/s", "of alone");
    for (const WeightShape& shape : shapes_) {
      for (const std::int64_t m : bench_.rows) {
        double alone = 0;
        for (const int count : at_once_) {
          SliceLoadSpec spec;
          spec.processors = processors_.front();
          spec.product = bench_;
          spec.product.shape = {shape.n, shape.k};
          spec.m = m;
          const std::vector<SliceLoadSpec> specs(static_cast<std::size_t>(count), spec);
          CAUSEWAY_ASSIGN(const auto results, slices.together(specs, seconds(1)));
          print_together(shape, m, results, alone);
        }
      }
    }
    return {};
  }

  // `alone`: the first figure of this product, to which the others are compared.
  void print_together(const WeightShape& shape, std::int64_t m,
                      const std::vector<SliceLoadResult>& results, double& alone) {
    double slowest = 0, rate = 0;
    for (const SliceLoadResult& one : results) {
      slowest = std::max(slowest, one.median_ms);
      rate += one.link_bytes_per_s;
    }
    if (alone == 0) alone = slowest;
    const SliceLoadResult& first = results.front();
    fmt::print("{:<16} {:>6} {:>7} {:>4} {:<12} {:>11.3f} {:>9.1f} {:>8.2f}×\n", label(shape), m,
               results.size(), first.processors, first.name, slowest, rate * 1e-9, slowest / alone);
    rows_.push_back({{"home", home_},
                     {"slices", results.size()},
                     {"sms", first.processors},
                     {"way", first.name},
                     {"m", m},
                     {"n", shape.n},
                     {"k", shape.k},
                     {"ms_slowest", slowest},
                     {"link_gb_per_s", rate * 1e-9},
                     {"of_first", slowest / alone}});
  }

  static std::string label(const WeightShape& shape) {
    return shape.name.empty() ? fmt::format("{}×{}", shape.n, shape.k) : shape.name;
  }

  static void print_header() {
    fmt::print("{:<5} {:>4} {:>6} {:<12} {:>5} {:>9} {:>19} {:>8} {:>9} {:>8} {:>8}\n", "home",
               "SMs", "M", "way", "alpha", "ms", "fastest – slowest", "W GB/s", "TFLOP/s", "error",
               "× limit");
  }

  static double ratio(const HomeBenchRow& row) {
    return row.limit_ms > 0 ? row.median_ms / row.limit_ms : 0;
  }

  void print_row(int processors, const HomeBenchRow& row) {
    const double seconds = row.median_ms * 1e-3;
    const auto elements = static_cast<double>(row.n * row.k);
    fmt::print(
        "{:<5} {:>4} {:>6} {:<12} {:>5.3f} {:>9.3f} {:>19} {:>8.1f} {:>9.1f} {:>8.1e} {:>8} "
        "{}{}\n",
        home_, processors, row.m, row.way, row.alpha, row.median_ms,
        fmt::format("{:.3f} – {:.3f}", row.lowest_ms, row.highest_ms), 2e-9 * elements / seconds,
        2e-12 * static_cast<double>(row.m) * elements / seconds, row.error,
        ratio(row) > 0 ? fmt::format("{:.3f}", ratio(row)) : "", row.note,
        row.right ? "" : "  WRONG");
    wrong_ += row.right ? 0 : 1;
  }

  nlohmann::ordered_json json_of(int processors, const WeightShape& shape,
                                 const HomeBenchRow& row) const {
    return {{"home", home_},
            {"sms", processors},
            {"way", row.way},
            {"note", row.note},
            {"model", model_},
            {"weight", shape.name},
            {"m", row.m},
            {"n", row.n},
            {"k", row.k},
            {"alpha", row.alpha},
            {"ms", row.median_ms},
            {"ms_low", row.lowest_ms},
            {"ms_high", row.highest_ms},
            {"limit_ms", row.limit_ms},
            {"ratio", ratio(row)},
            {"runs", bench_.runs},
            {"error", row.error},
            {"cluster", row.cluster_ctas},
            {"sym_ctas", row.symmetric_ctas},
            {"link_gb", static_cast<double>(row.link_bytes.count) * 1e-9},
            {"hbm_gb", static_cast<double>(row.hbm_bytes.count) * 1e-9}};
  }

  const Clock& clock_;
  HomeBenchOptions bench_;
  kernels::home_gemm::HomeBenchShape shape_;
  std::vector<WeightShape> shapes_;
  std::vector<int> processors_ = {132, 56, 32, 16};
  std::vector<int> at_once_;
  std::string home_ = "host";
  std::string model_, config_file_, profile_file_, json_file_;
  std::vector<std::string> weights_;
  std::uint64_t scratch_ = 0;
  bool no_staging_ = false;
  int gpu_ = 0;
  std::optional<Profile> profile_;
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
  int wrong_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_bench_gemm(Options& parent, const Clock& clock) {
  return std::make_unique<BenchGemm>(parent, clock);
}

}  // namespace causeway::app
