#include "preload/pointers.h"

#include <gtest/gtest.h>

#include "preload/testing/fake_driver.h"

extern "C" {
int cuMemAlloc_v2(unsigned long long* memory, std::size_t bytes);
int cuMemAllocManaged(unsigned long long* memory, std::size_t bytes, unsigned flags);
int cuMemAllocFromPoolAsync(unsigned long long* memory, std::size_t bytes, void* pool,
                            CUstream_st* stream);
}

namespace causeway::preload::pointers_test {
namespace {

using device::CudaApi;
using device::CudaMemoryHandle;

constexpr std::size_t kBytes = 65'536;

class PointersTest : public ::testing::Test {
 protected:
  PointersTest() : native_(load_native(fake_symbol)) {
    fake_fault(static_cast<int>(FakeFault::kNone), -1);
    for (CUctx_st*& context : primaries_) {
      native_.api.cuDevicePrimaryCtxRetain(&context, static_cast<int>(&context - &primaries_[0]));
    }
    native_.api.cuCtxPushCurrent_v2(primaries_[1]);
  }
  ~PointersTest() override {
    CUctx_st* context = nullptr;
    native_.api.cuCtxPopCurrent_v2(&context);
  }
  Memory at(CudaDevicePointer pointer, std::size_t bytes) {
    return Pointers(native_, primaries_).at(pointer, bytes);
  }

  const Native native_;
  std::vector<CUctx_st*> primaries_ = std::vector<CUctx_st*>(2);
};

TEST_F(PointersTest, KnowsTheGpuOfItsMemory) {
  CudaDevicePointer device = 0;
  ASSERT_EQ(cuMemAlloc_v2(&device, kBytes), 0);
  const Memory memory = at(device + 100, kBytes - 100);
  EXPECT_EQ(memory.place, Place::kGpu);
  EXPECT_EQ(memory.gpu, 1);
  EXPECT_TRUE(memory.primary);
  EXPECT_TRUE(memory.whole);
  EXPECT_FALSE(at(device, kBytes + 1).whole);
  EXPECT_FALSE(at(device, ~std::size_t{0} - 100).whole);
}

TEST_F(PointersTest, MemoryOfAnotherContextIsForeign) {
  CudaDevicePointer device = 0;
  ASSERT_EQ(cuMemAlloc_v2(&device, kBytes), 0);
  primaries_[1] = primaries_[0];
  EXPECT_FALSE(at(device, kBytes).primary);
  primaries_.resize(1);  // a GPU that takes no part
  EXPECT_FALSE(at(device, kBytes).primary);
}

TEST_F(PointersTest, TellsHostMemoryApart) {
  std::vector<unsigned char> pageable(kBytes);
  const auto pointer = [](void* memory) { return reinterpret_cast<CudaDevicePointer>(memory); };
  EXPECT_EQ(at(pointer(pageable.data()), kBytes).place, Place::kPageable);
  void* pinned = nullptr;
  ASSERT_EQ(native_.cuMemHostAlloc(&pinned, kBytes, 0), 0);
  EXPECT_EQ(at(pointer(pinned), kBytes).place, Place::kPinned);
  EXPECT_TRUE(at(pointer(pinned), kBytes).whole);
  EXPECT_FALSE(at(pointer(pinned), 2 * kBytes).whole);
  CudaDevicePointer managed = 0;
  ASSERT_EQ(cuMemAllocManaged(&managed, kBytes, 1), 0);
  EXPECT_EQ(at(managed, kBytes).place, Place::kManaged);
}

// Pinned piece by piece, as a large file's mapping may be.
TEST_F(PointersTest, NeighboursOfOneKindAreOneMemory) {
  std::vector<unsigned char> memory(4 * kBytes);
  const auto begin = reinterpret_cast<CudaDevicePointer>(memory.data());
  ASSERT_EQ(native_.api.cuMemHostRegister_v2(memory.data(), kBytes, 0), 0);
  ASSERT_EQ(native_.api.cuMemHostRegister_v2(memory.data() + kBytes, kBytes, 0), 0);
  EXPECT_TRUE(at(begin + 10, 2 * kBytes - 10).whole);
  EXPECT_FALSE(at(begin, 2 * kBytes + 1).whole);
  native_.api.cuMemHostUnregister(memory.data() + kBytes);
  EXPECT_FALSE(at(begin, 2 * kBytes).whole);
  native_.api.cuMemHostUnregister(memory.data());
}

// Memory of a pool is allocated and freed in stream order, which only the driver knows.
TEST_F(PointersTest, MemoryOfPoolsIsTheDrivers) {
  CudaDevicePointer device = 0;
  int pool = 0;
  ASSERT_EQ(cuMemAllocFromPoolAsync(&device, kBytes, &pool, nullptr), 0);
  EXPECT_EQ(at(device, kBytes).place, Place::kOther);
}

// Mapped addresses can be used as far as their program gave access to them.
TEST_F(PointersTest, MappedMemoryIsForTheGpusThatItIsMappedFor) {
  const CudaApi& api = native_.api;
  CudaDevicePointer address = 0;
  ASSERT_EQ(api.cuMemAddressReserve(&address, 2 * kBytes, 0, 0, 0), 0);
  for (const int gpu : {0, 1}) {  // the GPU that holds the memory
    CudaMemoryHandle handle = 0;
    device::CudaMemoryProperties properties;
    properties.location = {device::kCudaLocationDevice, gpu};
    ASSERT_EQ(api.cuMemCreate(&handle, kBytes, &properties, 0), 0);
    ASSERT_EQ(api.cuMemMap(address, kBytes, 0, handle, 0), 0);
    ASSERT_EQ(api.cuMemMap(address + kBytes, kBytes, 0, handle, 0), 0);
    EXPECT_FALSE(at(address, kBytes).reached);  // no GPU has access yet
    const device::CudaMemoryAccess access{{device::kCudaLocationDevice, 1},
                                          device::kCudaAccessReadWrite};
    ASSERT_EQ(api.cuMemSetAccess(address, kBytes, &access, 1), 0);
    const Memory memory = at(address, kBytes);
    EXPECT_EQ(memory.place, Place::kGpu);
    EXPECT_EQ(memory.gpu, gpu);
    EXPECT_TRUE(memory.primary);
    EXPECT_EQ(memory.reached, gpu == 1);  // its own GPU moves it
    // One piece that is not reached makes the whole memory not reached.
    const Memory both = at(address, 2 * kBytes);
    EXPECT_FALSE(both.reached && both.whole);
    api.cuMemUnmap(address, kBytes);
    api.cuMemUnmap(address + kBytes, kBytes);
    api.cuMemRelease(handle);
  }
  api.cuMemAddressFree(address, 2 * kBytes);
}

TEST_F(PointersTest, AnOldDriverThatCannotTellLeavesMappedMemoryNative) {
  Native old = native_;
  old.cuMemGetAccess = nullptr;
  CudaDevicePointer address = 0;
  CudaMemoryHandle handle = 0;
  device::CudaMemoryProperties properties;
  properties.location = {device::kCudaLocationDevice, 1};
  ASSERT_EQ(native_.api.cuMemAddressReserve(&address, kBytes, 0, 0, 0), 0);
  ASSERT_EQ(native_.api.cuMemCreate(&handle, kBytes, &properties, 0), 0);
  ASSERT_EQ(native_.api.cuMemMap(address, kBytes, 0, handle, 0), 0);
  EXPECT_FALSE(Pointers(old, primaries_).at(address, kBytes).reached);
  CudaDevicePointer plain = 0;
  ASSERT_EQ(cuMemAlloc_v2(&plain, kBytes), 0);
  EXPECT_TRUE(Pointers(old, primaries_).at(plain, kBytes).reached);
  native_.api.cuMemUnmap(address, kBytes);
  native_.api.cuMemAddressFree(address, kBytes);
}

// Host memory that was registered for one context is pageable to the GPUs that would relay it.
TEST_F(PointersTest, HostMemoryIsPinnedForAllOrNative) {
  std::vector<unsigned char> memory(kBytes);
  const auto begin = reinterpret_cast<CudaDevicePointer>(memory.data());
  ASSERT_EQ(native_.api.cuMemHostRegister_v2(memory.data(), kBytes, 0), 0);
  EXPECT_EQ(at(begin, kBytes).place, Place::kPinned);
  EXPECT_FALSE(at(begin, kBytes).reached);
  CUctx_st* current = nullptr;
  ASSERT_EQ(native_.api.cuCtxGetCurrent(&current), 0);
  EXPECT_EQ(current, primaries_[1]);  // the program's context stays current
  primaries_[0] = nullptr;            // a GPU that takes no part need not see it
  EXPECT_TRUE(at(begin, kBytes).reached);
  native_.api.cuDevicePrimaryCtxRetain(&primaries_[0], 0);
  native_.api.cuMemHostUnregister(memory.data());
  ASSERT_EQ(native_.api.cuMemHostRegister_v2(memory.data(), kBytes, device::kCudaRegisterPortable),
            0);
  EXPECT_TRUE(at(begin, kBytes).reached);
  native_.api.cuMemHostUnregister(memory.data());
}

}  // namespace
}  // namespace causeway::preload::pointers_test
