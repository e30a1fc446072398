// Slices of the CPU backend whose weights come from another device's memory, over modelled links.
#include "slice/peer_home.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "base/testing/must.h"
#include "engine/testing/collecting_sink.h"
#include "slice/host_slice.h"
#include "slice/testing/small_model.h"

namespace causeway::slice::peer_home_test {
namespace {

using testing::small_model;

constexpr Bytes kFrame = kib(16);
constexpr Bytes kExtent = kib(64);
constexpr double kLink = 1e6;  // bytes per second to the host
constexpr ModelId kModel(0);

class PeerHomeTest : public ::testing::Test {
 protected:
  ~PeerHomeTest() override { remove(); }

  Status open_machine(int home_gpu, double peer_link = 100 * kLink) {
    device::HostMachineOptions host{.devices = 2, .extent_bytes = kExtent};
    host.links = device::make_link_tree({.devices = 2,
                                         .link = kLink,
                                         .link_duplex = 2 * kLink,
                                         .peer_link = peer_link,
                                         .latency = micros(20)});
    LinkOptions links{.choice = LinkChoice::kOwn, .home_gpu = home_gpu};
    CAUSEWAY_ASSIGN(machine_, Machine::open_host(std::move(host), std::move(links), home_, clock_));
    return {};
  }
  Status open_slice(int device = 0) {
    CAUSEWAY_ASSIGN(
        slice_,
        open_host_slice({.kv = mib(4), .kv_frame = kFrame, .cache = mib(4), .device = device},
                        *machine_, sink_));
    return {};
  }
  Status add(Bytes max_resident = Bytes(0)) {
    CAUSEWAY_ASSIGN(const model::ModelCard card, slice_->card(small_model(3, true)));
    bytes_ = card.layout.bytes;
    if (!home_.pool.is_loaded(kModel)) {
      CAUSEWAY_TRY(home_.pool.make(kModel, card.layout,
                                   [](std::span<std::byte> memory) {
                                     testing::fill_random(memory, 3);
                                     return Status();
                                   },
                                   {}));
    }
    CAUSEWAY_ASSIGN(auto home, home_.pool.pin(kModel));
    CAUSEWAY_ASSIGN(const engine::ModelFacts facts,
                    slice_->attach({kModel, card, std::move(home), Tokens(256), max_resident}));
    streamed_ = facts.weights.streamed_bytes();
    CAUSEWAY_TRY(slice_->engine().add_model(kModel, facts));
    added_ = true;
    return {};
  }
  void remove() {
    if (!std::exchange(added_, false)) return;
    EXPECT_TRUE(slice_->engine().remove_model(kModel, seconds(10)).ok());
    slice_->detach(kModel);
  }
  std::vector<TokenId> answer() {
    request::Request request;
    request.id = RequestId(next_);
    request.model = kModel;
    request.prompt = {5, 17, 250};
    request.sampling.temperature = 0;
    request.max_tokens = Tokens(8);
    request.arrival = clock_.now();
    EXPECT_TRUE(slice_->engine().submit(std::move(request)).ok());
    EXPECT_TRUE(sink_.wait_for_ends(static_cast<int>(++next_)));
    return sink_.of(RequestId(next_ - 1)).tokens;
  }
  void close() {
    remove();
    slice_.reset();
    machine_.reset();
  }

  RealClock clock_;
  engine::CollectingSink sink_;
  ModelHome home_{clock_, mib(64)};
  std::unique_ptr<Machine> machine_;
  std::unique_ptr<Slice> slice_;
  Bytes bytes_, streamed_;
  std::int64_t next_ = 0;
  bool added_ = false;
};

TEST_F(PeerHomeTest, AnswersAreThoseOfHostMemoryWhetherCachedOrStreamed) {
  must(open_machine(-1), "the machine");
  must(open_slice(), "the slice");
  must(add(), "the model");
  const auto expected = answer();
  close();
  for (const bool streamed : {false, true}) {
    must(open_machine(1), "the machine");
    must(open_slice(), "the slice");
    const Bytes whole = round_up(bytes_, kExtent);
    must(add(streamed ? whole - kExtent : Bytes(0)), "the model");
    EXPECT_EQ(streamed_ > Bytes(0), streamed);
    EXPECT_EQ(machine_->peer_home()->bytes(), whole);
    EXPECT_TRUE(slice_->links()->from_peer);
    EXPECT_EQ(answer(), expected);
    EXPECT_EQ(answer(), expected);
    // All of it came over the devices' link, and over the home's own to the host once.
    EXPECT_GE(slice_->link_bytes(), Bytes(1));
    remove();
    EXPECT_EQ(machine_->peer_home()->bytes(), Bytes(0));
    close();
  }
}

TEST_F(PeerHomeTest, GroupsComeAsFastAsTheLinkBetweenTheDevices) {
  must(open_machine(1), "the machine");
  must(open_slice(), "the slice");
  must(add(), "the model");
  const double rate = slice_->links()->claim->rate();
  EXPECT_GT(rate, 3 * kLink);
  EXPECT_LT(rate, 120 * kLink);
  const Nanos begin = clock_.now();
  answer();
  // Over the link to the host it would take as long as this at the least.
  EXPECT_LT(to_seconds(clock_.now() - begin), static_cast<double>(bytes_.count) / kLink);
}

TEST_F(PeerHomeTest, SlicesShareWhatLiesThere) {
  must(open_machine(1), "the machine");
  must(open_slice(), "the slice");
  must(add(), "the model");
  const auto home = must(home_.pool.pin(kModel), "a pin");
  PeerHome& peer = *machine_->peer_home();
  const Bytes before = peer.bytes();
  const auto first = must(peer.add(kModel, *home), "the model once more");
  EXPECT_EQ(peer.bytes(), before);
  EXPECT_TRUE(first.device.valid());
  peer.remove(kModel);
  EXPECT_EQ(peer.bytes(), before);
}

TEST_F(PeerHomeTest, WhatCannotBeAHomeIsAnError) {
  EXPECT_EQ(open_machine(2).error().code, ErrorCode::kInvalidArgument);
  must(open_machine(0), "the machine");
  EXPECT_EQ(open_slice(0).error().code, ErrorCode::kInvalidArgument);
  must(open_machine(1, /*peer_link=*/0), "the machine");
  const Status opened = open_slice(0);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(opened.error().message.find("does not reach"), std::string::npos);
}

}  // namespace
}  // namespace causeway::slice::peer_home_test
