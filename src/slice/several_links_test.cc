// Slices of the CPU backend whose weights come over the modelled links of several devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "base/testing/must.h"
#include "base/testing/rounds.h"
#include "engine/testing/collecting_sink.h"
#include "model/random_model.h"
#include "slice/host_slice.h"
#include "slice/testing/small_model.h"

namespace causeway::slice::several_links_test {
namespace {

using transfer::LinkSet;

constexpr Bytes kFrame = kib(16);
constexpr Bytes kExtent = kib(256);
constexpr double kLink = 8e6;  // bytes per second: a model takes a second

// A model of some 8 MB.
model::ModelConfig wide_model() {
  model::ModelConfig config = model::random_model_config(model::Family::kLlama);
  config.layers = 4;
  config.hidden = 128;
  config.intermediate = 1024;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 32;
  config.vocab = 512;
  config.tied_embeddings = true;
  config.dtype = DType::kF32;
  return config;
}

LinkOptions links_of(LinkChoice choice) {
  LinkOptions links{.choice = choice};
  links.engine.dispatch.chunk_bytes = {kib(128), kib(128)};
  links.engine.dispatch.chunk_bytes_min = kib(32);
  links.engine.dispatch.chunk_bytes_direct = kib(128);
  links.engine.dispatch.multipath_bytes_min = kib(256);
  links.engine.staging_bytes_max = mib(1);
  return links;
}

device::LinkProfile profile_of(int devices) {
  return device::make_link_tree({.devices = devices,
                                 .link = kLink,
                                 .link_duplex = 2 * kLink,
                                 .peer_link = 100 * kLink,
                                 .latency = micros(20)});
}

// A slice of one device that serves one model.
class Served {
 public:
  Served(Machine& machine, int device) : machine_(machine) {
    HostSliceOptions options{.kv = mib(4), .kv_frame = kFrame, .cache = mib(16), .device = device};
    slice_ = must(open_host_slice(options, machine, sink_), "the slice");
  }
  ~Served() {
    if (!added_) return;
    EXPECT_TRUE(slice_->engine().remove_model(ModelId(0), seconds(10)).ok());
    slice_->detach(ModelId(0));
  }

  void add() {
    const auto card = must(slice_->card(wide_model()), "a card");
    auto& pool = machine_.home().pool;
    if (!pool.is_loaded(ModelId(0))) {
      must(pool.make(ModelId(0), card.layout,
                     [](std::span<std::byte> memory) {
                       testing::fill_random(memory, 9, 0.2f);
                       return Status();
                     },
                     {}));
    }
    for (const auto& group : card.layout.groups) needed_ += group.bytes;
    const auto facts =
        must(slice_->attach({ModelId(0), card, must(pool.pin(ModelId(0)), "a pin"), Tokens(256)}));
    must(slice_->engine().add_model(ModelId(0), facts));
    added_ = true;
  }

  RequestId ask(std::int64_t output) {
    request::Request request;
    request.id = RequestId(next_request_++);
    request.model = ModelId(0);
    for (int i = 0; i < 20; ++i) request.prompt.push_back(static_cast<TokenId>((7 * i) % 500));
    request.sampling.temperature = 0;
    request.max_tokens = Tokens(output);
    request.arrival = machine_.clock().now();
    const RequestId id = request.id;
    EXPECT_TRUE(slice_->engine().submit(std::move(request)).ok());
    return id;
  }
  std::vector<TokenId> answer(std::int64_t output) {
    const RequestId id = ask(output);
    EXPECT_TRUE(sink_.wait_for_ends(static_cast<int>(id.value) + 1));
    EXPECT_EQ(sink_.of(id).end->error, "");
    return sink_.of(id).tokens;
  }
  // From a request until all of the model is there.
  double arrival_seconds() {
    const Nanos begin = machine_.clock().now();
    const RequestId id = ask(1);
    Nanos now = begin;
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock lock(mutex);
    while (slice_->link_bytes() < needed_ && now - begin < seconds(60)) {
      (void)never.wait_for(lock, std::chrono::milliseconds(1));
      now = machine_.clock().now();
    }
    EXPECT_TRUE(sink_.wait_for_ends(static_cast<int>(id.value) + 1));
    return to_seconds(now - begin);
  }
  void stop() {
    slice_->engine().stop(Nanos(0));
    added_ = false;
  }
  transfer::TransferStats stats() const { return slice_->links()->engine->stats(); }
  Slice& slice() { return *slice_; }
  Bytes needed() const { return needed_; }
  engine::CollectingSink& sink() { return sink_; }

 private:
  Machine& machine_;
  engine::CollectingSink sink_;
  std::unique_ptr<Slice> slice_;
  Bytes needed_;
  std::int64_t next_request_ = 0;
  bool added_ = false;
};

class SeveralLinks : public ::testing::Test {
 protected:
  std::unique_ptr<Machine> machine(int devices, LinkOptions links) {
    return must(Machine::open_host(
        {.devices = devices, .links = profile_of(devices), .extent_bytes = kExtent},
        std::move(links), home_, clock_));
  }
  static double reserved(const Machine& machine) {
    double sum = 0;
    for (int r = 0; r < std::ssize(machine.shares().resources()); ++r) {
      sum += machine.shares().reserved(r);
    }
    return sum;
  }

  RealClock clock_;
  ModelHome home_{clock_, mib(64)};
};

// The least of two runs; of up to thirty as long as it is more than `enough`, since other programs
// may take the CPUs meanwhile.
double arrival_seconds(const std::function<std::unique_ptr<Machine>()>& open,
                       std::vector<TokenId>& answer, double enough = INFINITY) {
  double least = INFINITY;
  for (int run = 0; run < 2 || (run < 30 && least > enough); ++run) {
    const auto machine = open();
    Served served(*machine, 0);
    served.add();
    least = std::min(least, served.arrival_seconds());
    answer = served.answer(6);
  }
  return least;
}

TEST_F(SeveralLinks, AModelArrivesInAboutTheSumsTimeAndAnswersTheSame) {
  std::vector<TokenId> expected;
  const double one =
      arrival_seconds([&] { return machine(1, links_of(LinkChoice::kAll)); }, expected);
  ASSERT_EQ(expected.size(), 6u);
  for (const int devices : {2, 4}) {
    std::vector<TokenId> answer;
    // A sanitizer's time is its own.
    const double enough = kSanitized ? INFINITY : 1.4 * one / devices;
    const double several = arrival_seconds(
        [&] { return machine(devices, links_of(LinkChoice::kAll)); }, answer, enough);
    EXPECT_EQ(answer, expected) << devices << " links";
    EXPECT_LT(several, enough) << devices << " links, " << one << " s over one";
  }
}

TEST_F(SeveralLinks, EveryLinkCarriesItsPart) {
  const auto opened = machine(2, links_of(LinkChoice::kAll));
  Served served(*opened, 1);
  served.add();
  (void)served.arrival_seconds();
  const auto stats = served.stats();
  ASSERT_EQ(stats.links.size(), 2u);
  EXPECT_GT(stats.links[0][0].direct, served.needed() / 4);
  EXPECT_GT(stats.links[1][0].relayed, served.needed() / 4);
  EXPECT_EQ(stats.links[0][0].direct + stats.links[1][0].relayed,
            stats.by_purpose[static_cast<std::size_t>(device::CopyPriority::kWeightsAhead)][0]);
}

TEST_F(SeveralLinks, OneDeviceIsOneLinkAndNothingBeside) {
  const auto opened = machine(1, links_of(LinkChoice::kAll));
  Served served(*opened, 0);
  EXPECT_EQ(served.slice().links()->links, 1);
  EXPECT_EQ(kExtent * served.slice().device().arena().free_extents() + mib(4),
            served.slice().device().capabilities().arena_bytes);
}

// The slice's own device relays for nobody, so that staging takes none of its memory.
TEST_F(SeveralLinks, RelaysAloneHaveStaging) {
  const auto opened = machine(2, links_of(LinkChoice::kAll));
  Served served(*opened, 0);
  EXPECT_EQ(served.slice().links()->links, 2);
  EXPECT_EQ(kExtent * served.slice().device().arena().free_extents() + mib(4),
            served.slice().device().capabilities().arena_bytes);
}

TEST_F(SeveralLinks, DevicesThatPassNothingOnAreLeftOut) {
  const auto opened = must(Machine::open_host(
      {.devices = 3,
       .links = device::make_link_tree({.devices = 3, .link = kLink, .peer_link = 0}),
       .extent_bytes = kExtent},
      links_of(LinkChoice::kAll), home_, clock_));
  Served served(*opened, 1);
  EXPECT_EQ(served.slice().links()->links, 1);
  served.add();
  EXPECT_EQ(served.answer(4).size(), 4u);
}

TEST_F(SeveralLinks, ARelayThatCannotBeOpenedIsLeftOut) {
  LinkOptions links = links_of(LinkChoice::kAll);
  links.engine.staging_bytes_max = Bytes(std::int64_t{1} << 56);  // no such addresses
  const auto opened = machine(3, links);
  Served served(*opened, 1);
  EXPECT_EQ(served.slice().links()->links, 1);
  EXPECT_NEAR(served.slice().links()->claim->rate(), kLink, 1);
  // It has its own link all the same.
  Served other(*opened, 0);
  EXPECT_EQ(other.slice().links()->links, 1);
}

// The machine of the map has four GPUs, of which this process sees two, and the map knows that the
// two help each other.
TEST_F(SeveralLinks, AMapIsReadForTheDevicesThatAreSeen) {
  transfer::LinkMap map;
  map.machine = "4x-test";
  map.links = 4;
  for (auto& own : map.own) {
    for (int link = 0; link < 4; ++link) own.push_back({LinkSet::of(link), kLink});
    own.push_back({LinkSet::of(1).with(2), 1.5 * kLink});
  }
  map.peers = {{1, 2, 100 * kLink}, {2, 1, 100 * kLink}};
  int asked = 0;
  LinkOptions links = links_of(LinkChoice::kMap);
  links.measured = [&]() -> Result<MeasuredLinks> {
    ++asked;
    return MeasuredLinks{map, {"a", "modelled0", "modelled1", "x"}};
  };
  {
    const auto opened = machine(2, links);
    Served served(*opened, 0);
    EXPECT_EQ(served.slice().links()->links, 2);
    EXPECT_NEAR(served.slice().links()->claim->rate(), 1.5 * kLink, 1);
  }
  // A map of other GPUs than the visible ones leaves the own link.
  links.measured = [&]() -> Result<MeasuredLinks> {
    ++asked;
    return MeasuredLinks{map, {"a", "b", "c", "d"}};
  };
  {
    const auto opened = machine(2, links);
    Served served(*opened, 0);
    EXPECT_EQ(served.slice().links()->links, 1);
  }
  links.measured = [&]() -> Result<MeasuredLinks> {
    ++asked;
    return not_found("none is kept");
  };
  {
    const auto opened = machine(2, links);
    Served served(*opened, 1);
    EXPECT_EQ(served.slice().links()->links, 1);
  }
  EXPECT_EQ(asked, 3);
  // One device: nobody is asked.
  EXPECT_EQ(machine(1, links)->gpus(), 1);
  EXPECT_EQ(asked, 3);
}

TEST_F(SeveralLinks, TwoSlicesPredictWithTheirShareOfOneSocket) {
  const auto opened = must(Machine::open_host(
      {.devices = 2,
       .links = device::make_link_tree(
           {.devices = 2, .link = kLink, .devices_per_switch = 2, .switch_link = 1.2 * kLink}),
       .extent_bytes = kExtent},
      links_of(LinkChoice::kOwn), home_, clock_));
  Served a(*opened, 0), b(*opened, 1);
  a.add();
  b.add();
  const transfer::LinkClaim& claim = *a.slice().links()->claim;
  EXPECT_NEAR(claim.rate(), kLink, 1);
  EXPECT_EQ(reserved(*opened), 0);
  const RequestId of_a = a.ask(4), of_b = b.ask(4);
  const Nanos end = clock_.now() + seconds(10);
  bool shared = false;
  while (!shared && clock_.now() < end) {
    opened->shares().check_integrity();
    shared = claim.rate() < 0.61 * kLink && claim.rate() > 0.59 * kLink;
  }
  EXPECT_TRUE(shared);
  EXPECT_TRUE(a.sink().wait_for_ends(1));
  EXPECT_TRUE(b.sink().wait_for_ends(1));
  EXPECT_EQ(a.sink().of(of_a).tokens, b.sink().of(of_b).tokens);
  EXPECT_EQ(reserved(*opened), 0);
}

// What another process may use is not there for this one's predictions; nothing is held back.
TEST_F(SeveralLinks, ALeaseIsAllThatIsDivided) {
  LinkOptions links = links_of(LinkChoice::kOwn);
  links.leased = true;
  const auto opened = machine(1, links);
  Served served(*opened, 0);
  served.add();
  const transfer::LinkClaim& claim = *served.slice().links()->claim;
  EXPECT_NEAR(claim.rate(), kLink, 1);
  EXPECT_EQ(opened->wanted(), transfer::LinkWants());
  opened->lease({.in = 0.25 * kLink, .out = 0.25 * kLink});
  EXPECT_NEAR(claim.rate(), 0.25 * kLink, 1);
  const RequestId asked = served.ask(4);
  const auto weights = static_cast<std::size_t>(device::CopyPriority::kWeightsAhead);
  const Nanos end = clock_.now() + seconds(10);
  double wanted = 0;
  while (wanted == 0 && clock_.now() < end) wanted = opened->wanted().in[weights];
  EXPECT_NEAR(wanted, kLink, 1);
  opened->lease({.in = 0.5 * kLink, .out = kLink});
  EXPECT_NEAR(claim.rate(), 0.5 * kLink, 1);
  opened->shares().check_integrity();
  EXPECT_TRUE(served.sink().wait_for_ends(1));
  EXPECT_EQ(served.sink().of(asked).tokens.size(), 4u);
  EXPECT_EQ(opened->wanted(), transfer::LinkWants());
  opened->lease({.in = 100 * kLink, .out = kLink});
  EXPECT_NEAR(claim.rate(), kLink, 1);
}

TEST_F(SeveralLinks, ASliceThatGoesDuringAnArrivalLeavesTheBookEmpty) {
  const auto opened = machine(2, links_of(LinkChoice::kAll));
  {
    Served served(*opened, 0);
    served.add();
    served.ask(4);
    const Nanos end = clock_.now() + seconds(10);
    while (reserved(*opened) == 0 && clock_.now() < end) opened->shares().check_integrity();
    EXPECT_GT(reserved(*opened), 0);
    served.stop();
  }
  EXPECT_EQ(reserved(*opened), 0);
  opened->shares().check_integrity();
}

}  // namespace
}  // namespace causeway::slice::several_links_test
