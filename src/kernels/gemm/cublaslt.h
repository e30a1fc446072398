// cuBLASLt behind the resident-weight product: the way for many rows and for what TMA cannot
// address. One object holds a handle, and per shape what the library's heuristics chose.
#pragma once

#include <memory>

#include "base/result.h"
#include "kernels/gemm/gemm_cuda.h"

namespace causeway::kernels::gemm {

class CublasLt {
 public:
  // On the current device.
  static Result<CublasLt> create();
  ~CublasLt();
  CublasLt(CublasLt&&) noexcept;
  CublasLt& operator=(CublasLt&&) noexcept;

  // Enqueues the product of a kLibrary plan; workspace as in CudaGemm::run. Parts are a batch, or,
  // where cuBLASLt offers no algorithm for that, products one after the other. kUnsupported when it
  // offers none for one product either; kDevice.
  Status run(const CudaPlan& plan, const CudaOperands& operands, void* workspace,
             CudaStream stream);

  // How many algorithms the heuristics offer for this product (0: none; at most 8), and which run()
  // takes from now on (0, the first, unless told). For benchmarks.
  Result<int> algorithms(const CudaPlan& plan, const CudaOperands& operands);
  Status select(const CudaPlan& plan, const CudaOperands& operands, int algorithm);

  // False, before the first run(): as if cuBLASLt offered no algorithm for any batch. For tests.
  void use_batches(bool use);

 private:
  class State;
  explicit CublasLt(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace causeway::kernels::gemm
