#include "preload/stand_in.h"

#include <array>
#include <string>

#include "base/dcheck.h"
#include "device/cuda/cuda_physical.h"
#include "preload/spin_kernel.h"

namespace causeway::preload {
namespace {

CudaDevicePointer address_of(const std::atomic<std::uint32_t>& flag) {
  return reinterpret_cast<CudaDevicePointer>(&flag);
}

class ValueStandIn final : public StandIn {
 public:
  explicit ValueStandIn(const Native& native) : native_(native) {}
  std::string_view name() const override { return "value"; }

  Status place(CUstream_st* stream, const FlagUse& use, bool hold) override {
    CAUSEWAY_DCHECK(!use.started(), "a use of a pair is placed twice");
    std::array<CudaMemoryOperation, 2> operations;
    operations[0].operation = kCudaWriteValue32;
    operations[0].address = address_of(use.pair->started);
    operations[0].value = use.number;
    operations[1].operation = kCudaWaitValue32;
    operations[1].address = address_of(use.pair->released);
    operations[1].value = use.number;
    operations[1].flags = kCudaWaitAtLeast;
    const int result = native_.cuStreamBatchMemOp_v2(stream, hold ? 2 : 1, operations.data(), 0);
    if (result == device::kCudaSuccess) return {};
    return device::cuda_error(native_.api, result, "cuStreamBatchMemOp");
  }

 private:
  const Native& native_;
};

void start(void* use) {
  const std::unique_ptr<FlagUse> owned(static_cast<FlagUse*>(use));
  CAUSEWAY_DCHECK(!owned->started(), "a pair is used again after its last start only");
  owned->start();
}

class KernelStandIn final : public StandIn {
 public:
  KernelStandIn(const Native& native, CUkern_st* kernel) : native_(native), kernel_(kernel) {}
  std::string_view name() const override { return "kernel"; }

  Status place(CUstream_st* stream, const FlagUse& use, bool hold) override {
    CAUSEWAY_DCHECK(!use.started(), "a use of a pair is placed twice");
    auto argument = std::make_unique<FlagUse>(use);
    int result = native_.cuLaunchHostFunc(stream, start, argument.get());
    if (result != device::kCudaSuccess) {
      return device::cuda_error(native_.api, result, "cuLaunchHostFunc");
    }
    (void)argument.release();  // the host function's now
    if (!hold) return {};
    CudaDevicePointer flag = address_of(use.pair->released);
    std::uint32_t number = use.number;
    std::array<void*, 2> parameters = {&flag, &number};
    // The driver takes a CUkernel wherever it takes a CUfunction.
    result = native_.cuLaunchKernel(reinterpret_cast<CUfunc_st*>(kernel_), 1, 1, 1, 1, 1, 1, 0,
                                    stream, parameters.data(), nullptr);
    if (result == device::kCudaSuccess) return {};
    return device::cuda_error(native_.api, result, "cuLaunchKernel");
  }

 private:
  const Native& native_;
  CUkern_st* const kernel_;
};

// The kernel is loaded everywhere now, because one that is loaded while another one spins may wait
// for it.
Result<std::unique_ptr<StandIn>> make_kernel_stand_in(const Native& native,
                                                      const std::vector<CUctx_st*>& contexts) {
  if (spin_kernel_image() == nullptr) {
    return unsupported("this build has no kernels: it was made without nvcc");
  }
  CUlib_st* library = nullptr;
  CUkern_st* kernel = nullptr;
  int result = native.cuLibraryLoadData(&library, spin_kernel_image(), nullptr, nullptr, 0, nullptr,
                                        nullptr, 0);
  if (result == device::kCudaSuccess) {
    result = native.cuLibraryGetKernel(&kernel, library, kSpinKernelName);
  }
  for (CUctx_st* context : contexts) {
    if (result != device::kCudaSuccess || context == nullptr) continue;
    const device::CudaScope scope(native.api, context);
    CUfunc_st* function = nullptr;
    result = native.cuKernelGetFunction(&function, kernel);
    if (result == device::kCudaSuccess) result = native.cuFuncLoad(function);
  }
  if (result != device::kCudaSuccess) {
    return device::cuda_error(native.api, result, "loading the spin kernel");
  }
  return std::unique_ptr<StandIn>(std::make_unique<KernelStandIn>(native, kernel));
}

}  // namespace

Result<std::unique_ptr<StandIn>> make_stand_in(const Native& native, Order order,
                                               const std::vector<CUctx_st*>& contexts) {
  if (order == Order::kKernel) return make_kernel_stand_in(native, contexts);
  return std::unique_ptr<StandIn>(std::make_unique<ValueStandIn>(native));
}

}  // namespace causeway::preload
