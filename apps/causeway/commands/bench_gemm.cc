#include <fmt/format.h>

#include <map>

#include <nlohmann/json.hpp>

#include "bench/gemm_at_home.h"
#include "commands/command.h"
#include "commands/json_file.h"

namespace causeway::app {
namespace {

using kernels::hybrid_gemm::HomeBenchRow;
using kernels::hybrid_gemm::WeightHome;

const std::map<std::string, WeightHome> kHomes = {{"host", WeightHome::kHost},
                                                  {"peer", WeightHome::kPeer}};

class BenchGemm final : public Command {
 public:
  BenchGemm(CLI::App& parent, const Clock& clock)
      : Command(parent, "gemm",
                "Time products whose weight is read at home, beside the link and every rival"),
        clock_(clock) {
    auto& app = options();
    app.add_option("--home", home_, "where the weight lies: host memory or a peer GPU's")
        ->check(CLI::IsMember({"host", "peer"}))
        ->capture_default_str();
    app.add_option("--sms", set_.processors, "SMs of each slice (green contexts below all)")
        ->check(CLI::Range(1, 1024))
        ->delimiter(',')
        ->capture_default_str();
    declare_shape();
    app.add_option("--gpu", set_.gpu, "which GPU")->check(CLI::NonNegativeNumber);
    app.add_option("--runs", set_.bench.runs, "of each figure; the median is reported")
        ->check(CLI::Range(5, 1000))
        ->capture_default_str();
    app.add_option("--json", json_file_, "also write the rows to this file ('-': standard output)");
  }

  Status run() override {
    set_.bench.home = kHomes.at(home_);
    print_header();
    CAUSEWAY_TRY(bench_gemm_at_home(set_, clock_, [this](int processors, const HomeBenchRow& row) {
      print_row(processors, row);
      rows_.push_back(json_of(processors, row));
    }));
    CAUSEWAY_TRY(write_json(json_file_, rows_));
    if (wrong_ > 0) return invalid_argument(fmt::format("{} results were wrong", wrong_));
    return {};
  }

 private:
  void declare_shape() {
    const auto count = [this](const char* name, auto& value, const char* what) {
      return options().add_option(name, value, what)->capture_default_str();
    };
    constexpr std::int64_t kMost = 1 << 20;
    count("--rows", set_.bench.rows, "M: rows of X")
        ->check(CLI::Range(std::int64_t{1}, kMost))
        ->delimiter(',');
    count("--alpha-rows", set_.bench.alpha_rows, "those of M with a sweep of α")
        ->check(CLI::Range(std::int64_t{1}, kMost))
        ->delimiter(',');
    count("--alphas", set_.bench.alphas, "shares of columns that go the symmetric way")
        ->check(CLI::Range(0.0, 1.0))
        ->delimiter(',');
    count("--n", set_.bench.n, "rows of the weight")->check(CLI::Range(std::int64_t{8}, kMost));
    count("--k", set_.bench.k, "columns of the weight")->check(CLI::Range(std::int64_t{8}, kMost));
  }

  static void print_header() {
    fmt::print("{:<5} {:>4} {:>6} {:<12} {:>5} {:>9} {:>19} {:>8} {:>9} {:>8}\n", "home", "SMs",
               "M", "way", "alpha", "ms", "fastest – slowest", "W GB/s", "TFLOP/s", "error");
  }

  void print_row(int processors, const HomeBenchRow& row) {
    const double seconds = row.median_ms * 1e-3;
    const auto elements = static_cast<double>(set_.bench.n * set_.bench.k);
    fmt::print("{:<5} {:>4} {:>6} {:<12} {:>5.3f} {:>9.3f} {:>19} {:>8.1f} {:>9.1f} {:>8.1e}{}\n",
               home_, processors, row.m, row.way, row.alpha, row.median_ms,
               fmt::format("{:.3f} – {:.3f}", row.lowest_ms, row.highest_ms),
               2e-9 * elements / seconds, 2e-12 * static_cast<double>(row.m) * elements / seconds,
               row.error, row.right ? "" : "  WRONG");
    wrong_ += row.right ? 0 : 1;
  }

  nlohmann::ordered_json json_of(int processors, const HomeBenchRow& row) const {
    return {{"home", home_},
            {"sms", processors},
            {"way", row.way},
            {"m", row.m},
            {"n", set_.bench.n},
            {"k", set_.bench.k},
            {"alpha", row.alpha},
            {"ms", row.median_ms},
            {"ms_low", row.lowest_ms},
            {"ms_high", row.highest_ms},
            {"runs", set_.bench.runs},
            {"error", row.error},
            {"cluster", row.cluster_ctas},
            {"sym_ctas", row.symmetric_ctas},
            {"link_gb", static_cast<double>(row.link_bytes.count) * 1e-9}};
  }

  const Clock& clock_;
  GemmAtHomeSettings set_;
  std::string home_ = "host";
  std::string json_file_;
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
  int wrong_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_bench_gemm(CLI::App& parent, const Clock& clock) {
  return std::make_unique<BenchGemm>(parent, clock);
}

}  // namespace causeway::app
