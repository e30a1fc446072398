#include "bench/kernels/home_bench_product.cuh"

#include <algorithm>
#include <utility>

#include "bench/kernels/cuda_limits.h"
#include "bench/kernels/cuda_timer.h"
#include "kernels/cuda_status.cuh"

namespace causeway::kernels::home_gemm {
namespace {

// What products in place and their pieces take: cuBLASLt's, in which kSplit's sums find room.
constexpr Bytes kWorkspace = gemm::kFlagBytes + gemm::kLibraryBytes;
constexpr std::int64_t kRingBytes = std::int64_t{34} << 20;  // the least scratch when it is chosen

class ProductLoad final : public SliceLoad {
 public:
  ProductLoad(std::unique_ptr<HomeProduct> product, Plan plan, CudaStream stream)
      : product_(std::move(product)), plan_(std::move(plan)), stream_(stream) {}

  Result<Nanos> run() override {
    return bench::time_on_gpu([this] { return product_->run(plan_); }, stream_);
  }
  Bytes link_bytes() const override { return Bytes(product_->w_bytes()); }
  std::string name() const override { return std::string(name_of(plan_.way)); }

 private:
  std::unique_ptr<HomeProduct> product_;
  Plan plan_;
  CudaStream stream_;
};

class ReadLoad final : public SliceLoad {
 public:
  ReadLoad(DeviceMemory memory, DeviceMemory sink, Bytes bytes, const HomeBenchPlace& place)
      : memory_(std::move(memory)), sink_(std::move(sink)), bytes_(bytes), place_(place) {}

  Result<Nanos> run() override {
    return bench::time_on_gpu(
        [this] {
          return read_once(memory_.get(), bytes_.count, place_.processors, sink_.get(),
                           place_.stream);
        },
        place_.stream);
  }
  Bytes link_bytes() const override { return {}; }
  std::string name() const override { return "neighbour"; }

 private:
  DeviceMemory memory_, sink_;
  Bytes bytes_;
  HomeBenchPlace place_;
};

}  // namespace

Result<std::unique_ptr<HomeProduct>> HomeProduct::create(const HomeBenchOptions& options,
                                                         std::int64_t m_max,
                                                         const HomeBenchPlace& place) {
  auto product = std::make_unique<HomeProduct>();
  product->shape_ = options.shape;
  product->place_ = place;
  product->profile_ =
      options.profile != nullptr ? options.profile : &Profile::built_in(options.home);
  CAUSEWAY_TRY(product->allocate(options, m_max));
  CAUSEWAY_TRY(product->fill(m_max));
  return Result<std::unique_ptr<HomeProduct>>(std::move(product));
}

Status HomeProduct::allocate(const HomeBenchOptions& options, std::int64_t m_max) {
  facts_.home = options.home;
  facts_.sm_count = place_.processors;
  facts_.copies = options.copies;
  facts_.scratch =
      options.scratch.count > 0 ? options.scratch : Bytes(std::max(w_bytes() + 256, kRingBytes));
  CAUSEWAY_ASSIGN(facts_.clusters, hybrid_gemm::clusters_that_fit(place_.stream));
  CAUSEWAY_ASSIGN(home_, WeightAtHome::create(options.home, w_bytes(), place_.gpu));
  CAUSEWAY_ASSIGN(x_, device_memory(m_max * shape_.k * 2, "memory for X"));
  CAUSEWAY_ASSIGN(o_, device_memory(m_max * shape_.n * 2, "memory for O"));
  CAUSEWAY_ASSIGN(resident_, device_memory(w_bytes(), "memory for W"));
  CAUSEWAY_ASSIGN(scratch_, device_memory(scratch_bytes(), "scratch"));
  CAUSEWAY_ASSIGN(workspace_, device_memory(kWorkspace.count, "scratch"));
  CAUSEWAY_ASSIGN(gemm::CudaGemm gemm, gemm::CudaGemm::create());
  gemm_ = std::make_unique<gemm::CudaGemm>(std::move(gemm));
  CAUSEWAY_TRY(gemm::CudaGemm::prepare(workspace_.get(), place_.stream));
  CAUSEWAY_ASSIGN(HomeGemm runner, HomeGemm::create(*gemm_));
  runner_ = std::make_unique<HomeGemm>(std::move(runner));
  return {};
}

Status HomeProduct::fill(std::int64_t m_max) {
  CAUSEWAY_TRY(
      bench::cuda_fill_random_bf16(x_.get(), Bytes(m_max * shape_.k * 2), 1, 1.0f, place_.stream));
  CAUSEWAY_TRY(
      bench::cuda_fill_random_bf16(resident_.get(), Bytes(w_bytes()), 2, 1.0f, place_.stream));
  CAUSEWAY_TRY(
      cuda_status(cudaMemcpyAsync(home_.get(), resident_.get(), static_cast<std::size_t>(w_bytes()),
                                  cudaMemcpyDefault, place_.stream),
                  "bringing W home"));
  return cuda_status(cudaStreamSynchronize(place_.stream), "making inputs");
}

Result<Plan> HomeProduct::plan(std::int64_t m, std::optional<Way> way) const {
  const gemm::CudaRequest request = {.m = m, .n = shape_.n, .k = shape_.k};
  auto plan = way ? plan_for(*way, request, facts_, *profile_) : choose(request, facts_, *profile_);
  if (plan.ok() && plan->workspace > kWorkspace) {
    return unsupported("the benchmark's workspace is too small for this product");
  }
  return plan;
}

Status HomeProduct::run(const Plan& plan) {
  return runner_->run(plan,
                      {.x = x_.get(),
                       .w = home_.get(),
                       .out = o_.get(),
                       .x_stride = shape_.k,
                       .w_stride = shape_.k,
                       .out_stride = shape_.n},
                      {.workspace = workspace_.get(), .scratch = scratch_.get()}, place_.stream);
}

Status HomeProduct::run(const hybrid_gemm::Plan& plan) {
  return hybrid_gemm::launch(plan,
                             {.x = x_.get(),
                              .w = home_.get(),
                              .o = o_.get(),
                              .x_stride = shape_.k,
                              .w_stride = shape_.k,
                              .o_stride = shape_.n,
                              .workspace = scratch_.get()},
                             place_.stream);
}

Result<std::unique_ptr<SliceLoad>> make_product_load(const HomeBenchOptions& options,
                                                     std::int64_t m, std::optional<Way> way,
                                                     const HomeBenchPlace& place) {
  CAUSEWAY_ASSIGN(auto product, HomeProduct::create(options, m, place));
  CAUSEWAY_ASSIGN(Plan plan, product->plan(m, way));
  return Result<std::unique_ptr<SliceLoad>>(
      std::make_unique<ProductLoad>(std::move(product), std::move(plan), place.stream));
}

Result<std::unique_ptr<SliceLoad>> make_read_load(Bytes bytes, const HomeBenchPlace& place) {
  CAUSEWAY_ASSIGN(DeviceMemory memory, device_memory(bytes.count, "memory to read"));
  CAUSEWAY_ASSIGN(DeviceMemory sink, device_memory(sizeof(unsigned), "scratch"));
  CAUSEWAY_TRY(bench::cuda_fill_random_bf16(memory.get(), bytes, 3, 1.0f, place.stream));
  return Result<std::unique_ptr<SliceLoad>>(
      std::make_unique<ReadLoad>(std::move(memory), std::move(sink), bytes, place));
}

}  // namespace causeway::kernels::home_gemm
