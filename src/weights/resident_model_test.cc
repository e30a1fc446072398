#include "weights/resident_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/testing/temporary_directory.h"
#include "device/host/host_machine.h"
#include "weights/testing/checkpoints.h"

namespace causeway::weights {
namespace {

constexpr ModelId kModel{1};

LoadPlan two_groups() {
  return {DType::kBF16,
          {{"layers.0", {{"a", {{"a", 3, 5}}}, {"b", {{"b", 700, 9}}}}},
           {"head", {{"c", {{"c", 1000, 40}}}}}}};
}

class ResidentModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    content_ = testing::write_tensors(directory_.path() / "model.safetensors",
                                      {{"a", DType::kBF16, {3, 5}},
                                       {"b", DType::kBF16, {700, 9}},
                                       {"c", DType::kBF16, {1000, 40}}},
                                      7);
    ASSERT_TRUE(pool_.load(kModel, directory_.path(), two_groups(), {}).ok());
    machine_ = device::HostMachine::create({.extent_bytes = kib(64)}, clock_, memory_).value();
  }
  std::unique_ptr<device::Device> open(Bytes arena) {
    return machine_->open({.name = "slice", .arena_bytes = arena}).value();
  }
  Result<std::unique_ptr<PinnedModel>> resident_on(device::Device& device) {
    return make_resident(pool_.pin(kModel).value(), memory_, device, seconds(30));
  }

  TemporaryDirectory directory_;
  std::map<std::string, std::string> content_;
  RealClock clock_;
  device::HostMemory memory_;
  ModelPool pool_{memory_, clock_, mib(16)};
  std::unique_ptr<device::HostMachine> machine_;
};

TEST_F(ResidentModelTest, EqualsItsHomeAndLiesInTheArena) {
  const auto device = open(mib(2));
  const std::int64_t before = device->arena().free_extents();
  auto model = resident_on(*device);
  ASSERT_TRUE(model.ok()) << model.error().message;
  const auto home = pool_.pin(kModel).value();
  for (const auto& [group, tensor] : std::vector<std::pair<std::string, std::string>>{
           {"layers.0", "a"}, {"layers.0", "b"}, {"head", "c"}}) {
    const WeightView view = (*model)->weight(group, tensor);
    const WeightView at_home = home->weight(group, tensor);
    ASSERT_EQ(view.rows, at_home.rows);
    ASSERT_EQ(view.cols, at_home.cols);
    EXPECT_EQ(view.place, WeightPlace::kResident);
    const auto bytes = static_cast<std::size_t>(2 * view.rows * view.cols);
    EXPECT_EQ(std::memcmp(view.data, at_home.data, bytes), 0) << tensor;
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(view.data), bytes), content_.at(tensor));
    EXPECT_TRUE(device->arena().allocated(Bytes(view.data - device->arena().base()),
                                          Bytes(static_cast<std::int64_t>(bytes))));
  }
  EXPECT_EQ((*model)->groups().size(), 2u);
  EXPECT_LT(device->arena().free_extents(), before);
  model->reset();
  EXPECT_EQ(device->arena().free_extents(), before);
}

TEST_F(ResidentModelTest, PinsItsHome) {
  const auto device = open(mib(2));
  auto model = resident_on(*device);
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(pool_.unload(kModel).error().code, ErrorCode::kUnavailable);
  model->reset();
  EXPECT_TRUE(pool_.unload(kModel).ok());
}

TEST_F(ResidentModelTest, TooSmallADeviceNamesTheNumbersAndKeepsNothing) {
  const auto device = open(kib(64));
  const auto model = resident_on(*device);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(model.error().message, ::testing::HasSubstr("MiB"));
  EXPECT_EQ(device->arena().free_extents(), device->arena().extents());
  EXPECT_TRUE(pool_.unload(kModel).ok());
}

TEST_F(ResidentModelTest, ATimeOutKeepsNothing) {
  // 100 KB over a link of 1 MB a second.
  auto slow = device::HostMachine::create(
      {.links = device::make_link_tree({.link = 1e6, .link_duplex = 1e6}), .extent_bytes = kib(64)},
      clock_, memory_);
  ASSERT_TRUE(slow.ok()) << slow.error().message;
  const auto device = (*slow)->open({.name = "slow", .arena_bytes = mib(2)}).value();
  const auto model = make_resident(pool_.pin(kModel).value(), memory_, *device, millis(1));
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(device->arena().free_extents(), device->arena().extents());
  EXPECT_TRUE(pool_.unload(kModel).ok());
}

}  // namespace
}  // namespace causeway::weights
