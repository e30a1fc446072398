// One shape's operands on one slice, and its product by every way: what both benchmarks of products
// at home run.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "base/result.h"
#include "bench/kernels/home_bench.h"
#include "bench/kernels/home_bench_memory.cuh"
#include "kernels/home_gemm/home_gemm.h"
#include "kernels/home_gemm/home_gemm_cuda.h"

namespace causeway::kernels::home_gemm {

class HomeProduct {
 public:
  // Operands for up to `m_max` rows, random; W lies at home, and `resident` in HBM is equal to it.
  static Result<std::unique_ptr<HomeProduct>> create(const HomeBenchOptions& options,
                                                     std::int64_t m_max,
                                                     const HomeBenchPlace& place);
  HomeProduct() = default;  // for create()

  // The planner's answer: of none the way that it chooses.
  Result<Plan> plan(std::int64_t m, std::optional<Way> way) const;
  // Enqueues it; the result is in o().
  Status run(const Plan& plan);
  // Enqueues HybridGEMM by a plan of its own, with the scratch that all ways share.
  Status run(const hybrid_gemm::Plan& plan);

  void* x() const { return x_.get(); }
  void* w() const { return home_.get(); }
  void* o() const { return o_.get(); }
  void* resident() const { return resident_.get(); }
  void* scratch() const { return scratch_.get(); }
  std::int64_t w_bytes() const { return shape_.n * shape_.k * 2; }
  std::int64_t scratch_bytes() const { return facts_.scratch.count; }
  const Facts& facts() const { return facts_; }
  const Profile& profile() const { return *profile_; }

 private:
  Status allocate(const HomeBenchOptions& options, std::int64_t m_max);
  Status fill(std::int64_t m_max);

  HomeBenchShape shape_;
  HomeBenchPlace place_;
  Facts facts_;
  const Profile* profile_ = nullptr;
  WeightAtHome home_;      // [n × k]
  DeviceMemory x_;         // [m_max × k]
  DeviceMemory o_;         // [m_max × n]
  DeviceMemory resident_;  // [n × k]
  DeviceMemory scratch_, workspace_;
  std::unique_ptr<gemm::CudaGemm> gemm_;
  std::unique_ptr<HomeGemm> runner_;
};

}  // namespace causeway::kernels::home_gemm
