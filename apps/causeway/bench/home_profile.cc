#include "bench/home_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace causeway::app {
namespace {

using kernels::home_gemm::Beside;
using kernels::home_gemm::Home;
using kernels::home_gemm::HomeBenchOptions;
using kernels::home_gemm::HomeBenchRow;
using kernels::home_gemm::HomeBenchShape;
using kernels::home_gemm::MachineProfile;
using kernels::home_gemm::Point;
using kernels::home_gemm::Way;

constexpr int kBesideProcessors = 56;  // of the product, and as many of the neighbour
constexpr std::int64_t kBesideRows = 16;

HomeBenchOptions options_of(Home home, const HomeProfileSettings& settings,
                            const HomeBenchShape& shape) {
  HomeBenchOptions options;
  options.home = home;
  options.shape = shape;
  options.rows = settings.rows;
  options.alpha_rows.clear();
  options.runs = settings.runs;
  options.ways = {"resident"};
  for (const Way way : kernels::home_gemm::kWays) options.ways.emplace_back(name_of(way));
  return options;
}

double gb_per_s(const HomeBenchRow& row) {
  return static_cast<double>(row.n * row.k * 2) / row.median_ms * 1e-6;
}

// Rows of one GPU and home, gathered.
class Gathered {
 public:
  void add(int processors, const HomeBenchRow& row) {
    if (!row.right && wrong_.empty()) {
      wrong_ = fmt::format("{} SMs, {} × {}, M {}: {} gave a wrong result", processors, row.n,
                           row.k, row.m, row.way);
    }
    // The best of what shapes and slices saw is the link's.
    if (row.way == "copy") profile_.copy_gb_per_s = std::max(profile_.copy_gb_per_s, gb_per_s(row));
    if (row.way == "floor") {
      profile_.read_gb_per_s = std::max(profile_.read_gb_per_s, gb_per_s(row));
    }
    if (const auto point = point_of(row, processors)) profile_.points.push_back(*point);
  }
  const std::string& wrong() const { return wrong_; }
  MachineProfile& profile() { return profile_; }

 private:
  MachineProfile profile_;
  std::string wrong_;
};

// A product by one way and a neighbour: each alone, then both at once.
Result<Beside> measure_beside(HomeSlices& slices, const HomeBenchOptions& options, Way way,
                              Nanos length) {
  SliceLoadSpec product;
  product.processors = kBesideProcessors;
  product.product = options;
  product.m = kBesideRows;
  product.way = way;
  SliceLoadSpec neighbour;
  neighbour.processors = kBesideProcessors;
  neighbour.reads_hbm = true;
  const std::vector<SliceLoadSpec> both = {product, neighbour};
  CAUSEWAY_ASSIGN(const auto product_alone, slices.together(std::span(&product, 1), length));
  CAUSEWAY_ASSIGN(const auto neighbour_alone, slices.together(std::span(&neighbour, 1), length));
  CAUSEWAY_ASSIGN(const auto beside, slices.together(both, length));
  return Beside{.product = std::max(1.0, beside[0].median_ms / product_alone[0].median_ms),
                .neighbour = std::max(1.0, beside[1].median_ms / neighbour_alone[0].median_ms)};
}

}  // namespace

HomeProfileSettings HomeProfileSettings::whole() {
  return {.shapes = {{2048, 2048}, {6144, 4096}, {16384, 4096}, {28672, 8192}},
          .rows = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 10240},
          .processors = {16, 32, 56, 1024}};
}

HomeProfileSettings HomeProfileSettings::quick() {
  return {.shapes = {{2048, 2048}, {16384, 4096}},
          .rows = {1, 16, 128, 1024, 4096},
          .processors = {16, 1024},
          .beside = nanos_from_seconds(0.3)};
}

std::optional<Point> point_of(const HomeBenchRow& row, int processors) {
  const auto way = kernels::home_gemm::way_named(row.way);
  if (row.m < 1 || (!way && row.way != "resident")) return std::nullopt;
  return Point{.way = way,
               .n = row.n,
               .k = row.k,
               .m = row.m,
               .sms = processors,
               .seconds = row.median_ms * 1e-3};
}

Result<MachineProfile> measure_home_profile(HomeSlices& slices, Home home,
                                            const HomeProfileSettings& settings,
                                            const HomeProfileProgress& progress) {
  Gathered gathered;
  gathered.profile().gpu = slices.gpu_name();
  gathered.profile().home = home;
  const std::size_t all = settings.shapes.size() * settings.processors.size() + 1;
  std::size_t done = 0;
  for (const int processors : settings.processors) {
    for (const HomeBenchShape& shape : settings.shapes) {
      const auto options = options_of(home, settings, shape);
      CAUSEWAY_TRY(slices.measure(processors, options, [&](int sms, const HomeBenchRow& row) {
        gathered.add(sms, row);
        progress(done, all,
                 fmt::format("{}, {} SMs, {} × {}, M {}: {} {:.3f} ms", name_of(home), sms, row.n,
                             row.k, row.m, row.way, row.median_ms));
      }));
      ++done;
    }
  }
  if (!gathered.wrong().empty()) return corrupt(gathered.wrong());
  const auto options = options_of(home, settings, settings.shapes.back());
  progress(done, all, fmt::format("{}, beside a neighbour", name_of(home)));
  CAUSEWAY_ASSIGN(gathered.profile().staged,
                  measure_beside(slices, options, Way::kStaged, settings.beside));
  CAUSEWAY_ASSIGN(gathered.profile().in_place,
                  measure_beside(slices, options, Way::kSymmetric, settings.beside));
  return gathered.profile();
}

std::vector<MachineProfile> merged(std::vector<MachineProfile> old,
                                   const std::vector<MachineProfile>& measured) {
  for (const MachineProfile& entry : measured) {
    const auto same = std::find_if(old.begin(), old.end(), [&](const MachineProfile& one) {
      return one.gpu == entry.gpu && one.home == entry.home;
    });
    if (same == old.end()) {
      old.push_back(entry);
    } else {
      *same = entry;
    }
  }
  return old;
}

}  // namespace causeway::app
