// Constants on a device, over a fake driver.
#include "model/cuda_array.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "device/cuda/cuda_machine.h"
#include "device/testing/fake_cuda.h"

namespace causeway::model::cuda_array_test {
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
  ConstantCopier copier = ConstantCopier::make(*slice_).value();
  const Bytes page = memory_.total_bytes();
  device::Pieces pieces(slice_->arena());
  std::vector<double> values(20'000);  // some pages
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1.5 * static_cast<double>(i) - 3;
  const auto bytes = std::as_bytes(std::span(values));
  {
    const CudaArray<double> first(copier.copy(bytes, pieces).value());
    const CudaArray<double> second(copier.copy(bytes, pieces).value());
    for (const auto* array : {&first, &second}) {
      EXPECT_TRUE(std::equal(values.begin(), values.end(), array->data()));
    }
    EXPECT_EQ(pieces.bytes(), kExtent);
    EXPECT_EQ(machine_->free_memory(1).value(), mib(2));
    EXPECT_EQ(memory_.total_bytes(), page) << "a copy registers nothing";
  }
  EXPECT_EQ(copier.copy({}, pieces).value().data(), nullptr);
}

TEST_F(CudaArrayTest, TellsThatMemoryRanOutAndKeepsNothing) {
  ConstantCopier copier = ConstantCopier::make(*slice_).value();
  device::Pieces pieces(slice_->arena());
  const std::vector<float> values(std::size_t{2} << 20);  // 8 of 4 MiB
  const auto refused = copier.copy(std::as_bytes(std::span(values)), pieces);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("of 4 MiB are free"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(machine_->free_memory(1).value(), mib(4));
}

TEST_F(CudaArrayTest, ALostGpuIsTold) {
  ConstantCopier copier = ConstantCopier::make(*slice_).value();
  device::Pieces pieces(slice_->arena());
  driver_.lose(700);
  const std::vector<float> values = {1};
  const auto refused = copier.copy(std::as_bytes(std::span(values)), pieces);
  EXPECT_EQ(refused.error().code, ErrorCode::kDevice);
  EXPECT_NE(refused.error().message.find("lost"), std::string::npos) << refused.error().message;
}

}  // namespace
}  // namespace causeway::model::cuda_array_test
