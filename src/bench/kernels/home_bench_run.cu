#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "bench/kernels/cuda_timer.h"
#include "bench/kernels/home_bench.h"
#include "bench/kernels/home_bench_library.cuh"
#include "bench/kernels/home_bench_product.cuh"
#include "kernels/cuda_status.cuh"
#include "kernels/home_gemm/traffic.h"

namespace causeway::kernels::home_gemm {
namespace {

constexpr int kChunks = 16;
constexpr double kErrorMax = 5e-3;  // of the norm: bf16 results of sums in another order
// What one SM that only relays brings (hybrid_gemm.h).
constexpr double kRelayHost = 13.0, kRelayPeer = 26.0;

struct DestroyEvent {
  void operator()(CUevent_st* event) const { (void)cudaEventDestroy(event); }
};
struct DestroyStream {
  void operator()(CUstream_st* stream) const { (void)cudaStreamDestroy(stream); }
};
using Event = std::unique_ptr<CUevent_st, DestroyEvent>;

Result<Event> make_event() {
  cudaEvent_t event = nullptr;
  CAUSEWAY_TRY(cuda_status(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event"));
  return Event(event);
}

Status status_of(const Result<double>& result) {
  return result.ok() ? Status() : Status(result.error());
}

class Bench {
 public:
  Bench(const HomeBenchOptions& options, const HomeBenchPlace& place,
        const HomeBenchProgress& progress)
      : options_(options), place_(place), stream_(place.stream), progress_(progress) {}

  Status prepare();
  Status run();
  std::vector<HomeBenchRow> take() { return std::move(rows_); }

 private:
  using Work = std::function<Status()>;

  Status measure_link();
  Status run_rivals(std::int64_t m);
  Status run_ways(std::int64_t m);
  Status run_planned(std::int64_t m);
  Status sweep(std::int64_t m);
  Status run_hybrid(std::int64_t m, const char* name, double alpha, int cluster);
  Status chunked(std::int64_t m);
  Status copy(void* target);
  Status library(std::int64_t m, const void* w, void* o);
  Result<double> time_once(const Work& work);
  Result<double> time(HomeBenchRow row, const Work& work);
  Result<double> check_and_time(HomeBenchRow row, const Work& work);

  // The rest of a row about a product.
  HomeBenchRow row_of(const std::string& name, std::int64_t m, const TrafficOf& of) const {
    HomeBenchRow row;
    row.way = name;
    row.m = m;
    const Traffic moved = traffic({.m = m, .n = n(), .k = k()}, of);
    row.link_bytes = moved.link;
    row.hbm_bytes = moved.hbm;
    return row;
  }
  bool wanted(std::string_view way) const {
    const auto& ways = options_.ways;
    return ways.empty() || std::find(ways.begin(), ways.end(), way) != ways.end();
  }
  std::int64_t n() const { return options_.shape.n; }
  std::int64_t k() const { return options_.shape.k; }

  const HomeBenchOptions& options_;
  HomeBenchPlace place_;
  CudaStream stream_;
  const HomeBenchProgress& progress_;
  std::vector<HomeBenchRow> rows_;
  std::unique_ptr<HomeProduct> product_;
  DeviceMemory expected_;  // [m_max × n]
  DeviceMemory library_workspace_, sums_, sink_;
  std::unique_ptr<LibraryProducts> library_;
  std::unique_ptr<CUstream_st, DestroyStream> copies_;
  std::array<Event, 2> landed_, used_;
  double link_gb_per_s_ = 0;
  double resident_ms_ = 0;  // of this M's product with W in HBM; 0 before it is known
};

Status Bench::prepare() {
  const std::int64_t m = *std::max_element(options_.rows.begin(), options_.rows.end());
  CAUSEWAY_ASSIGN(product_, HomeProduct::create(options_, m, place_));
  CAUSEWAY_ASSIGN(expected_, device_memory(m * n() * 2, "memory for O"));
  CAUSEWAY_ASSIGN(library_workspace_, device_memory(LibraryProducts::kWorkspace, "scratch"));
  CAUSEWAY_ASSIGN(sums_, device_memory(2 * sizeof(double), "scratch"));
  CAUSEWAY_ASSIGN(sink_, device_memory(sizeof(unsigned), "scratch"));
  cudaStream_t copies = nullptr;
  CAUSEWAY_TRY(cuda_status(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking), "a stream"));
  copies_.reset(copies);
  for (std::size_t i = 0; i < landed_.size(); ++i) {
    CAUSEWAY_ASSIGN(landed_[i], make_event());
    CAUSEWAY_ASSIGN(used_[i], make_event());
  }
  CAUSEWAY_ASSIGN(library_,
                  LibraryProducts::create({.n = n(), .k = k(), .processors = place_.processors},
                                          library_workspace_.get()));
  return {};
}

double median_of(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

Result<double> Bench::time_once(const Work& work) {
  CAUSEWAY_ASSIGN(const Nanos took, bench::time_on_gpu(work, stream_));
  return static_cast<double>(took.count) * 1e-6;
}

// The median, in ms. A product is held against copies of W in turns with it, since on a machine
// shared with others the link alone was seen at less than half its rate for 40 ms at a time.
Result<double> Bench::time(HomeBenchRow row, const Work& work) {
  const bool limited = resident_ms_ > 0;
  std::vector<double> all, copies;
  for (std::int64_t i = -2; i < options_.runs; ++i) {
    if (limited) {
      CAUSEWAY_ASSIGN(const double copied, time_once([&] { return copy(product_->resident()); }));
      if (i >= 0) copies.push_back(copied);
    }
    CAUSEWAY_ASSIGN(const double took, time_once(work));
    if (i >= 0) all.push_back(took);
  }
  row.n = n();
  row.k = k();
  row.median_ms = median_of(all);
  row.lowest_ms = *std::min_element(all.begin(), all.end());
  row.highest_ms = *std::max_element(all.begin(), all.end());
  row.limit_ms = limited ? std::max(median_of(copies), resident_ms_) : 0;
  rows_.push_back(row);
  if (progress_) progress_(row);
  return row.median_ms;
}

// With O poisoned before.
Result<double> Bench::check_and_time(HomeBenchRow row, const Work& work) {
  const std::int64_t size = row.m * n();
  CAUSEWAY_TRY(
      cuda_status(cudaMemsetAsync(product_->o(), 0xFF, static_cast<std::size_t>(size) * 2, stream_),
                  "poisoning O"));
  CAUSEWAY_TRY(work());
  CAUSEWAY_ASSIGN(row.error,
                  relative_error(product_->o(), expected_.get(), size, sums_.get(), stream_));
  row.right = row.error <= kErrorMax;
  return time(std::move(row), work);
}

Status Bench::copy(void* target) {
  return cuda_status(
      cudaMemcpyAsync(target, product_->w(), static_cast<std::size_t>(product_->w_bytes()),
                      cudaMemcpyDefault, stream_),
      "copying W");
}

Status Bench::library(std::int64_t m, const void* w, void* o) {
  return library_->run(m, n(), {.x = product_->x(), .w = w, .o = o}, stream_);
}

Status Bench::measure_link() {
  HomeBenchRow row;
  row.link_bytes = Bytes(product_->w_bytes());
  row.way = "floor";
  CAUSEWAY_ASSIGN(const double floor_ms, time(row, [&] {
                    return read_once(product_->w(), product_->w_bytes(), place_.processors,
                                     sink_.get(), stream_);
                  }));
  link_gb_per_s_ = static_cast<double>(product_->w_bytes()) / floor_ms * 1e-6;
  row.way = "copy";
  return status_of(time(row, [&] { return copy(product_->resident()); }));
}

// Equal column chunks copied into two buffers by turns while the chunk before is multiplied.
Status Bench::chunked(std::int64_t m) {
  const std::int64_t columns = n() / kChunks;
  const std::int64_t bytes = columns * k() * 2;
  for (const Event& event : used_) {
    CAUSEWAY_TRY(cuda_status(cudaEventRecord(event.get(), stream_), "an event"));
  }
  for (int c = 0; c < kChunks; ++c) {
    const auto side = static_cast<std::size_t>(c % 2);
    char* const target = static_cast<char*>(product_->scratch()) + c % 2 * bytes;
    CAUSEWAY_TRY(cuda_status(cudaStreamWaitEvent(copies_.get(), used_[side].get(), 0), "waiting"));
    CAUSEWAY_TRY(cuda_status(
        cudaMemcpyAsync(target, static_cast<const char*>(product_->w()) + c * bytes,
                        static_cast<std::size_t>(bytes), cudaMemcpyDefault, copies_.get()),
        "copying a chunk"));
    CAUSEWAY_TRY(cuda_status(cudaEventRecord(landed_[side].get(), copies_.get()), "an event"));
    CAUSEWAY_TRY(cuda_status(cudaStreamWaitEvent(stream_, landed_[side].get(), 0), "waiting"));
    char* const o = static_cast<char*>(product_->o()) + c * columns * 2;
    CAUSEWAY_TRY(library_->run(m, columns, {.x = product_->x(), .w = target, .o = o}, stream_));
    CAUSEWAY_TRY(cuda_status(cudaEventRecord(used_[side].get(), stream_), "an event"));
  }
  return {};
}

// With the resident product first: it says what the others are held against.
Status Bench::run_rivals(std::int64_t m) {
  resident_ms_ = 0;
  HomeBenchRow resident = row_of("resident", m, {.way = Way::kFewRows});
  resident.link_bytes = {};
  resident.hbm_bytes += Bytes(product_->w_bytes());
  CAUSEWAY_ASSIGN(resident_ms_, check_and_time(resident, [&] {
                    return library(m, product_->resident(), product_->o());
                  }));
  if (wanted("copy+gemm")) {
    const auto work = [&]() -> Status {
      CAUSEWAY_TRY(copy(product_->resident()));
      return library(m, product_->resident(), product_->o());
    };
    CAUSEWAY_TRY(status_of(check_and_time(row_of("copy+gemm", m, {.way = Way::kStaged}), work)));
  }
  const bool fits = 2 * product_->w_bytes() / kChunks <= product_->scratch_bytes();
  if (!wanted("chunked") || n() % (8 * kChunks) != 0 || !fits) return {};
  return status_of(check_and_time(row_of("chunked", m, {.way = Way::kStaged, .pieces = kChunks}),
                                  [&] { return chunked(m); }));
}

// Nothing of a way that cannot do the product on this slice.
Status Bench::run_ways(std::int64_t m) {
  for (const Way way : kWays) {
    if (!wanted(name_of(way))) continue;
    const auto plan = product_->plan(m, way);
    if (!plan.ok()) continue;
    HomeBenchRow row = row_of(std::string(name_of(way)), m, traffic_of(*plan));
    row.cluster_ctas = plan->hybrid.cluster_ctas;
    row.symmetric_ctas = plan->hybrid.symmetric_ctas;
    row.alpha = way == Way::kSymmetric ? 1.0 : 0.0;
    if (way == Way::kStaged) row.note = std::to_string(plan->chunks.size()) + " pieces";
    CAUSEWAY_TRY(status_of(check_and_time(row, [&] { return product_->run(*plan); })));
  }
  return {};
}

Status Bench::run_planned(std::int64_t m) {
  if (!wanted("planned")) return {};
  CAUSEWAY_ASSIGN(const Plan plan, product_->plan(m, std::nullopt));
  HomeBenchRow row = row_of("planned", m, traffic_of(plan));
  row.note = name_of(plan.way);
  if (plan.way == Way::kStaged) row.note += ", " + std::to_string(plan.chunks.size()) + " pieces";
  return status_of(check_and_time(row, [&] { return product_->run(plan); }));
}

// Nothing when there is no such plan for the slice.
Status Bench::run_hybrid(std::int64_t m, const char* name, double alpha, int cluster) {
  const Facts& facts = product_->facts();
  const auto plan = hybrid_gemm::choose(
      {.shape = {m, n(), k()}, .alpha = alpha, .cluster_ctas = cluster},
      {.sm_count = facts.sm_count,
       .clusters = facts.clusters,
       .link_gb_per_s = link_gb_per_s_,
       .relay_gb_per_s = options_.home == Home::kHost ? kRelayHost : kRelayPeer});
  if (!plan.ok() || plan->workspace.count > product_->scratch_bytes()) return {};
  HomeBenchRow row;
  row.way = name;
  row.m = m;
  row.alpha = alpha;
  row.cluster_ctas = plan->cluster_ctas;
  row.symmetric_ctas = plan->symmetric_ctas;
  row.link_bytes = plan->link_bytes;
  row.hbm_bytes = plan->hbm_bytes;
  return status_of(check_and_time(row, [&] { return product_->run(*plan); }));
}

Status Bench::sweep(std::int64_t m) {
  const auto& of = options_.alpha_rows;
  if (!options_.ways.empty() || std::find(of.begin(), of.end(), m) == of.end()) return {};
  CAUSEWAY_TRY(run_hybrid(m, "symmetric-1", 1.0, 1));
  for (const double alpha : options_.alphas) CAUSEWAY_TRY(run_hybrid(m, "ring", alpha, 0));
  return {};
}

Status Bench::run() {
  CAUSEWAY_TRY(measure_link());
  for (const std::int64_t m : options_.rows) {
    CAUSEWAY_TRY(library(m, product_->resident(), expected_.get()));
    CAUSEWAY_TRY(run_rivals(m));
    CAUSEWAY_TRY(run_ways(m));
    CAUSEWAY_TRY(run_planned(m));
    CAUSEWAY_TRY(sweep(m));
  }
  return {};
}

Status check_options(const HomeBenchOptions& options) {
  if (options.rows.empty()) return invalid_argument("no row counts to measure");
  const HomeBenchShape& s = options.shape;
  if (s.n < 8 || s.k < 8 || s.n % 8 != 0 || s.k % 8 != 0) {
    return invalid_argument("N and K must be multiples of 8");
  }
  if (options.runs < 1) return invalid_argument("at least one run of each figure");
  for (const std::int64_t m : options.rows) {
    if (m < 1) return invalid_argument("row counts begin at 1");
  }
  return {};
}

}  // namespace

Result<std::vector<HomeBenchRow>> run_home_benchmarks(const HomeBenchOptions& options,
                                                      const HomeBenchPlace& place,
                                                      const HomeBenchProgress& progress) {
  CAUSEWAY_TRY(check_options(options));
  Bench bench(options, place, progress);
  CAUSEWAY_TRY(bench.prepare());
  CAUSEWAY_TRY(bench.run());
  return bench.take();
}

}  // namespace causeway::kernels::home_gemm
