#include "device/cuda/link_rates.h"

#include <gtest/gtest.h>

#include "device/host/host_machine.h"

namespace causeway::device::link_rates_test {
namespace {

class LinkRatesTest : public ::testing::Test {
 protected:
  void open(LinkTree tree) {
    machine_ = HostMachine::create(
                   {.devices = tree.devices, .links = make_link_tree(tree), .extent_bytes = mib(1)},
                   clock_, memory_)
                   .value();
    for (int d = 0; d < tree.devices; ++d) {
      devices_.push_back(
          machine_->open({.name = "d", .physical_device = d, .arena_bytes = mib(4)}).value());
      pointers_.push_back(devices_.back().get());
    }
  }
  RealClock clock_;
  HostMemory memory_;
  std::unique_ptr<HostMachine> machine_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<Device*> pointers_;
};

// The model's rates are upper bounds; how near a busy machine comes to them is not tested.
TEST_F(LinkRatesTest, ModelledLinksAreMeasured) {
  open({.devices = 2, .link = 300e6, .link_duplex = 450e6, .peer_link = 500e6});
  const auto rates =
      measure_links(pointers_, memory_, {.bytes = mib(1), .copies = 2, .runs = 3}).value();
  ASSERT_EQ(rates.devices.size(), 2u);
  for (const DeviceLinkRates& device : rates.devices) {
    for (const LinkRate& rate : {device.in, device.out}) {
      EXPECT_LE(rate.high, 305e6);
      EXPECT_GT(rate.low, 10e6);
      EXPECT_LE(rate.low, rate.median);
      EXPECT_LE(rate.median, rate.high);
    }
    EXPECT_LE(device.both.high, 455e6);
  }
  ASSERT_EQ(rates.peers.size(), 2u);
  EXPECT_EQ(rates.peers[1].source, 1);
  EXPECT_LE(rates.peers[0].one_way.high, 505e6);
  EXPECT_LE(rates.peers[0].both.high, 1010e6);
  EXPECT_GT(rates.all_in.median, 0);
  EXPECT_LE(rates.all_in.high, 610e6);
  EXPECT_EQ(memory_.total_bytes(), Bytes(0));  // all given back
  EXPECT_EQ(devices_[0]->arena().free_extents(), 4);
}

TEST_F(LinkRatesTest, DevicesWithoutAPathHaveNoPeerRate) {
  open({.devices = 2, .link = 2e9, .link_duplex = 4e9, .peer_link = 0});
  const auto rates =
      measure_links(pointers_, memory_, {.bytes = kib(64), .copies = 1, .runs = 1}).value();
  EXPECT_TRUE(rates.peers.empty());
}

TEST_F(LinkRatesTest, TooLittleMemoryIsSaid) {
  open({});
  EXPECT_EQ(measure_links(pointers_, memory_, {.bytes = mib(8)}).error().code,
            ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace causeway::device::link_rates_test
