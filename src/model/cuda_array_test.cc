// Constants on a device, over a fake driver.
#include "model/cuda_array.h"

#include <gtest/gtest.h>

#include <vector>

#include "device/cuda/cuda_machine.h"
#include "device/testing/fake_cuda.h"

namespace causeway::model {
namespace {

constexpr Bytes kExtent = mib(2);

class CudaArrayTest : public ::testing::Test {
 protected:
  RealClock clock_;
  device::HostMemory memory_;
  device::testing::FakeCuda driver_{{.memory = mib(4)}};
  std::unique_ptr<device::CudaMachine> machine_ =
      device::CudaMachine::create(driver_.api(), {.extent_bytes = kExtent}, clock_, memory_)
          .value();
  std::unique_ptr<device::Device> slice_ =
      machine_->open({.name = "s", .physical_device = 1, .arena_bytes = kExtent * 8}).value();
};

TEST_F(CudaArrayTest, HoldsACopyThatTheArenaAccountsFor) {
  device::Pieces pieces(slice_->arena());
  const std::vector<double> values = {1.5, -2.25, 1e300};
  {
    const auto first = CudaArray<double>::make(*slice_, pieces, values).value();
    const auto second = CudaArray<double>::make(*slice_, pieces, values).value();
    for (const auto* array : {&first, &second}) {
      EXPECT_TRUE(std::equal(values.begin(), values.end(), array->data()));
    }
    EXPECT_EQ(pieces.bytes(), kExtent);
    EXPECT_EQ(machine_->free_memory(1).value(), mib(2));
    EXPECT_EQ(memory_.total_bytes(), Bytes(0)) << "the way there is kept";
  }
  EXPECT_EQ(CudaArray<double>::make(*slice_, pieces, {}).value().data(), nullptr);
}

TEST_F(CudaArrayTest, TellsThatMemoryRanOutAndKeepsNothing) {
  device::Pieces pieces(slice_->arena());
  const std::vector<float> values(std::size_t{2} << 20);  // 8 of 4 MiB
  const auto refused = CudaArray<float>::make(*slice_, pieces, values);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("of 4 MiB are free"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(machine_->free_memory(1).value(), mib(4));
  EXPECT_EQ(memory_.total_bytes(), Bytes(0));
}

TEST_F(CudaArrayTest, ALostGpuIsTold) {
  device::Pieces pieces(slice_->arena());
  driver_.lose(700);
  const std::vector<float> values = {1};
  const auto refused = CudaArray<float>::make(*slice_, pieces, values);
  EXPECT_EQ(refused.error().code, ErrorCode::kDevice);
  EXPECT_NE(refused.error().message.find("lost"), std::string::npos) << refused.error().message;
}

}  // namespace
}  // namespace causeway::model
