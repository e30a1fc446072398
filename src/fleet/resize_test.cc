// A fleet whose slices are closed and opened while it serves: LocalFleet, slices of the CPU, models
// of random weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>
#include <thread>

#include "base/random.h"
#include "base/testing/temporary_directory.h"
#include "engine/testing/collecting_sink.h"
#include "fleet/engine_slice.h"
#include "fleet/local_fleet.h"
#include "fleet/testing/snapshot.h"
#include "slice/host_slice.h"

namespace causeway::fleet::resize_test {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kModels = 3;
constexpr std::int64_t kVocab = 258;  // of a snapshot's
constexpr Bytes kFrame = kib(4);      // 16 tokens

class RandomHome final : public FleetHome {
 public:
  RandomHome(slice::ModelHome& home, model::ModelCard card) : home_(home), card_(std::move(card)) {}
  Result<HostRoom> room_for(const CatalogueEntry&, const ModelSource&) override {
    const weights::PoolUse use = home_.pool.use();
    return HostRoom{card_.layout.bytes, use.used, use.budget};
  }
  Status load(const CatalogueEntry& entry, const ModelSource&, const LoadWatch&) override {
    const auto fill = [&](std::span<std::byte> memory) -> Status {
      Random random(100 + static_cast<std::uint64_t>(entry.id.value));
      for (std::size_t i = 0; i + sizeof(float) <= memory.size(); i += sizeof(float)) {
        const auto value = static_cast<float>(random.uniform() - 0.5) * 0.3f;
        std::memcpy(&memory[i], &value, sizeof value);
      }
      return {};
    };
    return home_.pool.make(entry.id, card_.layout, fill, {});
  }
  void unload(ModelId model) override { EXPECT_TRUE(home_.pool.unload(model).ok()); }

 private:
  slice::ModelHome& home_;
  const model::ModelCard card_;
};

class HostSlices final : public SliceOpener {
 public:
  HostSlices(slice::Machine& machine, engine::OutputSink& sink) : machine_(machine), sink_(sink) {}

  // What the test wants next; looked at when the fleet asks.
  std::function<std::optional<LayoutChange>(std::span<const ModelDemand>)> wants;
  std::atomic<bool> fails = false;

  std::optional<LayoutChange> decide(std::span<const ModelDemand> demands, Nanos) override {
    return wants ? wants(demands) : std::nullopt;
  }
  SlicesOpened reopen(const LayoutChange& change) override {
    for (const FleetSlice* closing : change.closing) {
      const auto count =
          std::erase_if(open_, [&](const auto& one) { return one->seen.get() == closing; });
      EXPECT_EQ(count, 1u);
    }
    SlicesOpened opened;
    if (fails) {
      opened.failure = "the test lets it fail";
      return opened;
    }
    for (const slice::SlicePart& part : change.opening) opened.slices.push_back(open(part));
    opened.specs.resize(opened.slices.size());
    return opened;
  }
  FleetSlice* open(const slice::SlicePart& part) {
    slice::HostSliceOptions options{.kv = mib(1), .kv_frame = kFrame, .threads = part.processors};
    options.engine.core.prefix_hash_seed = 1;
    auto one = std::make_unique<Open>();
    one->slice = slice::open_host_slice(options, machine_, sink_).value();
    one->seen = std::make_unique<EngineSlice>(machine_.home(), *one->slice);
    open_.push_back(std::move(one));
    return open_.back()->seen.get();
  }
  std::vector<FleetSlice*> all() const {
    std::vector<FleetSlice*> all;
    for (const auto& one : open_) all.push_back(one->seen.get());
    return all;
  }

 private:
  struct Open {
    std::unique_ptr<slice::Slice> slice;
    std::unique_ptr<EngineSlice> seen;
  };
  slice::Machine& machine_;
  engine::OutputSink& sink_;
  std::vector<std::unique_ptr<Open>> open_;  // the loader's, while a change is under way
};

class ResizeTest : public ::testing::Test {
 protected:
  ResizeTest() { testing::write_snapshot(directory_.path()); }
  void start(int slices, Nanos drain_max, bool resizable = true,
             PlacementKind placement = PlacementKind::kBandwidth) {
    machine_ = slice::Machine::open_host({.extent_bytes = kib(64)}, {}, home_, clock_).value();
    models_home_ = std::make_unique<RandomHome>(
        home_, slice::host_card(model::load_config(directory_.path()).value(), kFrame).value());
    slices_ = std::make_unique<HostSlices>(*machine_, fleet_sink_);
    slices_->wants = wants_;
    FleetSlices opened;
    for (int i = 0; i < slices; ++i) opened.slices.push_back(slices_->open({.processors = 1}));
    if (resizable) opened.opener = slices_.get();
    std::vector<CatalogueModel> models;
    for (std::int64_t id = 0; id < kModels; ++id) {
      auto entry = std::make_unique<CatalogueEntry>();
      entry->id = ModelId(id);
      entry->name = "small-" + std::to_string(id);
      entry->max_model_len = Tokens(128);
      entry->vocab = kVocab;
      models.push_back({std::move(entry), {"small", directory_.path()}, id == 0, {}});
      models.back().spec.weights = mib(1);
    }
    fleet_ = LocalFleet::start(
                 std::move(models),
                 {.room_timeout = seconds(60), .placement = placement, .drain_max = drain_max},
                 *models_home_, std::move(opened), fleet_sink_)
                 .value();
    ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  }
  void TearDown() override {
    const bool stopped = !fleet_ || fleet_->stop();
    EXPECT_TRUE(stopped);
    fleet_.reset();
  }

  // One of kKinds requests, of which some are sampled, and some penalised.
  static constexpr std::int64_t kKinds = 24;
  request::Request kind(std::int64_t kind, std::int64_t id) {
    request::Request request;
    request.id = RequestId(id);
    request.model = ModelId(kind % kModels);
    for (std::int64_t i = 0; i <= kind % 20; ++i) {
      request.prompt.push_back(static_cast<TokenId>((kind * 31 + i * 7) % kVocab));
    }
    request.max_tokens = Tokens(10 + 3 * kind);
    request.arrival = clock_.now();
    request.sampling.seed = static_cast<std::uint64_t>(1000 + kind);
    request.sampling.temperature = kind % 3 == 1 ? 0.9f : 0;
    if (kind % 4 == 1) request.sampling.frequency_penalty = 0.4f;
    if (kind % 4 == 2) request.sampling.repetition_penalty = 1.2f;
    return request;
  }
  bool ends(std::int64_t id) {
    return wait_until([&] { return sink_.of(RequestId(id)).ends > 0; });
  }
  template <typename Holds>
  bool wait_until(Holds holds) {
    const Nanos until = clock_.now() + seconds(20);
    while (!holds()) {
      if (clock_.now() > until) return false;
      std::unique_lock lock(never_mutex_);
      never_.wait_for(lock, std::chrono::microseconds(500));
    }
    return true;
  }
  // All slices for `count` others, as soon as nothing is loaded.
  void resize(int count) {
    LayoutChange change{.closing = slices_->all(), .opening = {}, .why = "the test wants it"};
    change.opening.assign(static_cast<std::size_t>(count), {.processors = 1, .whole = false});
    ASSERT_TRUE(wait_until([&] {
      const Status begun = fleet_->resize(change);
      EXPECT_TRUE(begun.ok() || begun.error().code == ErrorCode::kUnavailable);
      return begun.ok();
    }));
    ASSERT_TRUE(fleet_->wait_until_resized(seconds(20)));
  }

  // Requests of all kinds, of which some are cancelled, while `disturb` is called 20 times or more:
  // each is answered as one that was undisturbed.
  void serve_under(const std::function<void(Random&)>& disturb);
  std::int64_t most_at_once_ = 32;

  std::function<std::optional<LayoutChange>(std::span<const ModelDemand>)> wants_;
  const RealClock clock_;
  TemporaryDirectory directory_;
  slice::ModelHome home_{clock_, gib(1)};
  engine::CollectingSink sink_;
  SerialSink fleet_sink_{sink_};
  std::unique_ptr<slice::Machine> machine_;
  std::unique_ptr<RandomHome> models_home_;
  std::unique_ptr<HostSlices> slices_;
  std::unique_ptr<LocalFleet> fleet_;
  std::mutex never_mutex_;
  std::condition_variable never_;
};

void ResizeTest::serve_under(const std::function<void(Random&)>& disturb) {
  constexpr std::int64_t kUndisturbed = 1'000'000;
  std::vector<std::vector<TokenId>> expected;
  for (std::int64_t i = 0; i < kKinds; ++i) {
    ASSERT_TRUE(fleet_->submit(kind(i, kUndisturbed + i)).ok());
    ASSERT_TRUE(ends(kUndisturbed + i));
    expected.push_back(sink_.of(RequestId(kUndisturbed + i)).tokens);
    ASSERT_EQ(std::ssize(expected.back()), 10 + 3 * i);
  }
  const int before = sink_.ends();
  std::atomic<bool> stop = false;
  std::set<std::int64_t> cancelled;
  std::int64_t asked = 0;
  std::thread clients([&] {
    while (!stop) {
      if (asked - (sink_.ends() - before) >= most_at_once_) {
        std::this_thread::yield();
        continue;
      }
      EXPECT_TRUE(fleet_->submit(kind(asked % kKinds, asked)).ok());
      if (++asked % 29 != 0) continue;
      cancelled.insert(asked - 1);
      fleet_->cancel(RequestId(asked - 1));
    }
  });
  Random random(7);
  const Nanos latest = clock_.now() + seconds(30);
  // A slow machine takes longer to answer as many.
  const auto enough = [&] {
    return sink_.ends() - before > 60 && fleet_->observe().requests_resumed > 12;
  };
  for (int i = 0; (i < 20 || (!enough() && clock_.now() < latest)) && !HasFatalFailure(); ++i) {
    const Nanos until = clock_.now() + micros(random.between(0, 30'000));
    EXPECT_TRUE(wait_until([&] { return clock_.now() >= until; }));
    disturb(random);
  }
  stop = true;
  clients.join();
  std::int64_t answered = 0;
  for (std::int64_t id = 0; id < asked; ++id) {
    ASSERT_TRUE(ends(id)) << id << " of " << asked;
    const engine::Collected answer = sink_.of(RequestId(id));
    EXPECT_EQ(answer.ends, 1) << id;
    if (answer.end->reason == request::FinishReason::kCancelled) {
      EXPECT_TRUE(cancelled.contains(id)) << id;
      continue;
    }
    EXPECT_EQ(answer.end->reason, request::FinishReason::kLength) << answer.end->error;
    EXPECT_EQ(answer.tokens, expected[static_cast<std::size_t>(id % kKinds)]) << id;
    answered += 1;
  }
  const request::Observation seen = fleet_->observe();
  std::cout << answered << " answered, " << seen.requests_resumed << " of them went on elsewhere\n";
  EXPECT_GT(answered, 20);
  EXPECT_GT(seen.requests_resumed, 5);
}

// Some drain in time, and some go on elsewhere.
TEST_F(ResizeTest, TwentyTimesUnderLoadEveryRequestIsAnsweredAsEver) {
  start(2, millis(2));
  serve_under([&](Random& random) {
    resize(static_cast<int>(random.between(1, 3)));
    // Counters that a scraper sees never go down.
    EXPECT_GE(fleet_->observe().generated_tokens, 1000);
  });
}

// Models go where they were, and have those that run there go elsewhere.
TEST_F(ResizeTest, WhereModelsMigrateEveryRequestIsAnsweredAsEver) {
  start(2, seconds(1), /*resizable=*/false, PlacementKind::kLocality);
  most_at_once_ = 2;  // so that slices are idle
  serve_under([](Random&) {});
}

TEST_F(ResizeTest, WhatEndsInTimeIsNotComputedAgain) {
  start(1, seconds(20));
  ASSERT_TRUE(fleet_->submit(kind(23, 1)).ok());
  ASSERT_TRUE(sink_.wait_for_tokens(RequestId(1), 1));
  resize(2);
  EXPECT_TRUE(ends(1));
  EXPECT_EQ(fleet_->observe().requests_resumed, 0);
  ASSERT_TRUE(fleet_->submit(kind(23, 2)).ok());
  ASSERT_TRUE(ends(2));
  EXPECT_EQ(sink_.of(RequestId(1)).tokens, sink_.of(RequestId(2)).tokens);
}

TEST_F(ResizeTest, TheOpenerDecidesByWhatIsAskedFor) {
  std::atomic<double> rate = 0, prompt = 0, output = 0;
  wants_ = [&, once = false](std::span<const ModelDemand> seen) mutable {
    std::optional<LayoutChange> change;
    if (once || seen.size() != kModels || seen[2].output == 0) return change;
    once = true;
    rate = seen[2].rate;
    prompt = seen[2].prompt;
    output = seen[2].output;
    change = LayoutChange{.closing = slices_->all(), .opening = {{}, {}}, .why = "it was asked"};
    return change;
  };
  start(1, millis(10));
  for (std::int64_t id = 0; id < 3; ++id) {
    ASSERT_TRUE(fleet_->submit(kind(5, id)).ok());
    ASSERT_TRUE(ends(id));
  }
  ASSERT_TRUE(wait_until([&] { return output > 0; }));
  EXPECT_NEAR(prompt, 6, 1e-6);
  EXPECT_NEAR(output, 25, 1e-6);
  EXPECT_GT(rate, 0.05);
  ASSERT_TRUE(fleet_->wait_until_resized(seconds(20)));
  EXPECT_EQ(slices_->all().size(), 2u);
  ASSERT_TRUE(fleet_->submit(kind(5, 10)).ok());
  ASSERT_TRUE(ends(10));
}

TEST_F(ResizeTest, WhereNoneCanBeOpenedRequestsEndAndTheFleetIsLost) {
  start(1, millis(1));
  slices_->fails = true;
  ASSERT_TRUE(fleet_->submit(kind(23, 1)).ok());
  ASSERT_TRUE(sink_.wait_for_tokens(RequestId(1), 1));
  resize(2);
  ASSERT_TRUE(ends(1));
  EXPECT_THAT(fleet_->observe().lost, HasSubstr("the test lets it fail"));
  EXPECT_THAT(fleet_->submit(kind(2, 2)).error().message, HasSubstr("all slices were lost"));
}

TEST_F(ResizeTest, SlicesStayWhereNobodyOpensOthers) {
  start(1, millis(1), /*resizable=*/false);
  const LayoutChange change{.closing = slices_->all(), .opening = {{}}, .why = ""};
  EXPECT_EQ(fleet_->resize(change).error().code, ErrorCode::kUnsupported);
}

TEST_F(ResizeTest, ChangesThatMakeNoSenseAreRefused) {
  start(1, millis(1));
  EXPECT_EQ(fleet_->resize({.closing = {nullptr}, .opening = {{}}, .why = ""}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(fleet_->resize({.closing = slices_->all(), .opening = {}, .why = ""}).error().code,
            ErrorCode::kInvalidArgument);
  ASSERT_TRUE(fleet_->stop());
  EXPECT_EQ(fleet_->resize({.closing = slices_->all(), .opening = {{}}, .why = ""}).error().code,
            ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace causeway::fleet::resize_test
