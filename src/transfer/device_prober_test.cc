#include "transfer/device_prober.h"

#include <gtest/gtest.h>

#include "device/host/host_machine.h"

namespace causeway::transfer::device_prober_test {
namespace {

using device::LinkTree;

// Slow modelled links, so that a busy machine keeps up with them.
class Measured : public ::testing::Test {
 protected:
  void open(LinkTree tree, Bytes arena = mib(8)) {
    open(tree.devices, device::make_link_tree(tree), arena);
  }
  void open(int devices, device::LinkProfile links, Bytes arena = mib(8)) {
    machine_ = device::HostMachine::create(
                   {.devices = devices, .links = std::move(links), .extent_bytes = kib(256)},
                   clock_, memory_)
                   .value();
    for (int d = 0; d < devices; ++d) {
      devices_.push_back(
          machine_->open({.name = "d", .physical_device = d, .arena_bytes = arena}).value());
      pointers_.push_back(devices_.back().get());
    }
  }
  static TransferEngineOptions engine() {
    TransferEngineOptions options;
    options.dispatch.chunk_bytes = {kib(64), kib(64)};
    options.dispatch.chunk_bytes_min = kib(16);
    options.dispatch.multipath_bytes_min = kib(256);
    return options;
  }
  Result<LinkMap> measure(Bytes bytes) {
    CAUSEWAY_ASSIGN(
        const auto prober,
        DeviceProber::create(pointers_, memory_, clock_,
                             {.bytes = bytes, .copy_bytes = kib(64), .engine = engine()}));
    return measure_link_map("host", *prober, {.runs = 1, .relayed_sets = 1});
  }

  RealClock clock_;
  device::HostMemory memory_;
  std::unique_ptr<device::HostMachine> machine_;
  std::vector<std::unique_ptr<device::Device>> devices_;
  std::vector<device::Device*> pointers_;
};

// The model's rates are upper bounds; how near a busy machine comes to them is not tested.
TEST_F(Measured, AMapOfModelledLinks) {
  open({.devices = 2, .link = 40e6, .link_duplex = 60e6, .peer_link = 400e6});
  const LinkMap map = measure(kib(512)).value();
  EXPECT_EQ(map.links, 2);
  EXPECT_EQ(map.peers.size(), 2u);
  for (const Direction direction : kBothDirections) {
    for (const SetRate& set : map.own[index_of(direction)]) {
      EXPECT_LE(set.rate, 1.05 * 40e6 * set.links.count()) << text_of(set.links);
      EXPECT_GT(set.rate, 4e6 * set.links.count()) << text_of(set.links);
    }
    EXPECT_FALSE(map.relayed[index_of(direction)].empty());
  }
  for (const double rate : map.duplex) EXPECT_LE(rate, 63e6);
  EXPECT_EQ(memory_.total_bytes(), Bytes(0));  // all given back
  EXPECT_EQ(devices_[0]->arena().free_extents(), 32);
}

TEST_F(Measured, PairsWithoutAPathAreLeftOut) {
  device::LinkProfile profile = device::make_link_tree(
      {.devices = 4, .link = 400e6, .link_duplex = 600e6, .peer_link = 4000e6});
  // Bridges join 0 with 1, and 2 with 3.
  std::erase_if(profile.paths, [](const device::LinkPath& path) {
    return path.source != device::kHostEnd && path.target != device::kHostEnd &&
           path.source / 2 != path.target / 2;
  });
  open(4, std::move(profile));
  const auto map = measure(kib(512));
  ASSERT_TRUE(map.ok()) << map.error().message;
  ASSERT_EQ(map->peers.size(), 4U);
  for (const PeerRate& peer : map->peers) {
    EXPECT_EQ(peer.source / 2, peer.target / 2);
    EXPECT_GT(peer.rate, 0);
  }
}

TEST_F(Measured, TooLittleMemoryIsSaid) {
  open({.devices = 1}, kib(512));
  EXPECT_EQ(measure(mib(1)).error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace causeway::transfer::device_prober_test
